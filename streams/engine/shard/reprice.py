"""Applies a newer price book to a shard: marks the jobs and nodes whose rows must be derived again.

`price_changes` compares the books; archived jobs are loaded outside the engine.
"""

from __future__ import annotations

from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_changes import PriceChanges, index_job, node_lookups
from streams.engine.shard.state import ShardState


def reprice(shard: ShardState, book: PriceBook) -> PriceChanges | None:
    """Adopt a price book; see `Shard.set_prices`."""
    if book is shard.prices.book:
        return None
    shard.publish_samples()
    news = PriceChanges.between(shard.prices.book, book)
    shard.prices.book = book
    if news.span is None:
        return None
    shard.snapshots.changes.prices = True
    for job_id in shard.prices.unindexed:
        if job_id in shard.jobs:
            index_job(shard.prices.jobs, shard.jobs[job_id])
    shard.prices.unindexed = []
    for job_id in news.asking(shard.prices.jobs):
        job = shard.jobs[job_id]
        if not job.is_redone and news.touches_job(job):
            job.redo_all()
            shard.due.dirty_jobs.add(job_id)
            shard.snapshots.changes.jobs.add(job_id)
    for name in news.asking(shard.prices.nodes):
        node = shard.nodes[name]
        if news.touches_node(node):
            node.reprice()
            shard.mark_node(name)
    return news


def after_restore(shard: ShardState) -> None:
    """Index the contents of a snapshot: jobs are indexed at the first price change, or when they are derived."""
    shard.prices.unindexed = list(shard.jobs)
    for name, node in shard.nodes.items():
        shard.prices.nodes.set_lookups(name, node_lookups(node))
