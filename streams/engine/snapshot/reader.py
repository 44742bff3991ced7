"""A shard from a chain of its snapshots.

Bytes are handed in, the oldest first; nothing is fetched here, and rows of later owners are put right elsewhere.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from streams.engine.pricing.book import PriceBook
from streams.engine.shard.state import ShardState
from streams.engine.snapshot import writer
from streams.engine.snapshot.job_blobs import NodeBlob, load_node
from streams.engine.snapshot.job_reader import apply_archived, apply_jobs
from streams.engine.snapshot.read_back import drop_counts
from streams.engine.snapshot.writer import StoredBlob


def load(shard: ShardState, blobs: Sequence[bytes]) -> None:
    """Apply a chain to an empty shard, with the prices as the last snapshot knew them.

    What changed of a job that is not known is passed over: a later snapshot has the job whole, or it is gone.  So is
    what is written whole again later in the chain.
    """
    with _no_collection():
        _load(shard, blobs)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Nearly all that a load makes stays: to look for garbage among it takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _load(shard: ShardState, blobs: Sequence[bytes]) -> None:
    awaited: set[str] = set()
    nodes: dict[str, NodeBlob] = {}  # the last of each: they come whole
    last = {job_id: place for place, data in enumerate(blobs) for job_id in writer.whole_jobs(data)}
    for place, data in enumerate(blobs):
        blob = writer.unpack(data)
        if blob.shard != shard.number:
            raise ValueError(f"a snapshot of shard {blob.shard} was handed to shard {shard.number}")
        _apply_facts(shard, blob)
        apply_jobs(shard, blob, awaited, place, last)
        apply_archived(shard.archived, blob)
        nodes.update((node.name, node) for node in blob.nodes)
        shard.coverage.apply(blob.coverage)
        for topic, ids in blob.seen.items():
            shard.seen[topic].apply(writer.seen_part(ids))
        for topic, ids in blob.seen_older:
            shard.seen[topic].apply_older(writer.seen_part(ids))
    if awaited or not shard.coverage.is_whole:
        raise ValueError(f"the snapshots of shard {shard.number} do not begin early enough")
    # Older snapshots have what the shard has forgotten since.
    shard.archived.forget_before(
        max(shard.position.newest_ms.values(), default=0) - shard.settings.archived_for_ms
    )
    shard.nodes.update((name, load_node(node)) for name, node in nodes.items())
    for known in shard.jobs.values():
        known.forget_derived()
        known.mark_saved()
        drop_counts(shard, known)
        shard.tracker.restored(known.id)
    shard.snapshots.compaction.length = len(blobs)
    shard.snapshots.changes.clear()


def _apply_facts(shard: ShardState, blob: StoredBlob) -> None:
    """What each snapshot has whole."""
    shard.snapshots.version = shard.snapshots.parent = blob.version
    shard.snapshots.compaction.root = blob.root
    shard.position.next, shard.snapshots.next = dict(blob.next), dict(blob.next)
    shard.position.newest_ms, shard.position.log_ms, shard.position.forgotten_ms = (
        blob.newest_ms,
        blob.log_ms,
        blob.forgotten_ms,
    )
    shard.due.archive_due_ms = blob.archive_due_ms
    shard.books, shard.tallies, shard.due.accrued_to_ms = blob.books, blob.tallies, blob.paid_ms
    shard.sums.load(blob.sums)
    shard.refused.quota.load(blob.letter_minutes)
    shard.snapshots.unswept_from = blob.unswept_from
    shard.position.tick_ms = blob.tick_ms
    if blob.prices is not None:
        shard.prices.book = PriceBook.empty().with_events(blob.prices)
    shard.prices.book = shard.snapshots.book = shard.prices.book.with_events(blob.more_prices)
    shard.tracker.load(blob.watch)
