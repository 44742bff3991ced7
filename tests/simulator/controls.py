"""Ways to break the meter, each of which the simulator must find out: negative controls.

Each changes the code while a test runs; none may ever become a switch of the product.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pytest

from streams.engine.alerts.alert import Alert
from streams.engine.batch import LogBatch
from streams.engine.coverage.coverage import Coverage
from streams.engine.ledger import changed_hours, derive
from streams.engine.ledger_rules.budget_runs import BudgetJob
from streams.engine.ledger_rules.findings import BudgetFinding
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.shard.sequencer import Sequencer
from streams.engine.shard.shard import DecodedBatch, Shard
from streams.notify.notice import Notice
from streams.notify.notifier import Notifier
from streams.worker.ledger_judges import budget_judge, live_judge
from streams.worker.ledger_judges.known_log import KnownLog
from streams.worker.ledger_judges.reader import Accrued, Group, LedgerReader
from streams.worker.log_time import LogTime
from streams.worker.shard_manager import ShardManager
from streams.worker.shards.owned_shard import InFlightCheckpoint
from streams.worker.shards.versions import VersionClock
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.takeover import fence as sweeping
from streams.worker.takeover import restore as restoring

Patch = pytest.MonkeyPatch
Break = Callable[[Patch], None]


def holes_stepped_over(patch: Patch) -> None:
    """A batch that begins above the offset awaited is taken as it is."""
    offer, fold = Sequencer.offer, Shard.fold

    def offered(self: Sequencer, batch: LogBatch, latest_ms: int = 2**62) -> int | None:
        self._end[batch.topic] = max(self.next_offset(batch.topic), batch.start)
        return offer(self, batch, latest_ms)

    def folded(self: Shard, batch: LogBatch) -> int | None:
        self.position.next[batch.topic] = max(self.position.next.get(batch.topic, 0), batch.start)
        return fold(self, batch)

    patch.setattr(Sequencer, "offer", offered)
    patch.setattr(Shard, "fold", folded)


def guard_off(patch: Patch) -> None:
    """Every batch is taken as it comes: nothing is trimmed that was folded before, nothing is read again."""
    holes_stepped_over(patch)
    decode = Shard._decode

    def decoded(self: Shard, batch: LogBatch) -> DecodedBatch:
        known = self.position.next
        self.position.next = {**known, batch.topic: min(known.get(batch.topic, 0), batch.start)}
        try:
            return decode(self, batch)
        finally:
            self.position.next = known

    patch.setattr(Shard, "_decode", decoded)


def versions_without_owner(patch: Patch) -> None:
    """One plain counter per shard, which every owner goes on with from what it sees stored."""

    def begin(self: Any, newest_stored: int, generation: int, now_ms: int = 0) -> None:
        self.last = newest_stored

    def following(self: Any) -> int:
        self.last += 1
        return int(self.last)

    patch.setattr(VersionClock, "__init__", begin)
    patch.setattr(VersionClock, "enter", lambda *_: None)
    patch.setattr(VersionClock, "next", following)
    patch.setattr(VersionClock, "is_above", lambda *_: False)
    patch.setattr(restoring, "refuse_if_later", lambda *_: None)


def no_read_back(patch: Patch) -> None:
    """Rows that are newer than the snapshot are left as they are."""
    patch.setattr(restoring, "_fence_rows", lambda *_: 0)
    patch.setattr(sweeping, "READ_BACK", ())


def hours_forgotten(patch: Patch) -> None:
    """Hours that change while only closed attempts are booked are not written later either."""

    def forget(job: Any) -> None:
        for attempt in job.attempts.values():
            attempt.changed_hours.clear()
            attempt.owed_hours.clear()

    patch.setattr(derive, "put_off_hours", forget)


def hours_kept_under_old_fields(patch: Patch) -> None:
    """Nobody remembers under which price fields an hour was written before."""
    written = changed_hours._add_hour

    def add(job_id: str, attempt: Any, *values: Any) -> None:
        attempt.written.clear()
        written(job_id, attempt, *values)

    patch.setattr(changed_hours, "_add_hour", add)


def hours_without_late_samples(patch: Patch) -> None:
    """Nobody says that the hour of a changed minute of usage is due; the hour that goes on is written anyway."""
    patch.setattr(Coverage, "changed_hours", lambda *_: [])


class _SnapshotsFirst:
    """A store that keeps rows back until it is told."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.snapshots, self.archive, self.readback = store.snapshots, store.archive, store.readback
        self._kept: list[tuple[str, pa.Table, str]] = []

    def insert(self, table: str, rows: pa.Table, token: str) -> None:
        """Later."""
        self._kept.append((table, rows, token))

    def release(self) -> None:
        """Now."""
        for table, rows, token in self._kept:
            self._store.insert(table, rows, token)


def snapshot_before_rows(patch: Patch) -> None:
    """The snapshot is stored first, then the rows that it counts as booked."""
    put = Checkpointer._store_flight

    def reversed_order(self: Any, flight: Sequence[InFlightCheckpoint], extras: Any) -> None:
        store = self._store
        self._store = kept = _SnapshotsFirst(store)
        try:
            put(self, flight, extras)
        finally:
            self._store = store
        kept.release()

    patch.setattr(Checkpointer, "_store_flight", reversed_order)


def ticks_by_the_wall_clock(patch: Patch) -> None:
    """A worker judges by the clock of its machine, whatever the log says."""
    patch.setattr(LogTime, "now_ms", lambda self: self._clock.now_ms())
    patch.setattr(LogTime, "at_ms", lambda self, at_ms: self._clock.now_ms() - self.monotonic_ms() + at_ms)


def budgets_lost(patch: Patch) -> None:
    """Of what changes at once only the first alert is sent, and nobody looks for what was not told."""
    offer = Notifier.offer

    def offered(self: Notifier, alerts: Iterable[Alert], shard: int) -> None:
        offer(self, list(alerts)[:1], shard)

    patch.setattr(Notifier, "offer", offered)
    patch.setattr(Notifier, "resume", lambda *_: None)


def alerts_under_ids_of_the_look(patch: Patch) -> None:
    """An alert about a budget is named by the minute of the look, and the judge keeps no memory of it."""
    found: Any = vars(BudgetFinding)["id"]
    patch.setattr(BudgetFinding, "id", property(lambda self: f"{found.fget(self)}{self.at_ms}"))


def shards_not_waited_for(patch: Patch) -> None:
    """What is stored of this minute is judged, whatever the shards say of how far they are, and never looked at again."""
    accrued = LedgerReader.accrued

    def ahead(self: LedgerReader, now_ms: int, log: KnownLog | None) -> Accrued | None:
        known = accrued(self, now_ms, log)
        return (
            None
            if known is None
            else known._replace(
                until_ms=(now_ms // 60_000 + 3) * 60_000, complete_ms=(now_ms // 60_000 + 3) * 60_000
            )
        )

    patch.setattr(LedgerReader, "accrued", ahead)


def takeovers_not_noticed(patch: Patch) -> None:
    """What is read after a look at the books is said, whoever took rows back in between."""
    holds = LedgerReader.holds
    patch.setattr(LedgerReader, "holds", lambda self, accrued: holds(self, accrued) or True)


def unread_shards_not_waited_for(patch: Patch) -> None:
    """A shard without an open job is taken for complete, whatever it has not read."""
    accrued = LedgerReader.accrued
    patch.setattr(LedgerReader, "accrued", lambda self, now_ms, _: accrued(self, now_ms))


def hours_not_waited_for(patch: Patch) -> None:
    """An hour is judged when it is over, whatever shards have stored of it."""
    accrued = LedgerReader.accrued

    def over(self: LedgerReader, now_ms: int, log: KnownLog | None) -> Accrued | None:
        known = accrued(self, now_ms, log)
        return None if known is None else known._replace(complete_ms=now_ms // 60_000 * 60_000)

    patch.setattr(LedgerReader, "accrued", over)


def hours_skipped(patch: Patch) -> None:
    """Only the last minute is looked at: an hour that ended while nobody looked is lost."""
    patch.setattr(live_judge._Duty, "hours_since_ms", lambda _, accrued: accrued.complete_ms - 60_000)


def receipts_not_sent(patch: Patch) -> None:
    """Receipts are stored, and only the next owner of the shard sends them."""
    offer = Notifier.offer

    def offered(self: Notifier, alerts: Iterable[Alert], shard: int) -> None:
        offer(self, [each for each in alerts if not isinstance(each, Notice)], shard)

    patch.setattr(Notifier, "offer", offered)


def commit_before_snapshot(patch: Patch) -> None:
    """Offsets are committed when a checkpoint is taken, whatever becomes of its rows and its snapshot."""
    due = ShardManager._due

    def committed_first(self: ShardManager, **asked: Any) -> Iterator[InFlightCheckpoint]:
        for taken in due(self, **asked):
            asyncio.ensure_future(self.checkpointer._commit([taken]))  # noqa: RUF006 - it ends with its process
            yield taken

    patch.setattr(ShardManager, "_due", committed_first)


def runs_told_apart_by_job(patch: Patch) -> None:
    """A run that is submitted again under another id is another run."""
    patch.setattr(BudgetJob, "key", property(lambda _: None))


def runs_read_by_their_last_job(patch: Patch) -> None:
    """What the earlier jobs of a run used is left out of its budget."""
    read = budget_judge._groups

    def of_last(fields: Sequence[str], subject: BudgetSubject) -> list[Group]:
        return read(fields, subject)[-1:]

    patch.setattr(budget_judge, "_groups", of_last)
