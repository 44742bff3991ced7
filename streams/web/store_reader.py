"""Runs store queries of the event loop in a few threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from schemas.reasons import Reason
from schemas.tables import SCHEMAS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkError
from sinks.query.refusal import NOT_ON_SERVER
from sinks.query.team_rows import TeamBound
from sinks.target import Embedded
from streams.web.errors import ApiError, of_store

T = TypeVar("T")
Row = dict[str, Any]

_THREADS = 3
#: What makes an answer of more than SQL would read rows of all teams.
_FOR_ALL = "this is made from rows of all teams, and this identity is bound to some; somebody who sees all may ask for it"


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

    @property
    def teams(self) -> tuple[str, ...] | None:
        """Whose rows alone are read; None: all."""
        return None

    async def close(self) -> None:
        """Wait for the threads to end: the store must not be closed while one uses it."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)


class TeamReader(StoreReader):
    """The same threads for rows of some teams alone: every table is filtered where it is read, and what is no SQL is refused."""

    def __init__(self, reader: StoreReader, teams: tuple[str, ...]) -> None:
        self._reader = reader
        self._teams = teams

    @property
    def teams(self) -> tuple[str, ...] | None:
        """Whose rows alone are read."""
        return self._teams

    async def run(self, work: Callable[[ClickHouseStore], T]) -> T:
        """Refuse it: a function of the store may read anything.

        Raises:
            ApiError: Always.
        """
        raise ApiError(403, _FOR_ALL, Reason.beyond_token)

    async def rows(self, sql: str, **parameters: object) -> list[Row]:
        """The rows of a query of ours as objects.

        Raises:
            ApiError: The store is not open, is a server's, or failed.
        """

        def work(store: ClickHouseStore) -> list[Row]:
            if not isinstance(store.target, Embedded):
                raise ApiError(403, NOT_ON_SERVER, Reason.beyond_token)
            bound = TeamBound(self._teams, store.target.database, frozenset(SCHEMAS))
            return store.ask(sql, parameters, bound.settings()).records()

        return await self._reader.run(work)

    async def close(self) -> None:
        """Nothing: the threads are the other reader's."""
