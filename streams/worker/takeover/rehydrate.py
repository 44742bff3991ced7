"""Loads archived jobs back into a shard's memory, and retries while the store is busy."""

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
from streams.engine.shard.sequencer import Ticks
from streams.threads import Threads
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.takeover.restore import archived, repriced, restore_as_new

logger = logging.getLogger(__name__)

_LANDING_S = 0.02
_AT_ONCE = 4  # shards that may wait for the store concurrently
_T = TypeVar("_T")


class Rehydrator:
    """Retries without limit, until `stopped` or until the shard is revoked."""

    def __init__(self, store: Store, checkpointer: Checkpointer, stopped: Callable[[], bool]) -> None:
        self._store = store
        self._checkpointer = checkpointer
        self._stopped = stopped
        self._threads = Threads("recall", _AT_ONCE)

    async def patiently(self, call: Callable[[], _T], wanted: Callable[[], bool]) -> _T | None:
        """Call until the store is no longer busy; return None once the result is no longer wanted."""
        while wanted() and not self._stopped():
            try:
                return await self._threads.run(call)
            except SinkBusy as busy:
                logger.warning(
                    "waiting for the store",
                    extra={
                        "retry_ms": busy.retry_after_ms,
                        "reason": str(busy),
                        "runbook": "docs/trouble.md#store-unavailable",
                    },
                )
                await asyncio.sleep(busy.retry_after_ms / 1000)
        return None

    async def for_batch(self, owned: OwnedShard, batch: LogBatch) -> bool:
        """Load the archived jobs that the batch refers to; return False if the shard was revoked meanwhile."""
        return await self._load(owned, lambda: owned.shard.missing(batch))

    async def for_ticks(self, owned: OwnedShard, ticks: Ticks) -> bool:
        """Load the archived jobs that the ticks must judge; return False if the shard was revoked meanwhile."""
        return await self._load(owned, lambda: owned.shard.missing_at(ticks, owned.view))

    async def _load(
        self, owned: OwnedShard, missing: Callable[[], Mapping[str, int]], *, waits: bool = True
    ) -> bool:
        """Load jobs (id -> version) until none is missing; `waits`: also for those that are in flight to the store."""
        while wanted := missing():  # more may leave memory meanwhile
            under_way = self._checkpointer.carries(owned)
            fetch = partial(archived, self._store, owned.number, wanted)
            blobs = await self.patiently(fetch, lambda: not owned.gone)
            if blobs is None or owned.gone:
                return False
            owned.shard.adopt(blobs)
            if len(blobs) < len(wanted):
                if not under_way:
                    restore_as_new(owned.shard, owned.number, _lacking(wanted, blobs))
                elif waits:
                    # They left memory with a checkpoint that is not stored yet.
                    await asyncio.sleep(_LANDING_S)
                else:
                    return False
        return not owned.gone

    def store_rows(self, table: str, rows: pa.Table, token: str) -> None:
        """Store rows while the group counts this worker as a member; blocks.

        Raises:
            SinkBusy: The store refused, or this worker may have lost its shards.
        """
        self._checkpointer.insert(table, rows, token)

    def under_way(self, owned: OwnedShard) -> bool:
        """Whether a checkpoint of the shard is in flight, with which jobs may have left memory."""
        return self._checkpointer.carries(owned)

    async def for_rows(self, owned: OwnedShard, job_ids: Iterable[str]) -> bool:
        """Load these jobs; return False if that is impossible now: the shard was revoked, or they are in flight to the store."""
        return await self._load(owned, lambda: owned.shard.absent(job_ids), waits=False)

    async def for_prices(self, owned: OwnedShard, news: PriceChanges) -> bool:
        """Load the jobs that a price change affects; return False if the shard was revoked meanwhile."""
        while self._checkpointer.carries(owned) and not self._stopped():  # noqa: ASYNC110 - it is stored within the next tick
            await asyncio.sleep(_LANDING_S)
        fetch = partial(repriced, self._store, owned.shard, owned.number, news)
        blobs = await self.patiently(fetch, lambda: not owned.gone)
        if blobs is None or owned.gone:
            return False
        owned.shard.adopt_repriced(blobs, news)
        return True


def _lacking(wanted: Mapping[str, int], found: Mapping[str, bytes]) -> dict[str, int]:
    return {job_id: version for job_id, version in wanted.items() if job_id not in found}
