"""The protocols of what the shard manager needs from the consumer, the notifier and the watermarks.

It must not import the engine nor Faust.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from faust.types import TP

from streams.engine.alerts.alert import Alert
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.shard import Shard


class AlertSink(Protocol):
    """Whoever tells people of alerts."""

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Tell of these changes of status, whose rows are stored, in their order."""
        ...

    def resume(self, shards: Iterable[int]) -> None:
        """Tell what the earlier owners of these shards stored and did not tell."""
        ...

    def release(self, shards: Iterable[int]) -> None:
        """Leave to others what waits for these shards."""
        ...


class NoAlertSink:
    """Alerts are stored and not sent."""

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Nothing."""

    def resume(self, shards: Iterable[int]) -> None:
        """Nothing."""

    def release(self, shards: Iterable[int]) -> None:
        """Nothing."""


class WatermarkSource(Protocol):
    """Knows how far the log of a shard has been read."""

    def clock_ms(self) -> int:
        """No tick after this instant can be judged yet."""
        ...

    def latest_ms(self) -> int:
        """No record was appended after this instant, whatever its log time says."""
        ...

    def live_ms(self) -> int | None:
        """What time it is by the log, if that is known for sure."""
        ...

    def restore(self, log_ms: int) -> None:
        """The log has come at least as far as this, by what an earlier owner stored."""
        ...

    def observe(self, log_ms: int) -> None:
        """A record of this log time is there."""
        ...

    def observe_batch(self, batch: LogBatch) -> None:
        """A batch came, of whatever shard."""
        ...

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """The log time up to which a partition has no record from `next_offset` on; -1: not known."""
        ...


#: A shard of this number from its book and the blobs of its newest snapshot (none: a new shard).
ShardFactory = Callable[[int, PriceBook, Sequence[bytes]], Shard]


class LogConsumer(Protocol):
    """The transport's consumer, as far as the shard manager steers it."""

    def is_member(self) -> bool:
        """Whether the group may still count on us."""
        ...

    async def confirm(self, generation: int) -> bool:
        """Whether the group is in this generation at some instant from now on; waits for it to answer."""
        ...

    async def refetch(self, tp: TP, log_offset: int) -> None:
        """Read again from an offset of the log."""
        ...

    async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = ...) -> bool:
        """Commit; False if refused, never an exception."""
        ...
