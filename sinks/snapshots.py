"""A shard's state, stored for the next owner: increments, each with its root, in checksummed chunks."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import xxhash

from schemas.tables import SCHEMAS, SNAPSHOTS
from sinks.errors import SinkError
from sinks.rows import Condition, Rows

CHUNK_BYTES: Final = 8 * 2**20
_HEAD: Final = ("version", "parent", "root", "chunk", "chunks", "checksum")
#: Versions loaded per query.
_VERSIONS: Final = 32


class Snapshot(NamedTuple):
    """One version of a shard's state.

    `parent`: the version that it increments, 0 for none; `root`: the oldest version that a restore needs, 0 for a
    version without a parent.
    """

    shard: int
    version: int
    parent: int
    blob: bytes
    root: int = 0


class Chain(NamedTuple):
    """The versions from the root to the last one, oldest first; `version` is the last one, 0 if there is none."""

    version: int
    blobs: list[bytes]


class _Head(NamedTuple):
    parent: int
    root: int
    checksum: int
    complete: bool


class _Row(NamedTuple):
    """A chunk, as the table has it."""

    shard: int
    version: int
    parent: int
    root: int
    chunk: int
    chunks: int
    checksum: int
    blob: bytes


class Snapshots:
    """Snapshots of all shards in one table. A version is written once and never changed."""

    def __init__(self, rows: Rows, chunk_bytes: int = CHUNK_BYTES) -> None:
        self._rows = rows
        self._chunk_bytes = chunk_bytes

    def save(self, shard: int, version: int, parent: int, blob: bytes, root: int = 0) -> None:
        """Return when the blob is durable; see `save_all`."""
        self.save_all([Snapshot(shard, version, parent, blob, root)])

    def save_all(self, snapshots: Sequence[Snapshot]) -> None:
        """Return when all are durable, in as few inserts as their size allows.

        Chunks are inserted in order, each insert under the token of its chunks: a crash in between leaves an incomplete
        version, which `load` skips; repeating the call completes it.

        Raises:
            SinkError: A version is not above its parent or root.
        """
        for snapshot in snapshots:
            if not 0 <= snapshot.parent < snapshot.version:
                raise SinkError(
                    f"snapshot {snapshot.version} of shard {snapshot.shard} cannot continue {snapshot.parent}"
                )
            if snapshot.root > snapshot.version:
                raise SinkError(
                    f"snapshot {snapshot.version} of shard {snapshot.shard} cannot begin at {snapshot.root}"
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
        for shard, version, parent, blob, root in snapshots:
            checksum = xxhash.xxh3_64_intdigest(blob)
            starts = range(0, max(len(blob), 1), self._chunk_bytes)
            for chunk, start in enumerate(starts):
                part = blob[start : start + self._chunk_bytes]
                yield _Row(shard, version, parent, root, chunk, len(starts), checksum, part)

    def load(self, shard: int) -> Chain:
        """The newest complete and undamaged chain; others are skipped."""
        found = [(version, blob) for version, blob in self.load_unknown(shard, ()) if blob is not None]
        return Chain(found[-1][0] if found else 0, [blob for _, blob in found])

    def load_unknown(self, shard: int, known: Container[int]) -> list[tuple[int, bytes | None]]:
        """The newest complete and undamaged chain, oldest first: (version, blob), None for versions in `known`."""
        heads = self._heads(shard)
        blobs: dict[int, bytes | None] = {}
        for newest in sorted(heads, reverse=True):
            chain = _chain(heads, newest)
            wanted = [version for version in chain if version not in blobs and version not in known]
            for first in range(0, len(wanted), _VERSIONS):
                blobs |= self._blobs(shard, wanted[first : first + _VERSIONS], heads)
            if chain and all(version in known or blobs[version] is not None for version in chain):
                return [(version, None if version in known else blobs[version]) for version in chain]
        return []

    def prune(self, shard: int, keep: int) -> None:
        """Delete versions older than the `keep` newest roots of complete chains.

        Raises:
            SinkError: `keep` is below 1.
        """
        if keep < 1:
            raise SinkError("at least one root of a shard is kept")
        heads = self._heads(shard)
        roots: list[int] = []
        for version in sorted(heads, reverse=True):
            if heads[version].root in roots:
                continue
            chain = _chain(heads, version)
            if chain and chain[0] not in roots:
                roots.append(chain[0])
            if len(roots) == keep:
                older = [Condition("shard", "=", shard), Condition("version", "<", min(roots))]
                if min(heads) < min(roots):
                    # They are not read any more: the flight need not wait for the deletion.
                    self._rows.delete(SNAPSHOTS, older, wait=False)
                return

    def _heads(self, shard: int) -> dict[int, _Head]:
        table = self._rows.select(SNAPSHOTS, [Condition("shard", "=", shard)], _HEAD)
        seen: dict[int, set[int]] = {}
        heads: dict[int, _Head] = {}
        for version, parent, root, chunk, chunks, checksum in zip(*table.to_pydict().values(), strict=True):
            numbers = seen.setdefault(version, set())
            numbers.add(chunk)
            heads[version] = _Head(parent, root, checksum, len(numbers) == chunks)
        return heads

    def _blobs(
        self, shard: int, versions: Sequence[int], heads: Mapping[int, _Head]
    ) -> dict[int, bytes | None]:
        """The blobs of the versions, None for a damaged one."""
        where = [Condition("shard", "=", shard), Condition("version", "in", list(versions))]
        table = self._rows.select(SNAPSHOTS, where, ("version", "chunk", "blob"))
        chunks: dict[int, dict[int, bytes]] = {version: {} for version in versions}
        for version, chunk, blob in zip(*table.to_pydict().values(), strict=True):
            chunks[version][chunk] = blob
        found: dict[int, bytes | None] = {}
        for version, parts in chunks.items():
            whole = b"".join(parts[number] for number in sorted(parts))
            found[version] = whole if xxhash.xxh3_64_intdigest(whole) == heads[version].checksum else None
        return found


def _inserts(chunks: Iterable[_Row], most_bytes: int) -> Iterator[list[_Row]]:
    """Yield the chunks in runs of at most `most_bytes`; a larger chunk is a run of its own."""
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


def _chain(heads: Mapping[int, _Head], newest: int) -> list[int]:
    """The versions from the root to `newest`, or nothing if one is missing or incomplete."""
    chain: list[int] = []
    root, version = heads[newest].root, newest
    while version != 0 and version >= root:
        head = heads.get(version)
        if head is None or not head.complete or head.parent >= version:
            return []
        chain.append(version)
        version = 0 if version == root else head.parent
    return chain[::-1] if root in (0, chain[-1]) else []
