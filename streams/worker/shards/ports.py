"""What the shard manager needs of a shard and of the consumer: protocols, so that tests can stand in for both.

It must not import the engine nor Faust.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Protocol

import pyarrow as pa
from faust.types import TP

from streams.engine.alerts.alert import Alert
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceView
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.shard.books import Books
from streams.engine.shard.sequencer import Ticks


class Checkpoint(Protocol):
    """What one shard wants stored: rows first, then the snapshot, then the offsets."""

    @property
    def version(self) -> int:
        """Above all versions of the shard before."""
        ...

    @property
    def parent(self) -> int:
        """The version whose snapshot this one continues; 0 for the first."""

    @property
    def root(self) -> int:
        """The oldest version that a restore needs from now on."""

    @property
    def frees(self) -> bool:
        """Whether the root moved: what is older may be forgotten."""
        ...

    @property
    def tables(self) -> Mapping[str, pa.Table]:
        """Rows by table."""
        ...

    @property
    def snapshot(self) -> bytes:
        """The state, or what changed of it."""
        ...

    @property
    def next(self) -> Mapping[str, int]:
        """Topic -> the offset up to which all of this accounts for."""
        ...

    @property
    def rows(self) -> int:
        """How many rows there are."""
        ...

    @property
    def more(self) -> bool:
        """Whether rows are left over for another checkpoint."""
        ...

    @property
    def alerts(self) -> Sequence[Alert]:
        """Alerts whose rows are among the tables, in the order of their changes."""
        ...


class Shard(Protocol):
    """`streams.engine.shard.shard.Shard`, as far as it is kept here."""

    @property
    def next(self) -> dict[str, int]:
        """Topic -> next offset to read."""
        ...

    @property
    def books(self) -> Books:
        """What became of every record."""
        ...

    @property
    def price_news(self) -> PriceChanges | None:
        """How the book at `restore` differs from that of the snapshot."""
        ...

    tick_ms: int | None
    #: Rows above this version may be an earlier owner's that came late; None: only those newer than the snapshot.
    unswept_from: int | None

    def judge(self, ticks: Ticks, view: ReferenceView) -> None:
        """Judge what the jobs burn at these ticks, with the prices and controls known then."""
        ...

    def look(self, now_ms: int, view: ReferenceView) -> None:
        """Note the burn rates of jobs that changed since the last tick, as of an instant after it."""
        ...

    def rewind(self, tick_ms: int) -> None:
        """Take this for the next tick, an earlier one: those that were judged beyond it had not come."""
        ...

    @property
    def rows_waiting(self) -> int:
        """How many burn rates wait for the next checkpoint."""
        ...

    @property
    def sampled_bytes(self) -> int:
        """About what is in memory of the samples since the last checkpoint."""
        ...

    @property
    def refused_bytes(self) -> int:
        """About what the dead letters weigh that wait for it."""
        ...

    @property
    def wants_storing(self) -> bool:
        """Whether something should not wait for the next checkpoint's turn."""
        ...

    @property
    def alerts_changed(self) -> bool:
        """Whether the status of an alert changed and nobody has taken its row."""
        ...

    def take_alerts(self, version: int) -> tuple[pa.Table, list[Alert]]:
        """The rows of alerts that wait, and those whose status changed, in order; no checkpoint has them then."""
        ...

    def missing(self, batch: LogBatch) -> Mapping[str, int]:
        """Archived jobs that the batch speaks of, with the version of their state."""
        ...

    def absent(self, job_ids: Iterable[str]) -> Mapping[str, int]:
        """Those of the jobs that are archived and not in memory."""
        ...

    def forget_archived(self, job_ids: Iterable[str]) -> None:
        """The archive does not have these: each is a new job."""
        ...

    def adopt(self, blobs: Mapping[str, bytes]) -> None:
        """Take archived jobs back into memory."""
        ...

    def adopt_repriced(self, blobs: Mapping[str, bytes], news: PriceChanges) -> None:
        """Take back those of them that the news touch."""
        ...

    def fold(self, batch: LogBatch) -> int | None:
        """Apply a batch, or return the offset to fetch again from."""
        ...

    def set_prices(self, book: PriceBook) -> PriceChanges | None:
        """Take a newer book; what is new in it, for archived jobs."""
        ...

    def checkpoint(self, as_of_ms: int, version: int, *, open_attempts: bool) -> Checkpoint:
        """What must be stored now."""
        ...

    def owe_books(self) -> None:
        """Write the books with the next checkpoint."""
        ...

    def unsaved(self, as_of_ms: int, *, open_attempts: bool) -> bool:
        """Whether a checkpoint would store anything new."""
        ...

    def read_back(self, table: str, rows: pa.Table, version: int) -> pa.Table:
        """Rows stored after the snapshot, as it has them."""
        ...


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
    """Alerts are stored, and nobody is told."""

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

    def knows(self, log_ms: int) -> None:
        """The log has come at least as far as this, by what an earlier owner stored."""
        ...

    def saw(self, log_ms: int) -> None:
        """A record of this log time is there."""
        ...

    def came(self, batch: LogBatch) -> None:
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
