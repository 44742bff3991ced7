"""How far the log is known to have been read: on Kafka by its high watermarks, of a log we feed ourselves by marks.

It must not read records, nor a clock: the time is handed in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol

from faust.types import TP

from streams.kernels.arrays import NEVER_MS
from streams.topics import REFERENCE_TOPICS, full_name

#: Brokers' clocks differ from ours, and a record becomes visible a little after it was appended.
_MARGIN_MS: Final = 100
#: Nothing can be appended to a partition that cannot be reached for so long: ticks go on without it.
_PATIENCE_MS: Final = 30_000


class LogEnds(Protocol):
    """The transport's consumer, as far as it knows ends."""

    def log_end(self, tp: TP) -> tuple[int, int] | None:
        """(end of a partition, instant in ms) as of the last answer to a fetch; None before the first."""
        ...


class KafkaHorizons:
    """Of a log that others write."""

    def __init__(
        self,
        consumer: Callable[[], LogEnds],
        topic_prefix: str,
        clock_ms: Callable[[], int],
    ) -> None:
        self._consumer = consumer
        self._prefix = topic_prefix
        self._clock_ms = clock_ms

    def clock_ms(self) -> int:
        """No tick after this instant can be judged yet."""
        return self._clock_ms()

    def latest_ms(self) -> int:
        """Brokers' clocks may go before ours, but a log time of tomorrow is a wrong clock's."""
        return self._clock_ms() + _PATIENCE_MS

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """Up to the last answer that said we have read everything."""
        tp = TP(full_name(topic, self._prefix), number)
        end = self._consumer().log_end(tp)
        if end is None or next_offset < end[0]:
            return -1
        return max(end[1] - _MARGIN_MS, self._clock_ms() - _PATIENCE_MS)


class Mark(NamedTuple):
    """Every record with log time <= log_ms has been sent; so many there are of each (topic, partition)."""

    log_ms: int
    counts: Mapping[tuple[str, int], int]


class FedHorizons:
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

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """Up to the mark, once all that was sent before it has been read, prices and controls included."""
        mark, read = self.mark, self.reference_next
        for reference in REFERENCE_TOPICS:
            if read.get(reference, 0) < mark.counts.get((str(reference), 0), 0):
                return -1
        return mark.log_ms if next_offset >= mark.counts.get((topic, number), 0) else -1
