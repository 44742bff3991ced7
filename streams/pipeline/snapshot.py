"""Snapshots of a shard: a base with everything, and increments with what changed since the one before.

Bytes out, state in; where they are stored, and which chain is the right one, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

import msgspec
import numpy as np
import zstandard

from schemas.events import PriceEvent
from streams.pipeline.blobs import JobBlob, NodeBlob, dump_job, dump_node
from streams.pipeline.books import Books, Tally
from streams.pipeline.ids import job_hash
from streams.pipeline.job import Job
from streams.pipeline.letters import Minutes
from streams.pipeline.watch import WatchBlob
from streams.usage.ids import SeenPart

if TYPE_CHECKING:
    from streams.pipeline.shard import Shard

#: The form below.  A snapshot of another form is refused; raise this with every change that needs it.
FORMAT: Final = 1
INCREMENTS_PER_BASE: Final = 50
_LEVEL: Final = 1


class UnknownFormatError(ValueError):
    """A snapshot was written by another version of the program."""


class SnapshotBlob(msgspec.Struct):
    """A base, or an increment on what came before it."""

    format: int
    shard: int
    is_base: bool
    version: int
    next: dict[str, int]
    newest_ms: dict[str, int]
    log_ms: dict[str, int]
    archive_due_ms: int
    books: Books
    jobs: list[JobBlob]
    dirty_jobs: list[str]
    open_jobs: list[str]
    archived: dict[int, int]
    gone: list[str]
    newly_archived: dict[int, int]
    nodes: list[NodeBlob]
    prices: list[PriceEvent] | None
    coverage: bytes
    seen: dict[str, list[bytes]]
    # The rest is absent in snapshots from before there were alerts.
    tick_ms: int | None = None
    # Jobs of which samples alone were seen since they were written: first and last event.
    sampled: dict[str, tuple[int, int]] = {}
    watch: WatchBlob | None = None
    tallies: dict[str, Tally] = {}  # by topic; absent in snapshots that knew the sum only
    paid_ms: int = 0  # up to when all that goes on is paid; 0: not known
    letter_minutes: Minutes = {}  # how many dead letters of the newest minute were kept


class ArchivedJob(msgspec.Struct, array_like=True):
    """A job in the archive with its samples' coverage."""

    format: int
    version: int
    job: JobBlob
    coverage: bytes


def increment_is_due(shard: Shard) -> bool:
    """Whether an increment will do; else a base is due (the first one, and now and then)."""
    return shard.snapshot_version > 0 and shard.increments < INCREMENTS_PER_BASE


def base(shard: Shard) -> bytes:
    """Everything a new owner needs."""
    shard.increments = 0
    blob = _blob(
        shard,
        is_base=True,
        jobs=shard.jobs.values(),
        nodes=list(shard.nodes),
        coverage=shard.coverage.export_base(),
        seen={topic: _ids(ids.export()) for topic, ids in shard.seen.items()},
        archived=shard.archived,
    )
    return _pack(shard, blob)


def increment(shard: Shard) -> bytes:
    """What changed since the last snapshot."""
    shard.increments += 1
    changes = shard.changes
    blob = _blob(
        shard,
        is_base=False,
        jobs=(shard.jobs[job_id] for job_id in sorted(changes.jobs | shard.dirty_jobs)),
        nodes=sorted(changes.nodes),
        coverage=shard.coverage.export_dirty(),
        seen={topic: _ids(ids.export_new()) for topic, ids in shard.seen.items()},
        archived={},
    )
    return _pack(shard, blob)


def _blob(
    shard: Shard,
    *,
    is_base: bool,
    jobs: Iterable[Job],
    nodes: Iterable[str],
    coverage: bytes,
    seen: dict[str, list[bytes]],
    archived: dict[int, int],
) -> SnapshotBlob:
    changes = shard.changes
    return SnapshotBlob(
        format=FORMAT,
        shard=shard.number,
        is_base=is_base,
        version=shard.version,
        next=shard.next,
        newest_ms=shard.newest_ms,
        log_ms=shard.log_ms,
        archive_due_ms=shard.archive_due_ms,
        books=shard.books,
        jobs=[dump_job(job) for job in jobs],
        dirty_jobs=sorted(shard.dirty_jobs),
        open_jobs=sorted(shard.open_jobs),
        archived=archived,
        gone=sorted(changes.gone),
        newly_archived={job_hash(job_id): version for job_id, version in changes.gone.items()},
        nodes=[dump_node(shard.nodes[name]) for name in nodes],
        prices=shard.book.events if is_base or changes.prices else None,
        coverage=coverage,
        seen=seen,
        tick_ms=shard.tick_ms,
        sampled={job_id: _seen(shard.jobs[job_id]) for job_id in sorted(shard.sampled_jobs)},
        watch=shard.watch.dump(is_base=is_base),
        tallies=shard.tallies,
        paid_ms=shard.paid_ms,
        letter_minutes=shard.refused.quota.dump(),
    )


def _seen(job: Job) -> tuple[int, int]:
    return job.first_ms, job.last_ms


def _pack(shard: Shard, blob: SnapshotBlob) -> bytes:
    shard.changes.clear()
    return zstandard.compress(msgspec.msgpack.encode(blob), _LEVEL)


def unpack(data: bytes) -> SnapshotBlob:
    """The snapshot in `data`; raises UnknownFormatError if it is of another form than ours."""
    raw = zstandard.decompress(data)
    check_format(msgspec.msgpack.decode(raw, type=_Format).format)
    return msgspec.msgpack.decode(raw, type=SnapshotBlob)


def job_blob(shard: Shard, job: Job, version: int) -> bytes:
    """A job for the archive, as of a version."""
    archived = ArchivedJob(FORMAT, version, dump_job(job), shard.coverage.export([job.id]))
    return zstandard.compress(msgspec.msgpack.encode(archived), _LEVEL)


def unpack_job(data: bytes) -> ArchivedJob:
    """The inverse of `job_blob`."""
    archived = msgspec.msgpack.decode(zstandard.decompress(data), type=ArchivedJob)
    check_format(archived.format)
    return archived


def _ids(part: SeenPart) -> list[bytes]:
    """The id arrays as little-endian bytes."""
    return [array.astype(array.dtype.newbyteorder("<")).tobytes() for array in part]


def seen_part(arrays: list[bytes]) -> SeenPart:
    """The inverse: int64 clock, then uint64 halves of the ids."""
    clock, *halves = arrays
    return SeenPart(
        np.frombuffer(clock, "<i8").astype(np.int64),
        *(np.frombuffer(h, "<u8").astype(np.uint64) for h in halves),
    )


class _Format(msgspec.Struct):
    """Of a snapshot of any form, the number of its form."""

    format: int


def check_format(found: int) -> None:
    """Raise UnknownFormatError unless this program wrote it."""
    if found != FORMAT:
        raise UnknownFormatError(
            f"the stored state has format {found}, this program reads format {FORMAT}: "
            "run the program that wrote it, or meter the log again into an empty store"
        )
