"""Runs store queries of the event loop in a few threads."""

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
    """One pool of threads; until the store is open, requests are refused."""

    def __init__(
        self, store: Callable[[], ClickHouseStore | None], name: str, threads: int = _THREADS
    ) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def run(self, work: Callable[[ClickHouseStore], T]) -> T:
        """Run a function in a thread.

        Raises:
            ApiError: The store is not open, or failed.
        """
        store = self._store()
        if store is None:
            raise ApiError(503, "the store is not open yet; /readyz says what it waits for", "starting")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._pool, work, store)
        except SinkError as fault:
            raise of_store(fault) from fault

    async def rows(self, sql: str, **parameters: object) -> list[Row]:
        """The rows of a query as objects.

        Raises:
            ApiError: The store is not open, or failed.
        """

        def work(store: ClickHouseStore) -> list[Row]:
            return store.ask(sql, parameters).records()

        return await self.run(work)

    async def close(self) -> None:
        """Wait for the threads to end: the store must not be closed while one uses it."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)
