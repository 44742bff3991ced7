"""Brings archived jobs back into a shard's memory, and retries as long as the store takes.

It must not run while its shard is checkpointed: whoever calls sees to that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import TypeVar

import pyarrow as pa

from sinks.errors import SinkBusy
from sinks.port import Store
from streams.engine.batch import LogBatch
from streams.engine.repricing.price_changes import PriceChanges
from streams.threads import Threads
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.takeover.restore import archived, repriced, restore_as_new

logger = logging.getLogger(__name__)

_LANDING_S = 0.02
_AT_ONCE = 4  # shards that wait for the store; each holds up only itself
_T = TypeVar("_T")


class Rehydrator:
    """Asks the store without end, until `stopped` or until the shard is gone."""

    def __init__(self, store: Store, checkpointer: Checkpointer, stopped: Callable[[], bool]) -> None:
        self._store = store
        self._checkpointer = checkpointer
        self._stopped = stopped
        self._threads = Threads("recall", _AT_ONCE)

    async def patiently(self, call: Callable[[], _T], wanted: Callable[[], bool]) -> _T | None:
        """Ask again and again while the store is busy; None once the answer is no longer wanted."""
        while wanted() and not self._stopped():
            try:
                return await self._threads.run(call)
            except SinkBusy as busy:
                logger.warning(
                    "waiting for the store",
                    extra={
                        "retry_ms": busy.retry_after_ms,
                        "reason": str(busy),
                        "runbook": "docs/operations.md#store-unavailable",
                    },
                )
                await asyncio.sleep(busy.retry_after_ms / 1000)
        return None

    async def for_batch(self, owned: OwnedShard, batch: LogBatch) -> bool:
        """Bring back the jobs that the batch speaks of; False if the shard was lost meanwhile."""
        while missing := owned.shard.missing(batch):
            under_way = self._checkpointer.carries(owned)
            fetch = partial(archived, self._store, owned.number, missing)
            blobs = await self.patiently(fetch, lambda: not owned.gone)
            if blobs is None or owned.gone:
                return False
            owned.shard.adopt(blobs)
            if len(blobs) < len(missing):
                if under_way:
                    # They left memory with a checkpoint that is not stored yet.
                    await asyncio.sleep(_LANDING_S)
                else:
                    restore_as_new(owned.shard, owned.number, _lacking(missing, blobs))
        return not owned.gone

    def store_rows(self, table: str, rows: pa.Table, token: str) -> None:
        """Store rows, as long as the group counts on us; it blocks."""
        self._checkpointer.insert(table, rows, token)

    def under_way(self, owned: OwnedShard) -> bool:
        """Whether a checkpoint of the shard is taken and not stored, with which jobs may have left memory."""
        return self._checkpointer.carries(owned)

    async def for_rows(self, owned: OwnedShard, job_ids: Iterable[str]) -> bool:
        """Bring back these jobs; False if that cannot be now: the shard was lost, or they are on their way to the store."""
        while absent := owned.shard.absent(job_ids):  # more may leave memory meanwhile
            under_way = self._checkpointer.carries(owned)
            blobs = await self.patiently(
                partial(archived, self._store, owned.number, absent), lambda: not owned.gone
            )
            if blobs is None or owned.gone:
                return False
            owned.shard.adopt(blobs)
            if len(blobs) < len(absent):
                if under_way:
                    return False
                restore_as_new(owned.shard, owned.number, _lacking(absent, blobs))
        return not owned.gone

    async def for_prices(self, owned: OwnedShard, news: PriceChanges) -> bool:
        """Bring back the jobs whose prices are others now; False if the shard was lost meanwhile."""
        while self._checkpointer.carries(owned) and not self._stopped():  # noqa: ASYNC110 - it lands with the next tick
            await asyncio.sleep(_LANDING_S)
        fetch = partial(repriced, self._store, owned.shard, owned.number, news)
        blobs = await self.patiently(fetch, lambda: not owned.gone)
        if blobs is None or owned.gone:
            return False
        owned.shard.adopt_repriced(blobs, news)
        return True


def _lacking(wanted: Mapping[str, int], found: Mapping[str, bytes]) -> dict[str, int]:
    return {job_id: version for job_id, version in wanted.items() if job_id not in found}
