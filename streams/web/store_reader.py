"""Runs store queries of the event loop in a few threads.

It must not hold up the loop, nor let a user's slow query keep the live figures waiting.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkError
from streams.web.errors import ApiError, of_store

T = TypeVar("T")
Row = dict[str, Any]

_THREADS = 3


class StoreReader:
    """One pool of threads; the store may come later, and until then nothing can be asked."""

    def __init__(
        self, store: Callable[[], ClickHouseStore | None], name: str, threads: int = _THREADS
    ) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[ClickHouseStore], T]) -> T:
        """Run one piece of work in a thread; the store's faults become the API's."""
        store = self._store()
        if store is None:
            raise ApiError(503, "the store is not open yet; /readyz says what it waits for", "starting")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, store)
        except SinkError as fault:
            raise of_store(fault) from fault

    async def rows(self, sql: str, **parameters: object) -> list[Row]:
        """Return the rows of a question of our own as objects."""

        def work(store: ClickHouseStore) -> list[Row]:
            answer = store.ask(sql, parameters)
            return [dict(zip(answer.names, row, strict=True)) for row in answer.rows()]

        return await self.run(work)

    async def close(self) -> None:
        """Let the threads end; what runs is waited for, as the store must not be closed under it."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
