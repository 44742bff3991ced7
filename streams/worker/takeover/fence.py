"""Finds rows that a shard's former owner stored after the takeover, and corrects them."""

from __future__ import annotations

import logging
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from schemas.columns import values_of
from schemas.tables import SCHEMAS
from sinks.port import Store
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.takeover.rehydrate import Rehydrator
from streams.worker.takeover.restore import READ_BACK, WITHOUT_JOBS

logger = logging.getLogger(__name__)


async def fence_late_rows(store: Store, rehydrator: Rehydrator, owned: OwnedShard) -> int:
    """Correct late rows of the former owner; return how many there were. It stays due until all tables are done."""
    count = 0
    if rehydrator.under_way(owned):
        return count  # archived jobs may be in flight to the store
    for table in READ_BACK:
        late = await rehydrator.patiently(partial(late_rows, store, owned, table), lambda: not owned.gone)
        if late is None or owned.gone:
            return count
        if not late.num_rows:
            continue
        if table not in WITHOUT_JOBS and not await rehydrator.for_rows(owned, set(values_of(late["job_id"]))):
            return count
        version = owned.versions.next()
        rows = owned.shard.read_back(table, late, version)
        if rows.num_rows:
            put = partial(rehydrator.store_rows, table, rows, f"sweep:{table}:{owned.number}.{version}")
            await rehydrator.patiently(put, lambda: not owned.gone)
        count += rows.num_rows
    if owned.gone:
        return count
    owned.shard.snapshots.end_sweep()
    owned.sweep_due_ms = None
    if count:
        first = owned.takeover.first
        logger.warning(
            "late rows of the earlier owner were put right",
            extra={"shard": owned.number, "rows": count, "after_version": first},
        )
    return count


def late_rows(store: Store, owned: OwnedShard, table: str) -> pa.Table:
    """Current rows that are newer than what was known at the takeover, and older than the present owner's."""
    known, first = owned.takeover.known, owned.takeover.first
    if not store.readback.any_between(table, owned.number, known, first):
        return SCHEMAS[table].empty_table()  # as a rule; no checkpoint should wait for more than this look
    rows = store.readback.newer(table, owned.number, known)
    return rows.filter(pc.less(rows["version"], pa.scalar(first, pa.uint64())))
