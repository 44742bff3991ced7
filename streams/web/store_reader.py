"""Runs store queries of the event loop in a few threads."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from schemas.reasons import Reason
from schemas.tables import SCHEMAS
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkError
from sinks.query.refusal import NOT_ON_SERVER
from sinks.query.team_rows import TeamBound
from sinks.target import Embedded
from streams.explain.job import STATE_BYTES
from streams.explain.stored import ExplainedStore
from streams.explain.why.judged import CONTROLS
from streams.explain.why.margin_history import RECORDS
from streams.web.errors import ApiError, of_store

T = TypeVar("T")
Row = dict[str, Any]

#: Tables that these statements of ours read whole, and whose rows are not shown: how much a shard has stored; rules and plans,
#: by which a job is judged whoever set them.
_OF_ALL: Final[Mapping[str, frozenset[str]]] = {
    STATE_BYTES: frozenset({"snapshots"}),
    CONTROLS: frozenset({"controls"}),
    RECORDS: frozenset({"controls"}),
}

_THREADS = 3
#: What makes an answer of more than SQL would read rows of all teams.
FOR_ALL = "this is made from rows of all teams, and this identity is bound to some; somebody who sees all may ask for it"


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

    async def explained(self, work: Callable[[ExplainedStore], T]) -> T:
        """Run what explains jobs in a thread.

        Raises:
            ApiError: The store is not open, or failed.
        """
        return await self.run(work)

    @property
    def teams(self) -> tuple[str, ...] | None:
        """Whose rows alone are read; None: all."""
        return None

    async def close(self) -> None:
        """Wait for the threads to end: the store must not be closed while one uses it."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)


class TeamStore:
    """What of a store there is for whoever is bound to teams.

    States of jobs are found by the shard that a row of `jobs` names, and one is taken out of its shard's by its id: of a job of
    others there is no row.
    """

    def __init__(self, store: ClickHouseStore, teams: tuple[str, ...]) -> None:
        """A view of the store.

        Raises:
            ApiError: It is a server's.
        """
        if not isinstance(store.target, Embedded):
            raise ApiError(403, NOT_ON_SERVER, Reason.beyond_token)
        self._store = store
        self._bound = TeamBound(teams, store.target.database, frozenset(SCHEMAS))
        self.snapshots, self.archive = store.snapshots, store.archive

    def ask(self, sql: str, parameters: Mapping[str, object] | None = None) -> QueryResult:
        """Run a statement of ours over rows of these teams."""
        unfiltered = _OF_ALL.get(sql, frozenset())
        return self._store.ask(sql, parameters, self._bound.settings(unfiltered))


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
        raise ApiError(403, FOR_ALL, Reason.beyond_token)

    async def rows(self, sql: str, **parameters: object) -> list[Row]:
        """The rows of a query of ours as objects.

        Raises:
            ApiError: The store is not open, is a server's, or failed.
        """

        def work(store: ClickHouseStore) -> list[Row]:
            return TeamStore(store, self._teams).ask(sql, parameters).records()

        return await self._reader.run(work)

    async def explained(self, work: Callable[[ExplainedStore], T]) -> T:
        """Run what explains jobs of the teams in a thread; to it no other job is known.

        Raises:
            ApiError: The store is not open, is a server's, or failed.
        """
        return await self._reader.run(lambda store: work(TeamStore(store, self._teams)))

    async def close(self) -> None:
        """Nothing: the threads are the other reader's."""
