"""Readiness checks: those of the worker, and whether the store answers now."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final

from streams.web.cache import Cache
from streams.web.errors import ApiError
from streams.web.store_reader import StoreReader
from streams.worker.health.worker_status import Check, WorkerStatus

_WITHIN_S: Final = 2.0
_TTL_MS: Final = 2_000
RECENT_MS: Final = 200
_NAME: Final = "clickhouse"
#: The public text of a failing check; its detail contains addresses and names.
PUBLIC_REASONS: Final[Mapping[str, str]] = {
    "kafka": "Kafka does not answer, or is still waited for",
    "clickhouse": "the store does not answer, or is still waited for",
    "group": "the worker has not joined its group",
    "clock": "the clock of the worker's machine is wrong",
    "shards": "shards are being loaded",
    "owners": "shards have no owner",
    "transactions": "an open transaction holds records back",
    "progress": "a shard stands still",
}


def public(check: Check) -> str:
    """The public text of a check, none of which comes from outside."""
    return "holds" if check.ok else PUBLIC_REASONS.get(check.name, "does not hold")


class Health:
    """Checks the store with one query at a time, in a thread of its own."""

    def __init__(
        self,
        store_reader: StoreReader,
        worker: Callable[[], WorkerStatus],
        store_name: Callable[[], str | None],
        now_ms: Callable[[], int],
    ) -> None:
        self._store_reader = store_reader
        self._worker = worker
        self._store_name = store_name
        self._now_ms = now_ms
        self._seen: tuple[WorkerStatus, int] | None = None
        self._cache = Cache(now_ms, _TTL_MS, ttl_per_cost=0)

    async def status(self) -> WorkerStatus:
        """The worker's present status."""
        return self._worker()

    async def recent(self) -> WorkerStatus:
        """The worker's status of at most a moment ago: health is public, and may be requested often."""
        now_ms = self._now_ms()
        if self._seen is None or now_ms - self._seen[1] >= RECENT_MS:
            self._seen = (self._worker(), now_ms)
        return self._seen[0]

    async def checks(self) -> tuple[Check, ...]:
        """All readiness checks."""
        own = (await self.recent()).checks
        name = self._store_name()
        if name is None:  # not open yet: the worker's own checks report why
            return own
        return (*(check for check in own if check.name != _NAME), await self._store(name))

    async def _store(self, name: str) -> Check:
        try:
            await asyncio.wait_for(self._cache.get("ping", self._ping), _WITHIN_S)
        except ApiError as fault:
            return Check(_NAME, False, fault.message)
        except TimeoutError:
            return Check(_NAME, False, f"{name} has not answered for {_WITHIN_S:g} s")
        return Check(_NAME, True, name)

    async def _ping(self) -> bool:
        await self._store_reader.rows("SELECT 1 AS one")
        return True
