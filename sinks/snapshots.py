"""A shard's state, kept where the next owner finds it: bases and increments, in checksummed chunks.

It must not know what is in a blob, nor decide when one is due.
"""

from typing import Final, NamedTuple

import pyarrow as pa
import xxhash

from schemas.tables import SCHEMAS, SNAPSHOTS
from sinks.errors import SinkError
from sinks.port import Condition, Rows

CHUNK_BYTES: Final = 8 * 2**20
_HEAD: Final = ("version", "parent", "chunk", "chunks", "checksum")


class Chain(NamedTuple):
    """A base and its increments, oldest first; `version` is that of the last one, 0 without any."""

    version: int
    blobs: list[bytes]


class _Head(NamedTuple):
    parent: int
    checksum: int
    complete: bool


class Snapshots:
    """Snapshots of all shards in one table. A version is written once and never changed."""

    def __init__(self, rows: Rows, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._rows = rows
        self._chunk_bytes = chunk_bytes

    def save(self, shard: int, version: int, parent: int, blob: bytes) -> None:
        """Return when the blob is durable; `parent` is the version it continues, 0 for a base.

        Chunk by chunk, each under its own token: a crash between leaves an incomplete version, which
        `load` passes over; a retry of the same call completes it.
        """
        if not 0 <= parent < version:
            raise SinkError(f"snapshot {version} of shard {shard} cannot continue {parent}")
        checksum = xxhash.xxh3_64_intdigest(blob)
        starts = range(0, max(len(blob), 1), self._chunk_bytes)
        for chunk, start in enumerate(starts):
            part = blob[start : start + self._chunk_bytes]
            columns = [[shard], [version], [parent], [chunk], [len(starts)], [checksum], [part]]
            table = pa.Table.from_arrays(
                [pa.array(c, f.type) for c, f in zip(columns, SCHEMAS[SNAPSHOTS], strict=True)],
                schema=SCHEMAS[SNAPSHOTS],
            )
            self._rows.insert(SNAPSHOTS, table, f"snapshot:{shard}:{version}:{chunk}")

    def load(self, shard: int) -> Chain:
        """The newest chain that is complete and whole; broken ones are passed over."""
        heads = self._heads(shard)
        blobs: dict[int, bytes | None] = {}
        for newest in sorted(heads, reverse=True):
            chain = _chain(heads, newest)
            for version in chain:
                if version not in blobs:
                    blobs[version] = self._blob(shard, version, heads[version].checksum)
            found = [blob for version in chain if (blob := blobs[version]) is not None]
            if chain and len(found) == len(chain):
                return Chain(newest, found)
        return Chain(0, [])

    def prune(self, shard: int, keep: int) -> None:
        """Forget what is older than the `keep` newest bases that are complete."""
        if keep < 1:
            raise SinkError("at least one base of a shard is kept")
        heads = self._heads(shard)
        bases = sorted((v for v, head in heads.items() if head.parent == 0 and head.complete), reverse=True)
        if len(bases) > keep:
            oldest = bases[keep - 1]
            self._rows.delete(SNAPSHOTS, [Condition("shard", "=", shard), Condition("version", "<", oldest)])

    def _heads(self, shard: int) -> dict[int, _Head]:
        table = self._rows.select(SNAPSHOTS, [Condition("shard", "=", shard)], _HEAD)
        seen: dict[int, set[int]] = {}
        heads: dict[int, _Head] = {}
        for version, parent, chunk, chunks, checksum in zip(*table.to_pydict().values(), strict=True):
            numbers = seen.setdefault(version, set())
            numbers.add(chunk)
            heads[version] = _Head(parent, checksum, len(numbers) == chunks)
        return heads

    def _blob(self, shard: int, version: int, checksum: int) -> bytes | None:
        """The version's blob, or None if it is not what was saved."""
        where = [Condition("shard", "=", shard), Condition("version", "=", version)]
        table = self._rows.select(SNAPSHOTS, where, ("chunk", "blob"))
        chunks = dict(zip(table["chunk"].to_pylist(), table["blob"].to_pylist(), strict=True))
        blob = b"".join(chunks[number] for number in sorted(chunks))
        return blob if xxhash.xxh3_64_intdigest(blob) == checksum else None


def _chain(heads: dict[int, _Head], newest: int) -> list[int]:
    """Versions from the base to `newest`, or nothing where one is missing or incomplete."""
    chain = []
    version = newest
    while version != 0:
        head = heads.get(version)
        if head is None or not head.complete or head.parent >= version:
            return []
        chain.append(version)
        version = head.parent
    return chain[::-1]
