"""One shard: everything about the jobs whose ids hash to one partition number.

A deterministic state machine: its state is a function of the log prefix up to `next`. It does no I/O and reads no
clock; fetching, storing and committing happen outside.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from schemas.decode import decode
from schemas.events import Event
from schemas.invalid import Invalid
from streams.engine.alerts.alert import Alert
from streams.engine.batch import LogBatch, Record
from streams.engine.pricing.book import PriceBook
from streams.engine.raw_records import RawRecords, first_from
from streams.engine.reference_log import ReferenceView
from streams.engine.repricing.price_changes import PriceChanges
from streams.engine.settings import ShardSettings
from streams.engine.shard import checkpoint as checkpoints
from streams.engine.shard import read_back, reprice, snapshot_reader
from streams.engine.shard.books import Tally
from streams.engine.shard.fold_batch import fold_columns, fold_records
from streams.engine.shard.rewind import rewind
from streams.engine.shard.samples import SampleBatch, sampled_bytes
from streams.engine.shard.sequencer import TICK_MS, Ticks
from streams.engine.shard.state import ShardState


@dataclass(slots=True)
class DecodedBatch:
    """A batch's records from `next` on, decoded, each with its log time."""

    batch: LogBatch
    expected: int
    trimmed: int
    records: Sequence[Record]
    events: list[Event | Invalid]
    columns: SampleBatch | None = None  # GPU samples that arrived as bytes; then `events` is empty


class Shard(ShardState):
    """The state and its operations: fold, judge ticks, apply prices, build checkpoints, restore."""

    _decoded: DecodedBatch | None = None  # decoded by `missing`, used by `fold`

    # -- the log -------------------------------------------------------------------------------------------

    def enter_run(self, run_start_ms: int) -> None:
        """Judge which events lie in the future by the start of this replay from now on."""
        self.settings = replace(self.settings, run_start_ms=run_start_ms)

    def missing(self, batch: LogBatch) -> dict[str, int]:
        """Archived jobs that the batch refers to, with the version to load: `adopt` them before `fold`."""
        if not self.archived or batch.start > self.position.next.get(batch.topic, 0):
            return {}
        decoded = self._decode(batch)
        if decoded.columns is not None:
            return self.absent(self.samples.job_ids(decoded.columns))
        return self.absent({getattr(event, "job_id", "") for event in decoded.events})

    def absent(self, job_ids: Iterable[str]) -> dict[str, int]:
        """Those of the jobs that are archived and not in memory, with the version of their state."""
        absent = ((job_id, self.archived.version_of(job_id)) for job_id in job_ids if job_id not in self.jobs)
        return {job_id: version for job_id, version in absent if version is not None}

    def fold(self, batch: LogBatch) -> int | None:
        """Apply a batch; return None, or the offset to fetch again from if records before it are missing."""
        expected = self.position.next.get(batch.topic, 0)
        if batch.start > expected:
            return expected
        decoded = self._decode(batch)
        self._decoded = None
        self.position.next[batch.topic] = max(expected, batch.end)
        tally = Tally(records_in=len(decoded.records), trimmed=decoded.trimmed)
        log_ms = self.position.log_ms.get(batch.topic, 0)
        if decoded.columns is not None:
            fold_columns(self, decoded.columns, tally)
        else:
            self.publish_samples()  # a start event determines the meaning of earlier samples
            fold_records(self, batch.topic, decoded.records, decoded.events, tally)
        self.refused.close_batch(batch, decoded.records, log_ms, tally)
        self.tallies.setdefault(batch.topic, Tally(expected)).add(tally)
        tally.add_to(self.books)
        return None

    def _decode(self, batch: LogBatch) -> DecodedBatch:
        """Decode the batch once, whether `missing` or `fold` comes first."""
        expected = self.position.next.get(batch.topic, 0)
        known = self._decoded
        if known is not None and known.batch is batch and known.expected == expected:
            return known
        first = first_from(batch.records, expected)
        records = batch.records[first:] if first else batch.records
        if batch.topic == "gpu" and isinstance(records, RawRecords):
            columns = self.samples.read(records, self.settings)
            self._decoded = DecodedBatch(batch, expected, first, records, [], columns)
            return self._decoded
        allowed, judged, proof = self.settings.newest_allowed_ms, self.partition.judged, self.settings.canary
        events = [
            judged(decode(batch.topic, r.value, r.headers, allowed(r.timestamp), proof)) for r in records
        ]
        self._decoded = DecodedBatch(batch, expected, first, records, events)
        return self._decoded

    # -- ticks ---------------------------------------------------------------------------------------------

    def judge(self, ticks: Ticks, view: ReferenceView) -> None:
        """Judge the burn rates at these ticks, with the prices and controls known then."""
        self.publish_samples()
        self.tracker.judge(self.tracked, ticks.first_ms, ticks.last_ms, view)
        self.position.expect_tick(ticks.last_ms + TICK_MS)

    def missing_at(self, ticks: Ticks, view: ReferenceView) -> dict[str, int]:
        """Archived jobs with an alert that these ticks may resolve, its rule being switched off, with the version to load.

        `adopt` them before `judge`.
        """
        return self.absent(self.tracker.switched_off(ticks.last_ms, view)) if self.archived else {}

    def rewind(self, tick_ms: int) -> None:
        """Set the next tick back: ticks beyond it were judged before their time."""
        rewind(self, tick_ms)

    def write_interim_rates(self, now_ms: int, view: ReferenceView) -> None:
        """Write the burn rates of jobs that changed since the last tick, as of an instant between it and the next.

        Skipped while the shard is behind: it has no current rates, and its next ticks must not see later records.
        """
        if (
            self.position.tick_ms is None
            or not self.position.tick_ms - TICK_MS <= now_ms < self.position.tick_ms
        ):
            return
        if now_ms >= view.at_ms:  # a clock may be set back
            self.publish_samples()
            self.tracker.write_interim_rates(self.tracked, now_ms, view.at(now_ms))

    @property
    def jobs_live(self) -> int:
        """How many jobs ticks look at."""
        return self.tracker.jobs_live

    @property
    def rows_waiting(self) -> int:
        """How many burn rates wait for the next checkpoint."""
        return self.tracker.rows_waiting

    @property
    def sampled_bytes(self) -> int:
        """Estimate the size of samples since the last checkpoint; repeated samples of the same minutes add nothing."""
        return sampled_bytes(self.coverage)

    @property
    def refused_bytes(self) -> int:
        """Estimate the size of the dead letters that wait for the next checkpoint."""
        return self.refused.waiting_bytes

    @property
    def is_storing_urgent(self) -> bool:
        """Whether a checkpoint should follow immediately, whether or not an alert changed."""
        return self.tracker.is_storing_urgent

    @property
    def alerts_changed(self) -> bool:
        """Whether the status of an alert changed and its row was not drained."""
        return self.tracker.alerts.any_changed

    def drain_alerts(self, version: int) -> tuple[pa.Table, list[Alert]]:
        """The waiting rows of alerts, and the alerts whose status changed, in order; no checkpoint includes them then."""
        return self.tracker.alerts.drain_rows(self.number, version), self.tracker.alerts.drain_changes()

    # -- prices --------------------------------------------------------------------------------------------

    def set_prices(self, book: PriceBook) -> PriceChanges | None:
        """Adopt a newer price book; jobs and nodes whose prices differ are derived again.

        Returns:
            What changed (archived jobs that it affects must be adopted); None: nothing.
        """
        return reprice.reprice(self, book)

    # -- archive -------------------------------------------------------------------------------------------

    def forget_archived(self, job_ids: Iterable[str]) -> None:
        """Treat these ids as new jobs: the archive does not have them."""
        self.archived.forget(job_ids)

    def adopt(self, blobs: Mapping[str, bytes]) -> None:
        """Load archived jobs into memory; they are derived again, as prices may have changed meanwhile."""
        self.publish_samples()
        for job_id, blob in blobs.items():
            if job_id not in self.jobs:
                read_back.adopt_job(self, job_id, blob)

    def adopt_repriced(self, blobs: Mapping[str, bytes], news: PriceChanges) -> None:
        """Load those of the archived jobs that accrued at prices that have changed."""
        self.publish_samples()
        for job_id, blob in blobs.items():
            if job_id not in self.jobs:
                read_back.adopt_job(self, job_id, blob, news)

    # -- storing -------------------------------------------------------------------------------------------

    def checkpoint(
        self, as_of_ms: int, version: int, *, open_attempts: bool, rows_only: bool = False
    ) -> checkpoints.Checkpoint:
        """Build what must be stored now: rows, snapshot (`rows_only`: if it cannot wait), offsets."""
        self.publish_samples()
        return checkpoints.build_checkpoint(
            self, as_of_ms, version, open_attempts=open_attempts, rows_only=rows_only
        )

    def owe_books(self) -> None:
        """Write the record accounting with the next checkpoint, even if nothing else changed."""
        self.due.books_owed = True

    def unsaved(self, as_of_ms: int, *, open_attempts: bool) -> bool:
        """Whether a checkpoint would store anything new."""
        self.publish_samples()
        return bool(
            self.position.next
            != (self.due.books_next if open_attempts or self.due.books_owed else self.snapshots.next)
            or self.snapshots.is_behind_rows
            or self.due.dirty_jobs
            or self.refused
            or self.ahead
            or self.checkpoints
            or self.snapshots.changes.jobs
            or self.snapshots.changes.prices
            or self.tracker.is_due
            # Open nodes are accrued only together with open attempts.
            or any(not self.nodes[name].is_open for name in self.due.dirty_nodes)
            or (open_attempts and self.due.waiting_nodes)
            or (open_attempts and (self.due.sampled_jobs or self.due.hours_put_off))
            or (open_attempts and any(self.jobs[j].booked_as_of_ms != as_of_ms for j in self.due.open_jobs))
        )

    @classmethod
    def restore(
        cls,
        number: int,
        settings: ShardSettings,
        book: PriceBook,
        blobs: Sequence[bytes],
        id_seed: bytes = b"",
    ) -> Shard:
        """Restore a shard from a chain of snapshots, oldest first; `book` is then applied as by `set_prices`.

        `id_seed`: for the keys of archived jobs, if the snapshots have none.
        """
        shard = cls(number, settings, PriceBook.empty(), id_seed)
        snapshot_reader.load(shard, blobs)
        reprice.after_restore(shard)
        shard.price_changes = shard.set_prices(book)
        return shard

    price_changes: PriceChanges | None = None  # since the snapshot that it was restored from

    def put_back_books(
        self, books: pa.Table, dead_letter_counts: pa.Table, version: int
    ) -> dict[str, pa.Table]:
        """Corrections for record accounting stored after the snapshot; call it before anything is folded."""
        return read_back.put_back_books(self, books, dead_letter_counts, version)

    def read_back(self, table: str, rows: pa.Table, version: int) -> pa.Table:
        """Corrections for rows stored after the snapshot: see `streams.engine.shard.read_back`."""
        self.publish_samples()
        return read_back.read_back(self, table, rows, version)
