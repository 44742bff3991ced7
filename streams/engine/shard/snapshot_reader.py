"""Restores a shard, or one job for an explanation, from a chain of snapshots.

Bytes are handed in, oldest first; nothing is fetched here, and later rows are corrected elsewhere.
"""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import zstandard

from streams.engine.pricing.book import PriceBook
from streams.engine.shard import snapshot_writer
from streams.engine.shard.parts import DueWork, set_member
from streams.engine.shard.read_back import drop_counts
from streams.engine.shard.snapshot_format import format_of
from streams.engine.shard.snapshot_writer import StoredBlob
from streams.engine.shard.state import ShardState
from streams.engine.snapshot.archive_index import ArchiveIndex
from streams.engine.snapshot.job_blobs import DIRTY, OPEN, SAMPLED, NodeBlob, load_job, load_node
from streams.engine.snapshot.job_parts import PaidPart, apply_owed, apply_paid, apply_part
from streams.engine.state.changes import OwedHour
from streams.engine.state.hour_measures import UNKNOWN_TIME
from streams.engine.state.job import JobState


class JobsOfChain(msgspec.Struct):
    """The parts of a snapshot that concern jobs, not decoded yet."""

    format: int
    jobs: list[msgspec.Raw]
    gone: list[str]
    sampled: dict[str, tuple[int, ...]]
    parts: list[msgspec.Raw]
    paid: list[PaidPart]
    id_seed: bytes
    archived_jobs: bytes
    newly_archived_jobs: bytes
    owed: list[OwedHour] = []
    heard_sources: dict[str, str] = {}


class RestoreTarget(Protocol):
    """What a chain is applied to: a shard, or `KnownJobs`."""

    @property
    def jobs(self) -> MutableMapping[str, JobState]:
        """The jobs by id."""
        ...

    due: DueWork


@dataclass
class KnownJobs:
    """Jobs without a shard around them."""

    jobs: dict[str, JobState] = field(default_factory=dict)
    due: DueWork = field(default_factory=DueWork)


def unpack_jobs(data: bytes) -> tuple[JobsOfChain, int]:
    """The job parts of a stored snapshot, and its uncompressed size in bytes.

    Raises:
        UnknownFormatError: The program does not support its format.
    """
    raw = zstandard.decompress(data)
    format_of(raw)
    return msgspec.msgpack.decode(raw, type=JobsOfChain), len(raw)


def apply_archived(known: ArchiveIndex, blob: StoredBlob | JobsOfChain) -> None:
    """Apply a snapshot's entries of archived jobs; the oldest snapshot comes first."""
    known.seed = blob.id_seed
    for entries in (blob.archived_jobs, blob.newly_archived_jobs):
        known.load(entries)


def apply_jobs(
    target: RestoreTarget,
    blob: StoredBlob | JobsOfChain,
    awaited: set[str],
    place: int,
    last: Mapping[str, int],
) -> None:
    """Apply one snapshot of the chain; the oldest comes first.

    Args:
        target: Changed in place.
        blob: The snapshot.
        awaited: Jobs with a part whose base is unknown; a later snapshot includes them whole, or they are gone.
        place: Position of the snapshot in its chain.
        last: Job id -> the last position at which it is included whole; earlier parts are skipped.
    """
    for job_id in blob.gone:
        target.jobs.pop(job_id, None)
        awaited.discard(job_id)
        _flag(target, job_id, 0)
    for raw in blob.jobs:
        job_id = snapshot_writer.job_id_of(raw)
        if last[job_id] == place:
            whole = snapshot_writer.whole_job(raw)
            target.jobs[job_id] = load_job(whole)
            awaited.discard(job_id)
            _flag(target, job_id, whole.flags)
    _apply_parts(target, blob, awaited, place, last)
    for job_id, seen_ms in blob.sampled.items():
        if last.get(job_id, -1) > place:
            continue
        known = target.jobs.get(job_id)
        if known is None:
            awaited.add(job_id)
            continue
        target.due.sampled_jobs.add(job_id)
        first_ms, last_ms, *heard_ms = seen_ms
        known.set_times(
            min(known.first_ms, first_ms), max(known.last_ms, last_ms), max([known.heard_ms, *heard_ms])
        )
    for job_id, source in blob.heard_sources.items():
        known = target.jobs.get(job_id)
        if known is not None and last.get(job_id, -1) <= place:
            known.set_times(known.first_ms, known.last_ms, known.heard_ms, source)


def _apply_parts(
    target: RestoreTarget,
    blob: StoredBlob | JobsOfChain,
    awaited: set[str],
    place: int,
    last: Mapping[str, int],
) -> None:
    """Apply changes of known jobs."""
    for raw in blob.parts:
        job_id = snapshot_writer.job_id_of(raw)
        if last.get(job_id, -1) > place:
            continue
        known = target.jobs.get(job_id)
        if known is None:
            awaited.add(job_id)
        else:
            part = snapshot_writer.job_part(raw)
            apply_part(known, part)
            _flag(target, job_id, part.flags)
    for paid in blob.paid:
        if last.get(paid.id, -1) > place:
            continue
        known = target.jobs.get(paid.id)
        if known is None:
            awaited.add(paid.id)
        else:
            apply_paid(known, paid)
            _flag(target, paid.id, paid.flags)
    for owed in blob.owed:
        if last.get(owed.job_id, -1) > place:
            continue
        known = target.jobs.get(owed.job_id)
        if known is None:
            awaited.add(owed.job_id)
        else:
            apply_owed(known, owed)


def _flag(target: RestoreTarget, job_id: str, flags: int) -> None:
    due = target.due
    for flag, jobs in ((OPEN, due.open_jobs), (DIRTY, due.dirty_jobs), (SAMPLED, due.sampled_jobs)):
        set_member(jobs, job_id, is_member=bool(flags & flag))


def load(shard: ShardState, blobs: Sequence[bytes]) -> None:
    """Apply a chain to an empty shard, with the prices as of the last snapshot.

    Changes of an unknown job are skipped: a later snapshot includes the job whole, or it is gone. So is whatever a
    later snapshot includes whole.

    Raises:
        ValueError: The chain is of another shard, or does not begin at a root.
        UnknownFormatError: The program does not support a snapshot's format.
    """
    with _no_collection():
        _load(shard, blobs)


def load_one(shard: ShardState, blobs: Sequence[bytes], job_id: str) -> None:
    """Apply to an empty shard what a chain has of one job, and of the prices and the archive.

    Raises:
        ValueError: The chain is of another shard, or does not begin at a root.
        UnknownFormatError: The program does not support a snapshot's format.
    """
    with _no_collection():
        _load(shard, blobs, job_id)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Disable garbage collection: nearly everything that a load creates stays, and collection takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load(shard: ShardState, blobs: Sequence[bytes], only: str | None = None) -> None:
    awaited: set[str] = set()
    nodes: dict[str, NodeBlob] = {}  # the last of each: nodes are always whole
    last = {job_id: place for place, data in enumerate(blobs) for job_id in snapshot_writer.whole_jobs(data)}
    for place, data in enumerate(blobs):
        blob = snapshot_writer.unpack(data)
        if only is not None:
            blob = _reduced(blob, only)
        if blob.shard != shard.number:
            raise ValueError(f"a snapshot of shard {blob.shard} was handed to shard {shard.number}")
        _apply_facts(shard, blob)
        apply_jobs(shard, blob, awaited, place, last)
        apply_archived(shard.archived, blob)
        nodes.update((node.name, node) for node in blob.nodes)
        shard.coverage.apply(blob.coverage)
        for topic, ids in blob.seen.items():
            shard.seen[topic].apply(snapshot_writer.seen_part(ids))
        for topic, ids in blob.seen_older:
            shard.seen[topic].apply_older(snapshot_writer.seen_part(ids))
    if awaited or not shard.coverage.is_complete:
        raise ValueError(f"the snapshots of shard {shard.number} do not begin early enough")
    # Older snapshots contain entries that the shard has dropped since.
    shard.archived.forget_before(
        max(shard.position.newest_ms.values(), default=0) - shard.settings.archived_for_ms
    )
    _load_nodes(shard, nodes.values())
    for known in shard.jobs.values():
        known.forget_derived()
        if known.booked_time is UNKNOWN_TIME:
            known.owe_booked_hours()
            for attempt in known.attempts.values():
                attempt.redo_traffic_without_flow()
            shard.due.dirty_jobs.add(known.id)
        elif known.id in shard.due.dirty_jobs:
            known.booked_time = UNKNOWN_TIME  # its newest events may not be booked
        if known.owes_hours:
            shard.due.hours_put_off.add(known.id)
        known.mark_saved()
        drop_counts(shard, known)
        shard.tracker.restored(known.id)
    shard.snapshots.compaction.length = len(blobs)
    shard.snapshots.changes.clear()


def _load_nodes(shard: ShardState, nodes: Iterable[NodeBlob]) -> None:
    for blob in nodes:
        node = shard.nodes[blob.name] = load_node(blob)
        set_member(shard.due.dirty_nodes, blob.name, is_member=node.dirty)
        set_member(shard.due.open_nodes, blob.name, is_member=node.is_open)


def _reduced(blob: StoredBlob, job_id: str) -> StoredBlob:
    """The snapshot without other jobs, nodes and the ids of records that were seen."""
    sampled = blob.sampled.get(job_id)
    memory = [each for each in blob.watch.judge.jobs if each.job_id == job_id]
    return msgspec.structs.replace(
        blob,
        jobs=[raw for raw in blob.jobs if snapshot_writer.job_id_of(raw) == job_id],
        gone=[each for each in blob.gone if each == job_id],
        nodes=[],
        seen={},
        seen_older=[],
        sampled={} if sampled is None else {job_id: sampled},
        watch=msgspec.structs.replace(
            blob.watch, judge=msgspec.structs.replace(blob.watch.judge, jobs=memory)
        ),
        parts=[raw for raw in blob.parts if snapshot_writer.job_id_of(raw) == job_id],
        paid=[each for each in blob.paid if each.id == job_id],
        owed=[each for each in blob.owed if each.job_id == job_id],
        heard_sources={each: source for each, source in blob.heard_sources.items() if each == job_id},
    )


def _apply_facts(shard: ShardState, blob: StoredBlob) -> None:
    """Apply what each snapshot includes whole."""
    shard.snapshots.resume(blob.version, blob.next, blob.unswept_from)
    shard.snapshots.compaction.root = blob.root
    shard.position.next = dict(blob.next)
    shard.position.newest_ms, shard.position.log_ms, shard.position.forgotten_ms = (
        blob.newest_ms,
        blob.log_ms,
        blob.forgotten_ms,
    )
    shard.due.archive_due_ms = blob.archive_due_ms
    shard.books, shard.tallies = blob.books, blob.tallies
    shard.due.accrued_to_ms, shard.due.accrued_read_to_ms = blob.paid_ms, blob.paid_read_to_ms
    shard.sums.load(blob.sums)
    shard.refused.quota.load(blob.letter_minutes)
    shard.ahead.load(blob.ahead)
    shard.position.expect_tick(blob.tick_ms)
    if blob.prices is not None:
        shard.prices.book = PriceBook.empty().with_events(blob.prices)
    shard.prices.book = shard.snapshots.book = shard.prices.book.with_events(blob.more_prices)
    shard.tracker.load(blob.watch)
