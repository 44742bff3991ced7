"""Watermarks of the shards' partitions: from Kafka's high watermarks, or from marks where we feed the log ourselves.

It must not read a clock: the time is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from faust.types import TP

from streams.engine.batch import LogBatch
from streams.engine.kernels.arrays import NEVER_MS
from streams.engine.raw_records import RawRecords
from streams.topics import REFERENCE_TOPICS, full_name
from streams.transport.answers import LogEnd
from streams.worker.ingest.log_time import LogTime

#: Brokers' clocks differ from ours, and a record becomes visible a little after it was appended.
_MARGIN_MS: Final = 100
#: Nothing can be appended to a partition that cannot be reached for so long: ticks go on without it.
_PATIENCE_MS: Final = 30_000


class LogEnds(Protocol):
    """The transport's consumer, as far as it knows ends."""

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of a partition as of the last answer to a fetch; None before the first."""
        ...


class KafkaWatermarks:
    """Of a log that others write."""

    def __init__(
        self,
        consumer: Callable[[], LogEnds],
        topic_prefix: str,
        log_time: LogTime,
    ) -> None:
        self._consumer = consumer
        self._prefix = topic_prefix
        self._log = log_time
        self._ends: dict[tuple[str, int], LogEnd] = {}  # as of the last answer that said that all is read

    def clock_ms(self) -> int:
        """No tick after this instant can be judged yet."""
        return self._log.now_ms()

    def latest_ms(self) -> int:
        """Brokers' clocks may differ, but a log time of tomorrow is a wrong clock's."""
        return self._log.now_ms() + _PATIENCE_MS

    def live_ms(self) -> int | None:
        """Log time, once the end of the log has said what it is."""
        return self._log.live_ms

    def restore(self, log_ms: int) -> None:
        """A shard that was restored has judged as far as this."""
        self._log.restore(log_ms)

    def observe(self, log_ms: int) -> None:
        """A price or a control is there."""
        self._log.observe(log_ms, log_ms, None)

    def observe_batch(self, batch: LogBatch) -> None:
        """Records say what time it is; those that an answer before did not have, up to when they were not there."""
        if not len(batch.records):
            return
        known = self._ends.get((batch.topic, batch.partition))
        is_news = known is not None and batch.start >= known.high_watermark
        since_ms = known.answered_ms if known is not None and is_news else None
        self._log.observe(*_log_times(batch), since_ms)

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """Up to the last answer that said we have read everything."""
        tp = TP(full_name(topic, self._prefix), number)
        end = self._consumer().log_end(tp)
        if end is None or next_offset < end.readable:
            return -1
        self._ends[topic, number] = end
        return max(self._log.at_ms(end.answered_ms) - _MARGIN_MS, self._log.now_ms() - _PATIENCE_MS)


def _log_times(batch: LogBatch) -> tuple[int, int]:
    """Of the first record and the last one."""
    records = batch.records
    if isinstance(records, RawRecords):
        return int(records.log_ms[0]), int(records.log_ms[-1])
    return records[0].timestamp, records[-1].timestamp


class Mark(NamedTuple):
    """Every record with log time <= log_ms has been sent; so many there are of each (topic, partition)."""

    log_ms: int
    counts: Mapping[tuple[str, int], int]


class ReplayWatermarks:
    """Of a log that we feed ourselves; `mark` may be set by any thread."""

    def __init__(self) -> None:
        self.mark = Mark(-1, {})
        #: Topic -> how far prices and controls have been read; replaced whole by whoever reads them.
        self.reference_next: Mapping[str, int] = {}

    def clock_ms(self) -> int:
        """No tick after this instant can be judged yet."""
        return self.mark.log_ms

    def latest_ms(self) -> int:
        """Log times are ours."""
        return NEVER_MS

    def live_ms(self) -> int | None:
        """Marks say it, and no clock."""
        return None

    def restore(self, log_ms: int) -> None:
        """Marks go on where the log was left."""

    def observe(self, log_ms: int) -> None:
        """Marks know of it."""

    def observe_batch(self, batch: LogBatch) -> None:
        """Marks say what time it is."""

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """Up to the mark, once all that was sent before it has been read, prices and controls included."""
        mark, read = self.mark, self.reference_next
        for reference in REFERENCE_TOPICS:
            if read.get(reference, 0) < mark.counts.get((str(reference), 0), 0):
                return -1
        return mark.log_ms if next_offset >= mark.counts.get((topic, number), 0) else -1
