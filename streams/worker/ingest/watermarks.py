"""Watermarks of the shards' partitions: from Kafka's high watermarks, or from marks where we feed the log ourselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from schemas.durations import NEVER_MS
from streams.engine.batch import LogBatch
from streams.engine.raw_records import RawRecords
from streams.topics import REFERENCE_TOPICS, full_name
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from streams.worker.log_time import LogTime

#: A record becomes visible a little after it was appended, and brokers' clocks differ.
_MARGIN_MS: Final = 100
#: A partition that cannot be reached for this long cannot be appended to either: ticks proceed without it.
_PATIENCE_MS: Final = 30_000


class LogEnds(Protocol):
    """The part of the transport's consumer that knows log ends."""

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of a partition as of the last fetch response; None before the first."""
        ...


class KafkaWatermarks:
    """Watermarks of a log that others write."""

    def __init__(
        self,
        consumer: Callable[[], LogEnds],
        topic_prefix: str,
        log_time: LogTime,
    ) -> None:
        self._consumer = consumer
        self._prefix = topic_prefix
        self._log = log_time
        self._ends: dict[
            tuple[str, int], LogEnd
        ] = {}  # as of the last fetch response after which everything was read

    def clock_ms(self) -> int:
        """Log time: no later tick can be judged yet."""
        return self._log.now_ms()

    def latest_ms(self) -> int:
        """Log time plus a tolerance for brokers' clocks: a record beyond it has a wrong timestamp."""
        return self._log.now_ms() + _PATIENCE_MS

    def live_ms(self) -> int | None:
        """Log time once the end of the log has confirmed it."""
        return self._log.live_ms

    def restore(self, log_ms: int) -> None:
        """Take into account how far a restored shard has judged."""
        self._log.restore(log_ms)

    def observe(self, log_ms: int) -> None:
        """Take into account the log time of a price or control."""
        self._log.observe(log_ms, log_ms, None)

    def observe_batch(self, batch: LogBatch) -> None:
        """Take into account the log times of a batch; records beyond an earlier log end also bound log time from above."""
        if not len(batch.records):
            return
        known = self._ends.get((batch.topic, batch.partition))
        is_news = known is not None and batch.start >= known.high_watermark
        since_ms = known.answered_ms if known is not None and is_news else None
        self._log.observe(*_log_times(batch), since_ms)

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """The log time of the last fetch response after which everything was read; -1: unknown."""
        tp = TP(full_name(topic, self._prefix), number)
        end = self._consumer().log_end(tp)
        if end is None or next_offset < end.readable:
            return -1
        self._ends[topic, number] = end
        return max(self._log.at_ms(end.answered_ms) - _MARGIN_MS, self._log.now_ms() - _PATIENCE_MS)


def _log_times(batch: LogBatch) -> tuple[int, int]:
    """The log times of the first and the last record."""
    records = batch.records
    if isinstance(records, RawRecords):
        return int(records.log_ms[0]), int(records.log_ms[-1])
    return records[0].timestamp, records[-1].timestamp


class Mark(NamedTuple):
    """Every record with log time <= `log_ms` has been sent; `counts` has their number by (topic, partition)."""

    log_ms: int
    counts: Mapping[tuple[str, int], int]


class ReplayWatermarks:
    """Watermarks of a log that we feed ourselves; any thread may set `mark`."""

    def __init__(self) -> None:
        self.mark = Mark(-1, {})
        #: Topic -> next offset of prices and controls; the reader replaces the mapping as a whole.
        self.reference_next: Mapping[str, int] = {}

    def clock_ms(self) -> int:
        """The mark's log time: no later tick can be judged yet."""
        return self.mark.log_ms

    def latest_ms(self) -> int:
        """No bound: the log times are our own."""
        return NEVER_MS

    def live_ms(self) -> int | None:
        """None: marks take the place of log time."""
        return None

    def restore(self, log_ms: int) -> None:
        """Do nothing: marks continue where the log ended."""

    def observe(self, log_ms: int) -> None:
        """Do nothing: marks include these records."""

    def observe_batch(self, batch: LogBatch) -> None:
        """Do nothing: marks include these records."""

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """The mark's log time once everything sent before it has been read, including prices and controls; else -1."""
        mark, read = self.mark, self.reference_next
        for reference in REFERENCE_TOPICS:
            if read.get(reference, 0) < mark.counts.get((str(reference), 0), 0):
                return -1
        return mark.log_ms if next_offset >= mark.counts.get((topic, number), 0) else -1
