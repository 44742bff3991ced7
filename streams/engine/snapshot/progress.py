"""Tracks where a shard stands in its chain of snapshots."""

from __future__ import annotations

from streams.engine.pricing.book import PriceBook
from streams.engine.snapshot.compaction import Compaction
from streams.engine.snapshot.compression import new_compressor
from streams.engine.state.changes import Changes


class SnapshotProgress:
    """Versions given out, what the last snapshot has, and what the next one must carry."""

    def __init__(self, book: PriceBook) -> None:
        self.version = 0  # of the last rows given out
        self.parent = 0  # the version of the last snapshot
        self.next: dict[str, int] = {}  # the log position of the last snapshot, by topic
        self.book = book  # the prices of the last snapshot
        self.changes = Changes()
        self.compaction = Compaction()
        self.compressor = new_compressor()
        self.unswept_from: int | None = None  # rows above this version may be an earlier owner's
