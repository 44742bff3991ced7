"""Tracks the position of a shard in its chain of snapshots."""

from __future__ import annotations

from collections.abc import Mapping

from streams.engine.pricing.book import PriceBook
from streams.engine.snapshot.compaction import Compaction
from streams.engine.snapshot.compression import new_compressor
from streams.engine.state.changes import Changes


class SnapshotProgress:
    """Versions issued, the contents of the last snapshot, and what the next one must include."""

    def __init__(self, book: PriceBook) -> None:
        self.version = 0  # version of the last rows
        self.parent = 0  # the version of the last snapshot
        self.next: dict[str, int] = {}  # the log position of the last snapshot, by topic
        self.is_behind_rows = False  # whether rows were stored since then that the next one must include
        self.book = book  # the prices of the last snapshot
        self.changes = Changes()
        self.compaction = Compaction()
        self.compressor = new_compressor()
        self.unswept_from: int | None = None  # rows above this version may be a former owner's

    def resume(self, version: int, next_offsets: Mapping[str, int], unswept_from: int | None) -> None:
        """Continue after a stored snapshot."""
        self.version = self.parent = version
        self.next = dict(next_offsets)
        self.unswept_from = unswept_from

    def begin_sweep(self, restored: int) -> int:
        """The version above which rows may be a former owner's, from now until `end_sweep`.

        As a rule it is the version that was restored. But the owner of that snapshot may not have swept rows of the
        owner before, and some may be older.
        """
        if self.unswept_from is None:
            self.unswept_from = restored
        return self.unswept_from

    def end_sweep(self) -> None:
        """Record that no row of a former owner is left."""
        self.unswept_from = None
