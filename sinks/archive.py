"""Finished jobs that left a shard's memory, as opaque blobs that can be loaded by job id."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from schemas.tables import ARCHIVE
from sinks.rows import Condition, Rows

# Ids are part of a request's URL, for which servers and proxies allow some 16 KiB.
IDS_BYTES: Final = 4096
# Number of versions that fit beside the ids.
_MOST_VERSIONS: Final = 64


class Archive:
    """Archived jobs of all shards in one table.

    A job archived again is stored beside its older states: a new owner continues from a snapshot, and needs the state
    that the snapshot refers to, not a later one.
    """

    def __init__(self, rows: Rows, ids_bytes: int = IDS_BYTES) -> None:
        self._rows = rows
        self._ids_bytes = ids_bytes

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

    def overlapping(self, shard: int, from_ms: int, until_ms: int) -> list[str]:
        """The jobs with an event in [from, until)."""
        inside = (Condition("last_ms", ">=", from_ms), Condition("first_ms", "<", until_ms))
        where = [Condition("shard", "=", shard), *inside]
        ids: list[str] = self._rows.select(ARCHIVE, where, ("job_id",))["job_id"].to_pylist()
        return sorted(set(ids))


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
