"""Tracks the position of a shard in its chain of snapshots."""

from __future__ import annotations

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
        self.book = book  # the prices of the last snapshot
        self.changes = Changes()
        self.compaction = Compaction()
        self.compressor = new_compressor()
        self.unswept_from: int | None = None  # rows above this version may be a former owner's
