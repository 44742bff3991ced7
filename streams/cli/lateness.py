"""Predicts which events of a file the meter will refuse as `too_late`, for `trainfare publish`.

It predicts too few at most: other producers' events may come between those of the file, and make more of them late.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, NamedTuple

from schemas.decode import decode
from schemas.events import GpuEvent
from schemas.invalid import Invalid
from streams.config.settings import MeterSettings
from streams.engine.rules.formatting import instant
from streams.engine.settings import FUTURE_MS
from streams.topics import SHARD_TOPICS, Topic
from streams.transport.partitions import partition_of

_SHARDED: Final = frozenset(SHARD_TOPICS)


class _LateEvent(NamedTuple):
    where: str
    why: str


class Lateness:
    """Judges events in the order in which they will be sent, by the horizons of the meter.

    Args:
        meter: The horizons.
        partitions: Of each topic.
        newest_ms: The newest event time that is known to be in the log, by topic and partition.
        now_ms: Events later than it by more than the allowed skew will be refused as `future`: they make none late.
    """

    def __init__(
        self, meter: MeterSettings, partitions: int, newest_ms: Mapping[tuple[str, int], int], now_ms: int
    ) -> None:
        self._meter = meter
        self._partitions = partitions
        self._newest_ms = dict(newest_ms)
        self._newest_sample_s: dict[tuple[str, int, str, str], int] = {}
        self._newest_allowed_ms = now_ms + FUTURE_MS
        self.count = 0
        self.first: _LateEvent | None = None

    def add(
        self,
        where: str,
        topic: Topic,
        key: bytes,
        value: bytes | None,
        headers: Sequence[tuple[str, bytes | None]],
    ) -> None:
        """Judge the next event; `where`: its file and line."""
        if topic not in _SHARDED:
            return  # prices and controls are never late
        event = decode(topic, value, headers, self._newest_allowed_ms)
        if isinstance(event, Invalid):
            return  # refused for another reason, and no newest event
        partition = (topic.value, partition_of(key, self._partitions))
        newest_ms = self._newest_ms.get(partition, event.time_ms)
        if event.time_ms < newest_ms - self._meter.job_horizon_ms:
            self._late(
                where,
                f"its time_ms, {instant(event.time_ms)}, is more than meter.job_horizon_ms "
                f"({_span(self._meter.job_horizon_ms)}) before the newest event of its partition "
                f"({topic}/{partition[1]}: {instant(newest_ms)})",
            )
            return
        self._newest_ms[partition] = max(newest_ms, event.time_ms)
        if isinstance(event, GpuEvent) and self._is_late_sample(event):
            self._late(
                where,
                f"all its GPUs begin more than meter.late_horizon_ms ({_span(self._meter.late_horizon_ms)}) before their "
                "newest sample",
            )

    def _is_late_sample(self, event: GpuEvent) -> bool:
        """Whether every GPU is late, as the kernel judges it; of a timely sample, their newest seconds are remembered."""
        begin_s, end_s = (event.time_ms - event.interval_ms) // 1000, event.time_ms // 1000
        horizon_s = self._meter.late_horizon_ms // 1000
        keys = [(event.job_id, event.attempt if event.job_id else 0, event.node, gpu) for gpu in event.gpus]
        known = self._newest_sample_s
        if keys and all(begin_s < known.get(key, begin_s) - horizon_s for key in keys):
            return True
        for key in keys if end_s > begin_s else ():
            newest_s = known.get(key, begin_s)
            if begin_s >= newest_s - horizon_s:
                known[key] = max(newest_s, end_s - 1)
        return False

    def _late(self, where: str, why: str) -> None:
        self.count += 1
        if self.first is None:
            self.first = _LateEvent(where, why)


def warning(lateness: Lateness, total: int) -> str:
    """What a user shall know before the events are sent; empty if none is late."""
    if lateness.first is None:
        return ""
    count = f"{lateness.count:,} of {total:,} event{'s' * (total != 1)}"
    return (
        f"the meter will refuse {count} as too_late, the first at {lateness.first.where}: {lateness.first.why}. "
        "`trainfare backfill FILE` meters the past; `trainfare replay FILE --data DIR` meters it in a store of its own. "
        "(Judged by the horizons of this shell's settings; a worker may have others.)"
    )


def _span(ms: int) -> str:
    return str(timedelta(milliseconds=ms))
