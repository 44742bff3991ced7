"""Jobs from a chain of snapshots: every job of a shard for a restore, or one alone for an explanation.

The one place that knows how what changed of a job is laid upon what earlier snapshots have of it.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec
import zstandard

from streams.engine.snapshot import writer
from streams.engine.snapshot.archive_index import ArchiveIndex
from streams.engine.snapshot.job_blobs import DIRTY, OPEN, SAMPLED, load_job
from streams.engine.snapshot.job_parts import PaidPart, apply_paid, apply_part
from streams.engine.snapshot.writer import StoredBlob
from streams.engine.state.job import JobState
from streams.engine.state.shard_parts import DueWork


class JobsOfChain(msgspec.Struct):
    """Of a snapshot, what tells of jobs; their bytes stay undecoded."""

    format: int
    jobs: list[msgspec.Raw]
    gone: list[str]
    sampled: dict[str, tuple[int, ...]]
    parts: list[msgspec.Raw]
    paid: list[PaidPart]
    id_seed: bytes
    archived_jobs: bytes
    newly_archived_jobs: bytes


class RestoreTarget(Protocol):
    """What a chain is applied to: a shard, or `KnownJobs`."""

    @property
    def jobs(self) -> MutableMapping[str, JobState]:
        """By id."""
        ...

    due: DueWork


@dataclass
class KnownJobs:
    """Jobs without a shard around them."""

    jobs: dict[str, JobState] = field(default_factory=dict)
    due: DueWork = field(default_factory=DueWork)


def unpack_jobs(data: bytes) -> tuple[JobsOfChain, int]:
    """What a stored snapshot tells of jobs, and its size unpacked, in bytes.

    Raises:
        UnknownFormatError: it is of a form that this program does not read.
    """
    raw = zstandard.decompress(data)
    writer.check_format(msgspec.msgpack.decode(raw, type=writer.SnapshotFormat).format)
    return msgspec.msgpack.decode(raw, type=JobsOfChain), len(raw)


def apply_archived(known: ArchiveIndex, blob: StoredBlob | JobsOfChain) -> None:
    """Take over what a snapshot says of archived jobs; the oldest snapshot comes first."""
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
    """Apply the snapshot at a place in the chain; the oldest comes first.

    Args:
        target: changed in place.
        blob: the snapshot.
        awaited: jobs of which a part came that rests on nothing known; a later snapshot has them whole, or they are gone.
        place: of the snapshot in its chain.
        last: by job, the place where it is whole for the last time; what comes before that is passed over.
    """
    for job_id in blob.gone:
        target.jobs.pop(job_id, None)
        awaited.discard(job_id)
        _flag(target, job_id, 0)
    for raw in blob.jobs:
        job_id = writer.job_id_of(raw)
        if last[job_id] == place:
            whole = writer.whole_job(raw)
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
        known.first_ms, known.last_ms = min(known.first_ms, seen_ms[0]), max(known.last_ms, seen_ms[1])
        known.heard_ms = max([known.heard_ms, *seen_ms[2:]])


def _apply_parts(
    target: RestoreTarget,
    blob: StoredBlob | JobsOfChain,
    awaited: set[str],
    place: int,
    last: Mapping[str, int],
) -> None:
    """What changed of jobs that are known."""
    for raw in blob.parts:
        job_id = writer.job_id_of(raw)
        if last.get(job_id, -1) > place:
            continue
        known = target.jobs.get(job_id)
        if known is None:
            awaited.add(job_id)
        else:
            part = writer.job_part(raw)
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


def _flag(target: RestoreTarget, job_id: str, flags: int) -> None:
    due = target.due
    for flag, jobs in ((OPEN, due.open_jobs), (DIRTY, due.dirty_jobs), (SAMPLED, due.sampled_jobs)):
        if flags & flag:
            jobs.add(job_id)
        else:
            jobs.discard(job_id)
