"""A newer price book handed to a shard: what of its jobs and nodes is derived again.

How two books differ is found in `price_news`; archived jobs are fetched and adopted around the core.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_changes import PriceChanges, job_asks, node_asks
from streams.engine.state.job import JobState

if TYPE_CHECKING:
    from streams.engine.shard.shard import Shard


def reprice(shard: Shard, book: PriceBook) -> PriceChanges | None:
    """See `Shard.set_prices`."""
    if book is shard.book:
        return None
    shard.settle()
    news = PriceChanges(shard.book, book)
    shard.book = book
    if news.span is None:
        return None
    shard.changes.prices = True
    for job_id in shard.unlisted:
        if job_id in shard.jobs:
            list_asks(shard, shard.jobs[job_id])
    shard.unlisted = []
    for job_id in news.asking(shard.priced):
        job = shard.jobs[job_id]
        if not job.is_redone and news.touches_job(job):
            job.redo_all()
            shard.dirty_jobs.add(job_id)
            shard.changes.jobs.add(job_id)
    for name in news.asking(shard.priced_nodes):
        node = shard.nodes[name]
        if news.touches_node(node):
            node.reprice()
            shard.changes.nodes.add(name)
    return news


def list_asks(shard: Shard, job: JobState) -> None:
    """Note what prices are asked for of a job whose curve or rows are made now: only those are found by `reprice`."""
    if job.asks_anew():
        dimensions = job.dimensions()
        shard.priced.put(job.id, job_asks(job, dimensions.team, dimensions.project))


def after_restore(shard: Shard) -> None:
    """List what came with a snapshot; jobs are listed with the first price that comes, or when they are derived."""
    shard.unlisted = list(shard.jobs)
    for name, node in shard.nodes.items():
        shard.priced_nodes.put(name, node_asks(node))
