"""Writes snapshots of a shard: what changed since the last one, and a slice of what did not.

It encodes state; `snapshot_format` has the number of the format, `snapshot_reader` restores from a chain. Storage is handled
elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import msgspec
import numpy as np
import zstandard

from schemas.events import PriceEvent
from schemas.release import release
from streams.engine.burn.tracker import BurnTrackerBlob
from streams.engine.coverage.ids import SeenPart
from streams.engine.ledger.sums import MonthSums
from streams.engine.shard.ahead_records import AheadMinutes
from streams.engine.shard.books import Books, Tally
from streams.engine.shard.dead_letters import Minutes
from streams.engine.shard.snapshot_format import FORMAT, check_archived, format_of
from streams.engine.shard.state import ShardState
from streams.engine.snapshot.compaction import CompactionSlice
from streams.engine.snapshot.compression import LEVEL, new_compressor
from streams.engine.snapshot.job_blobs import DIRTY, OPEN, SAMPLED, JobBlob, NodeBlob, dump_job, dump_node
from streams.engine.snapshot.job_parts import JobPart, PaidPart, dump_owed, dump_paid, dump_part
from streams.engine.state.changes import OwedHour
from streams.engine.state.job import JobState

_SMALL_BYTES: Final = 2**16
_WRITER: Final = release()


class SnapshotBlob(msgspec.Struct, kw_only=True):
    """What changed since the previous snapshot, and a slice of what did not; begins with what `format_in_head` finds."""

    format: int
    written_by: str = ""
    shard: int
    version: int
    next: dict[str, int]
    newest_ms: dict[str, int]
    log_ms: dict[str, int]
    archive_due_ms: int
    books: Books
    jobs: list[JobBlob]
    gone: list[str]
    nodes: list[NodeBlob]
    prices: list[PriceEvent] | None
    coverage: bytes
    seen: dict[str, list[bytes]]
    tick_ms: int | None
    # Jobs with only samples since they were written: first and last event time, and that of the last sample.
    sampled: dict[str, tuple[int, ...]]
    watch: BurnTrackerBlob
    tallies: dict[str, Tally]  # by topic
    paid_ms: int  # every open attempt is booked up to this instant
    letter_minutes: Minutes  # state of the dead letter quota
    unswept_from: int | None
    root: int  # the version at which a restore begins
    parts: list[JobPart]  # of jobs that an earlier snapshot has
    seen_older: list[tuple[str, list[bytes]]]  # topic and ids: slices of ids seen before
    forgotten_ms: dict[str, int]
    paid: list[PaidPart]  # jobs of which only the accrual changed
    more_prices: list[PriceEvent]  # new since the previous snapshot, and a slice of the others
    sums: dict[str, MonthSums] | None  # of the ledger by table and month; None: unknown
    id_seed: bytes
    archived_jobs: bytes
    newly_archived_jobs: bytes
    owed: list[OwedHour] = []  # of jobs that it does not include otherwise
    paid_read_to_ms: int = 0  # up to which log time all records had been read at `paid_ms`
    ahead: AheadMinutes = {}  # records ahead of the log in the newest minute of each topic
    #: Who sent the newest sign of each job that it does not include whole, where that changed.
    heard_sources: dict[str, str] = {}


class StoredBlob(SnapshotBlob, kw_only=True):
    """A snapshot as read: jobs stay encoded, as most are included again later in a chain."""

    jobs: list[msgspec.Raw]  # type: ignore[assignment]  # encoded
    parts: list[msgspec.Raw]  # type: ignore[assignment]  # encoded


class _Id(msgspec.Struct, array_like=True):
    """The id at the beginning of an encoded job or change."""

    id: str


class _Whole(msgspec.Struct):
    """The jobs that a snapshot includes whole."""

    jobs: list[_Id]


class ArchivedJob(msgspec.Struct, array_like=True):
    """A job in the archive with the coverage of its samples."""

    format: int
    version: int
    job: JobBlob
    coverage: bytes


def build_snapshot(shard: ShardState) -> bytes:
    """Encode the snapshot of the shard under its version; its changes count as saved from now on.

    In a shard without a snapshot everything is a change: the first one is complete.
    """
    changes = shard.snapshots.changes
    is_first = shard.snapshots.compaction.root == 0
    if is_first:
        shard.snapshots.compaction.root = shard.snapshots.version
        also = CompactionSlice()
    else:
        also = shard.snapshots.compaction.next(
            shard.contents, shard.snapshots.version, shard.settings.snapshots_per_round, changes.size_bytes
        )
    whole = {*also.jobs, *(job_id for job_id in changes.jobs if not shard.jobs[job_id].saved)}
    nodes = changes.nodes.union(name for name in also.nodes if name in shard.nodes)
    coverage = shard.coverage.export_dirty(also.holders)
    parts, paid = _parts(shard, changes.jobs - whole)
    jobs, (since_ms, until_ms) = shard.jobs, shard.samples.times.lists()
    sampled = changes.sampled & shard.due.sampled_jobs
    sources = {each: jobs[each].unsaved_source() for each in sorted((changes.jobs | sampled) - whole)}
    written = changes.jobs | whole  # whatever is written of a job includes its hours
    owed = (each for each in changes.owed if each.job_id not in written and each.job_id in shard.jobs)
    # Each price is written once, and once per round.
    more_prices = None if is_first else shard.prices.book.grown_from(shard.snapshots.book)
    shard.snapshots.book = shard.prices.book
    blob = SnapshotBlob(
        format=FORMAT,
        written_by=_WRITER,
        shard=shard.number,
        version=shard.snapshots.version,
        next=shard.position.next,
        newest_ms=shard.position.newest_ms,
        log_ms=shard.position.log_ms,
        archive_due_ms=shard.due.archive_due_ms,
        books=shard.books,
        jobs=[_whole(shard, job_id) for job_id in sorted(whole)],
        gone=sorted(changes.gone),
        nodes=[dump_node(shard.nodes[name]) for name in sorted(nodes)],
        prices=shard.prices.book.events if more_prices is None else None,
        more_prices=[*also.prices, *(more_prices or [])],
        coverage=coverage,
        seen={topic: _ids(ids.export_new()) for topic, ids in shard.seen.items()},
        tick_ms=shard.position.tick_ms,
        sampled={job_id: jobs[job_id].times_among(since_ms, until_ms) for job_id in sampled},
        heard_sources={job_id: source for job_id, source in sources.items() if source},
        watch=shard.tracker.dump(),
        tallies=shard.tallies,
        paid_ms=shard.due.accrued_to_ms,
        paid_read_to_ms=shard.due.accrued_read_to_ms,
        letter_minutes=shard.refused.quota.dump(),
        unswept_from=shard.snapshots.unswept_from,
        root=shard.snapshots.compaction.root,
        parts=parts,
        seen_older=[(topic, _ids(part)) for topic, part in also.seen],
        forgotten_ms=shard.position.forgotten_ms,
        paid=paid,
        sums=shard.sums.dump(),
        id_seed=shard.archived.seed,
        archived_jobs=b"".join(shard.archived.entries_between(*span) for span in also.archived),
        newly_archived_jobs=shard.archived.entries_of(changes.gone),
        owed=dump_owed(shard.jobs, owed),
        ahead=shard.ahead.dump(),
    )
    changes.clear(len(coverage))
    data = msgspec.msgpack.encode(blob)
    # Creating a compressor takes longer than compressing a small snapshot; one that compressed a large one retains
    # memory.
    small = len(data) <= _SMALL_BYTES
    return shard.snapshots.compressor.compress(data) if small else zstandard.compress(data, LEVEL)


def _whole(shard: ShardState, job_id: str) -> JobBlob:
    job = shard.jobs[job_id]
    blob = dump_job(job, flags_of(shard, job_id))
    job.unsaved_source()
    job.mark_saved()
    return blob


def _parts(shard: ShardState, job_ids: Iterable[str]) -> tuple[list[JobPart], list[PaidPart]]:
    """The changes of jobs that an earlier snapshot includes; a mere accrual in short form."""
    parts: list[JobPart] = []
    paid: list[PaidPart] = []
    for job_id in sorted(job_ids):
        job, flags = shard.jobs[job_id], flags_of(shard, job_id)
        short = dump_paid(job, flags)
        if short is None:
            parts.append(dump_part(job, flags))
        else:
            paid.append(short)
    return parts, paid


def flags_of(shard: ShardState, job_id: str) -> int:
    """The job's flags in the shard."""
    return (
        OPEN * (job_id in shard.due.open_jobs)
        + DIRTY * (job_id in shard.due.dirty_jobs)
        + SAMPLED * (job_id in shard.due.sampled_jobs)
    )


def unpack(data: bytes) -> StoredBlob:
    """Decode a snapshot.

    Raises:
        UnknownFormatError: The program does not support its format.
    """
    raw = zstandard.decompress(data)
    format_of(raw)
    return msgspec.msgpack.decode(raw, type=StoredBlob)


def whole_jobs(data: bytes) -> list[str]:
    """The jobs that the snapshot in `data` includes whole."""
    raw = zstandard.decompress(data)
    format_of(raw)
    return [each.id for each in msgspec.msgpack.decode(raw, type=_Whole).jobs]


_IDS = msgspec.msgpack.Decoder(_Id)
_JOBS = msgspec.msgpack.Decoder(JobBlob)
_PARTS = msgspec.msgpack.Decoder(JobPart)


def job_id_of(raw: msgspec.Raw) -> str:
    """The job id of an encoded job or change."""
    return _IDS.decode(raw).id


def whole_job(raw: msgspec.Raw) -> JobBlob:
    """Decode a whole job."""
    return _JOBS.decode(raw)


def job_part(raw: msgspec.Raw) -> JobPart:
    """Decode the changes of a job."""
    return _PARTS.decode(raw)


def job_blobs(shard: ShardState, jobs: Iterable[JobState], version: int) -> Iterator[bytes]:
    """Encode jobs for the archive, as of a version."""
    # A replay archives thousands of jobs, most without samples: shared parts are made once.
    compressor, nothing = new_compressor(), shard.coverage.export(())
    for job in jobs:
        is_sampled = any(shard.coverage.holders_of(job.id, number) for number in job.attempts)
        covered = shard.coverage.export([job.id]) if is_sampled else nothing
        archived = ArchivedJob(FORMAT, version, dump_job(job), covered)
        yield compressor.compress(msgspec.msgpack.encode(archived))


def unpack_job(data: bytes) -> ArchivedJob:
    """Decode an archived job: the inverse of `job_blobs`.

    Raises:
        UnknownFormatError: The program does not support its format.
    """
    raw = zstandard.decompress(data)
    check_archived(raw)
    return msgspec.msgpack.decode(raw, type=ArchivedJob)


def _ids(part: SeenPart) -> list[bytes]:
    """The id arrays as little-endian bytes."""
    return [array.astype(array.dtype.newbyteorder("<")).tobytes() for array in part]


def seen_part(arrays: list[bytes]) -> SeenPart:
    """Decode ids: int64 clock, then uint64 halves of the ids."""
    clock, *halves = arrays
    return SeenPart(
        np.frombuffer(clock, "<i8").astype(np.int64),
        *(np.frombuffer(h, "<u8").astype(np.uint64) for h in halves),
    )
