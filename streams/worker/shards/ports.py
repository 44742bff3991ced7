"""Protocols of what the shard manager needs from the consumer, the notifier and the watermarks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

from streams.engine.alerts.alert import Alert
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.shard.shard import Shard
from streams.transport.faust_types import TP


class AlertSink(Protocol):
    """Sends alerts to people."""

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Queue these status changes, in their order. Their rows are stored already."""
        ...

    def resume(self, shards: Iterable[int]) -> None:
        """Queue what the former owners of these shards stored and did not send."""
        ...

    def resume_receipts(self) -> None:
        """Queue receipts that a former owner stored after `resume` and did not send."""
        ...

    def release(self, shards: Iterable[int]) -> None:
        """Drop what is queued for these shards: their new owners send it."""
        ...


class NoAlertSink:
    """Alerts are stored and not sent."""

    def offer(self, alerts: Iterable[Alert], shard: int) -> None:
        """Do nothing."""

    def resume(self, shards: Iterable[int]) -> None:
        """Do nothing."""

    def resume_receipts(self) -> None:
        """Do nothing."""

    def release(self, shards: Iterable[int]) -> None:
        """Do nothing."""


class WatermarkSource(Protocol):
    """Knows how far the log of a shard has been read, and what time it is by the log."""

    def clock_ms(self) -> int:
        """Log time: no later tick can be judged yet."""
        ...

    def latest_ms(self) -> int:
        """An upper bound of append times: a record beyond it has a wrong timestamp."""
        ...

    def live_ms(self) -> int | None:
        """Log time if it is known for certain, else None."""
        ...

    def restore(self, log_ms: int) -> None:
        """Raise log time to at least `log_ms`, which a former owner reached."""
        ...

    def observe(self, log_ms: int) -> None:
        """Take into account that a record with this log time exists."""
        ...

    def observe_batch(self, batch: LogBatch) -> None:
        """Take into account the log times of a batch of any shard."""
        ...

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        """The log time up to which a partition has no record at or after `next_offset`; -1: unknown."""
        ...


#: Builds a shard from its number, its price book and the blobs of its newest snapshot (none: a new shard).
ShardFactory = Callable[[int, PriceBook, Sequence[bytes]], Shard]


class LogConsumer(Protocol):
    """The part of the transport's consumer that the shard manager controls."""

    def is_member(self) -> bool:
        """Whether the group still counts this worker as a member."""
        ...

    async def confirm(self, generation: int) -> bool:
        """Wait for the group's answer; return whether it is in this generation at some instant from now on."""
        ...

    async def refetch(self, tp: TP, log_offset: int) -> None:
        """Seek to an offset of the log."""
        ...

    async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = ...) -> bool:
        """Commit offsets; return False if refused. Never raises."""
        ...
