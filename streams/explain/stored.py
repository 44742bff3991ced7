"""Reads one job's state from its shard's newest snapshots, with a cache of unpacked snapshots.

The cache never exceeds its limit.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

import msgspec

from sinks.answer import QueryResult
from sinks.archive import Archive
from sinks.snapshots import Snapshots
from streams.engine.shard import snapshot_writer
from streams.engine.shard.snapshot_reader import (
    JobsOfChain,
    KnownJobs,
    apply_archived,
    apply_jobs,
    unpack_jobs,
)
from streams.engine.snapshot.archive_index import ArchiveIndex
from streams.engine.snapshot.job_blobs import JobBlob, dump_job
from streams.engine.snapshot.job_parts import PaidPart

#: Limit of cached, unpacked snapshots.
KEPT_MAX_BYTES: Final = 64 * 2**20
#: Reasons for falling back to whole minutes.
FALLBACKS: Final = ("too_large", "no_state", "differs")


class States(Protocol):
    """The parts of a store that hold the states of jobs, which its shard stores with those of others."""

    @property
    def snapshots(self) -> Snapshots:
        """The snapshots of shards."""
        ...

    @property
    def archive(self) -> Archive:
        """The archive of finished jobs."""
        ...


class ExplainedStore(States, Protocol):
    """What jobs are explained from: the store, or what of it may be read."""

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Run our own read-only SQL."""
        ...


@dataclass(frozen=True, slots=True)
class _UnpackedSnapshot:
    """A snapshot, indexed by job."""

    blob: JobsOfChain
    jobs: dict[str, msgspec.Raw]
    parts: dict[str, msgspec.Raw]
    paid: dict[str, PaidPart]
    gone: frozenset[str]
    archived: ArchiveIndex
    size_bytes: int

    def of(self, job_id: str) -> JobsOfChain:
        """The snapshot reduced to one job, which does not retain the rest in memory."""
        whole, part, paid = self.jobs.get(job_id), self.parts.get(job_id), self.paid.get(job_id)
        sampled = self.blob.sampled.get(job_id)
        return JobsOfChain(
            format=self.blob.format,
            jobs=[] if whole is None else [whole.copy()],
            gone=[job_id] if job_id in self.gone else [],
            sampled={} if sampled is None else {job_id: sampled},
            parts=[] if part is None else [part.copy()],
            paid=[] if paid is None else [paid],
            id_seed=self.blob.id_seed,
            archived_jobs=b"",
            newly_archived_jobs=b"",
        )


@dataclass
class StoredJobs:
    """Reads jobs from snapshots; thread-safe.

    `fallbacks` counts explanations that fell back to whole minutes, by reason.
    """

    kept_max_bytes: int = KEPT_MAX_BYTES
    fallbacks: dict[str, int] = field(default_factory=dict)
    _kept: OrderedDict[tuple[int, int], _UnpackedSnapshot] = field(default_factory=OrderedDict)
    _kept_bytes: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def job(self, store: States, shard: int, job_id: str) -> JobBlob | None:
        """The job from its shard's newest snapshots, or from the archive that they refer to; None if it is in neither.

        Raises:
            SinkError: The store does not answer.
            UnknownFormatError: Another version of the program wrote the snapshots.
        """
        blobs: list[JobsOfChain] = []
        archived: int | None = None
        for each in self._chain(store, shard):
            blobs.append(each.of(job_id))
            version = each.archived.version_of(job_id)
            archived = archived if version is None else version
        last = {job_id: max((place for place, blob in enumerate(blobs) if blob.jobs), default=-1)}
        known, awaited = KnownJobs(), set[str]()
        for place, blob in enumerate(blobs):
            apply_jobs(known, blob, awaited, place, last)
        found = known.jobs.get(job_id)
        if found is not None:
            return None if job_id in awaited else dump_job(found)
        if archived is None:
            return None
        fetched = store.archive.fetch(shard, {job_id: archived})
        return snapshot_writer.unpack_job(fetched[job_id]).job if job_id in fetched else None

    def fell_back(self, reason: str) -> None:
        """Count an explanation that falls back to whole minutes."""
        with self._lock:
            self.fallbacks[reason] = self.fallbacks.get(reason, 0) + 1

    def _chain(self, store: States, shard: int) -> Iterator[_UnpackedSnapshot]:
        """Yield the newest chain, oldest first; a version is immutable, so cached ones stay valid."""
        with self._lock:
            kept = {version: each for (number, version), each in self._kept.items() if number == shard}
        for version, data in store.snapshots.load_unknown(shard, kept.keys()):
            each = kept[version] if data is None else _unpacked(data)
            self._keep((shard, version), each)
            yield each

    def _keep(self, key: tuple[int, int], each: _UnpackedSnapshot) -> None:
        with self._lock:
            if key not in self._kept:
                self._kept[key] = each
                self._kept_bytes += each.size_bytes
            self._kept.move_to_end(key)
            while self._kept_bytes > self.kept_max_bytes:
                _, oldest = self._kept.popitem(last=False)
                self._kept_bytes -= oldest.size_bytes


def _unpacked(data: bytes) -> _UnpackedSnapshot:
    blob, size_bytes = unpack_jobs(data)
    archived = ArchiveIndex()
    apply_archived(archived, blob)
    return _UnpackedSnapshot(
        blob,
        jobs={snapshot_writer.job_id_of(raw): raw for raw in blob.jobs},
        parts={snapshot_writer.job_id_of(raw): raw for raw in blob.parts},
        paid={each.id: each for each in blob.paid},
        gone=frozenset(blob.gone),
        archived=archived,
        size_bytes=size_bytes + archived.nbytes,
    )
