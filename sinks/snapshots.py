"""A shard's state, kept where the next owner finds it: bases and increments, in checksummed chunks.

It must not know what is in a blob, nor decide when one is due.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import xxhash

from schemas.tables import SCHEMAS, SNAPSHOTS
from sinks.errors import SinkError
from sinks.port import Condition, Rows

CHUNK_BYTES: Final = 8 * 2**20
_HEAD: Final = ("version", "parent", "chunk", "chunks", "checksum")


class Snapshot(NamedTuple):
    """One version of a shard's state; `parent` is the version it continues, 0 for a base."""

    shard: int
    version: int
    parent: int
    blob: bytes


class Chain(NamedTuple):
    """A base and its increments, oldest first; `version` is that of the last one, 0 without any."""

    version: int
    blobs: list[bytes]


class _Head(NamedTuple):
    parent: int
    checksum: int
    complete: bool


class _Row(NamedTuple):
    """A chunk, as the table has it."""

    shard: int
    version: int
    parent: int
    chunk: int
    chunks: int
    checksum: int
    blob: bytes


class Snapshots:
    """Snapshots of all shards in one table. A version is written once and never changed."""

    def __init__(self, rows: Rows, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._rows = rows
        self._chunk_bytes = chunk_bytes

    def save(self, shard: int, version: int, parent: int, blob: bytes) -> None:
        """Return when the blob is durable; see `save_all`."""
        self.save_all([Snapshot(shard, version, parent, blob)])

    def save_all(self, snapshots: Sequence[Snapshot]) -> None:
        """Return when all of them are durable, in as few inserts as their size allows.

        Chunk by chunk, each insert under the token of its chunks: a crash between leaves an incomplete version,
        which `load` passes over; a retry of the same call completes it.
        """
        for snapshot in snapshots:
            if not 0 <= snapshot.parent < snapshot.version:
                raise SinkError(
                    f"snapshot {snapshot.version} of shard {snapshot.shard} cannot continue {snapshot.parent}"
                )
        for rows in _inserts(self._chunks(snapshots), self._chunk_bytes):
            table = pa.Table.from_arrays(
                [
                    pa.array(column, field.type)
                    for column, field in zip(zip(*rows, strict=True), SCHEMAS[SNAPSHOTS], strict=True)
                ],
                schema=SCHEMAS[SNAPSHOTS],
            )
            names = ",".join(f"{row.shard}:{row.version}:{row.chunk}:{row.checksum}" for row in rows)
            self._rows.insert(SNAPSHOTS, table, f"snapshot:{xxhash.xxh3_128_hexdigest(names.encode())}")

    def _chunks(self, snapshots: Iterable[Snapshot]) -> Iterator[_Row]:
        for shard, version, parent, blob in snapshots:
            checksum = xxhash.xxh3_64_intdigest(blob)
            starts = range(0, max(len(blob), 1), self._chunk_bytes)
            for chunk, start in enumerate(starts):
                part = blob[start : start + self._chunk_bytes]
                yield _Row(shard, version, parent, chunk, len(starts), checksum, part)

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


def _inserts(chunks: Iterable[_Row], most_bytes: int) -> Iterator[list[_Row]]:
    """The chunks in runs of at most `most_bytes`; a chunk that is as large stands alone."""
    run: list[_Row] = []
    size_bytes = 0
    for row in chunks:
        if run and size_bytes + len(row.blob) > most_bytes:
            yield run
            run, size_bytes = [], 0
        run.append(row)
        size_bytes += len(row.blob)
    if run:
        yield run


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
