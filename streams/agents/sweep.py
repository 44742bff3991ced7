"""A second look for rows of a shard's earlier owner: an insert of its may have landed after the shard was restored.

It must not run before a restore, nor take rows of the present owner for foreign ones.
"""

from __future__ import annotations

import logging
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from sinks.port import Store
from streams.agents.held import Held
from streams.agents.recall import Recall
from streams.agents.restore import READ_BACK, WITHOUT_JOBS

logger = logging.getLogger(__name__)


async def sweep(store: Store, recall: Recall, held: Held) -> int:
    """Put right what came too late, and return how many rows that were; it stays due until all is done."""
    count = 0
    if recall.under_way(held):
        return count  # archived jobs may be on their way to the store
    for table in READ_BACK:
        late = await recall.patiently(partial(_late, store, held, table), lambda: not held.gone)
        if late is None or held.gone:
            return count
        if not late.num_rows:
            continue
        if table not in WITHOUT_JOBS and not await recall.for_rows(held, set(late["job_id"].to_pylist())):
            return count
        version = held.versions.next()
        rows = held.shard.read_back(table, late, version)
        if rows.num_rows:
            put = partial(recall.put, table, rows, f"sweep:{table}:{held.number}.{version}")
            await recall.patiently(put, lambda: not held.gone)
        count += rows.num_rows
    if held.gone:
        return count
    held.shard.unswept_from = held.sweep_due_ms = None
    if count:
        first = held.takeover.first
        logger.warning("shard %d: %d rows of its earlier owner came after %d", held.number, count, first)
    return count


def _late(store: Store, held: Held, table: str) -> pa.Table:
    """Current rows that are newer than what was known at the takeover, and older than ourselves."""
    rows = store.readback.newer(table, held.number, held.takeover.known)
    return rows.filter(pc.less(rows["version"], pa.scalar(held.takeover.first, pa.uint64())))
