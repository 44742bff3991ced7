"""Finished jobs that left a shard's memory, as opaque blobs that can be loaded by job id."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from schemas.tables import ARCHIVE, SCHEMAS
from sinks.rows import Condition, Rows

# Size limit of one insert, and thereby of the memory that it needs.
INSERT_BYTES: Final = 32 * 2**20
# Ids are part of a request's URL, for which servers and proxies allow some 16 KiB.
IDS_BYTES: Final = 4096
# Number of versions that fit beside the ids.
_MOST_VERSIONS: Final = 64


class Archived(NamedTuple):
    """A job's state, and the first and last instant that anything in it refers to."""

    job_id: str
    blob: bytes
    first_ms: int
    last_ms: int


class Archive:
    """Archived jobs of all shards in one table.

    A job archived again is stored beside its older states: a new owner continues from a snapshot, and needs the state
    that the snapshot refers to, not a later one.
    """

    def __init__(self, rows: Rows, insert_bytes: int = INSERT_BYTES, ids_bytes: int = IDS_BYTES) -> None:
        self._rows = rows
        self._insert_bytes = insert_bytes
        self._ids_bytes = ids_bytes

    def save(self, shard: int, version: int, jobs: Iterable[Archived]) -> None:
        """Return when all are durable. Repeating the call changes nothing."""
        schema = SCHEMAS[ARCHIVE]
        for number, part in enumerate(_pieces(jobs, self._insert_bytes)):
            columns = [
                pa.array([shard] * len(part), pa.uint16()),
                pa.array([job.job_id for job in part], pa.string()),
                pa.array([job.blob for job in part], pa.binary()),
                pa.array([job.first_ms for job in part], pa.int64()),
                pa.array([job.last_ms for job in part], pa.int64()),
                pa.array([version] * len(part), pa.uint64()),
            ]
            token = f"archive:{shard}:{version}:{number}"
            self._rows.insert(ARCHIVE, pa.Table.from_arrays(columns, schema=schema), token)

    def fetch(self, shard: int, wanted: Mapping[str, int]) -> dict[str, bytes]:
        """The blobs of the archived ones among these jobs (id -> version of the state)."""
        found: dict[str, bytes] = {}
        for ids in id_batches(wanted, self._ids_bytes):
            versions = sorted({wanted[job_id] for job_id in ids})
            where = [Condition("shard", "=", shard), Condition("job_id", "in", ids)]
            if len(versions) <= _MOST_VERSIONS:
                where.append(Condition("version", "in", versions))
            table = self._rows.select(ARCHIVE, where, ("job_id", "version", "blob"))
            states = zip(*table.to_pydict().values(), strict=True)
            found |= {job_id: blob for job_id, version, blob in states if wanted[job_id] == version}
        return found

    def job_ids(self, shard: int) -> list[str]:
        """All archived jobs of the shard, sorted."""
        return self._ids([Condition("shard", "=", shard)])

    def overlapping(self, shard: int, from_ms: int, until_ms: int) -> list[str]:
        """The jobs with an event in [from, until)."""
        inside = (Condition("last_ms", ">=", from_ms), Condition("first_ms", "<", until_ms))
        return self._ids([Condition("shard", "=", shard), *inside])

    def _ids(self, where: Sequence[Condition]) -> list[str]:
        ids: list[str] = self._rows.select(ARCHIVE, where, ("job_id",))["job_id"].to_pylist()
        return sorted(set(ids))


def _pieces(jobs: Iterable[Archived], limit_bytes: int) -> Iterator[list[Archived]]:
    part: list[Archived] = []
    size_bytes = 0
    for job in jobs:
        if part and size_bytes + len(job.blob) > limit_bytes:
            yield part
            part, size_bytes = [], 0
        part.append(job)
        size_bytes += len(job.blob)
    if part:
        yield part


def id_batches(job_ids: Iterable[str], limit_bytes: int = IDS_BYTES) -> Iterator[list[str]]:
    """Yield the ids in lists that fit into a query."""
    batch: list[str] = []
    size_bytes = 0
    for job_id in job_ids:
        length = len(job_id.encode())
        if batch and size_bytes + length > limit_bytes:
            yield batch
            batch, size_bytes = [], 0
        batch.append(job_id)
        size_bytes += length
    if batch:
        yield batch
