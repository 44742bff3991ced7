"""Runs users' SQL from the event loop: a few queries at a time, each cancelled when its client leaves."""

from __future__ import annotations

import asyncio
import logging
import os
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

import msgspec

from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueriesOff, SinkError
from sinks.query.limits import QueryLimits
from sinks.query.pool import IDLE_S, QueryPool
from sinks.query.process import Answered
from sinks.query.wire import Form, Parameter
from sinks.target import Embedded, query_source
from streams.config.settings import QuerySettings
from streams.memory_budget import MemoryBudget
from streams.web.errors import ApiError, of_query, of_store
from streams.web.places import Client, Places
from streams.web.scopes import LOCAL_NAME

logger = logging.getLogger(__name__)

#: A query that waits longer for a slot is refused with Retry-After.
TURN_WITHIN_S: Final = 10.0
_LOOK_EVERY_S: Final = 0.5
WAITING_MAX: Final = 32
#: Of these, one token may hold so many, and one address.
WAITING_OF_TOKEN_MAX: Final = 16
WAITING_OF_ADDRESS_MAX: Final = 24
_BODIES_MAX_BYTES: Final = 8 * 2**20
#: Outcomes of queries, for the metrics.
OUTCOMES: Final = ("answered", "refused", "failed", "cancelled", "busy", "off")
_OUTCOME_OF: Final = {"query_refused": "refused", "queries_off": "off", "starting": "off"}


class _Workload:
    """What runs side by side: the processes of one kind of statement, and the turns of those who ask."""

    def __init__(self, limits: QueryLimits, turns: int) -> None:
        self.limits = limits
        self.turns = asyncio.Semaphore(turns)
        self.pool: QueryPool | None = None
        self._of_token_max = max(1, turns - 1)
        self._of_tokens: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    def turns_of(self, token: str) -> asyncio.Semaphore:
        """The turns of one token: all but one, so that others have one."""
        return self._of_tokens.setdefault(token, asyncio.Semaphore(self._of_token_max))


class _Query(NamedTuple):
    sql: str
    parameters: dict[str, Parameter]
    form: Form
    teams: tuple[str, ...] | None


class QueryService:
    """Runs queries; while the store is not open they are refused."""

    def __init__(self, store: Callable[[], ClickHouseStore | None], settings: QuerySettings) -> None:
        self._store = store
        self._settings = settings
        limits = QueryLimits(time_ms=settings.max_execution_time_ms, memory_bytes=settings.max_memory_bytes)
        self._users = _Workload(msgspec.structs.replace(limits, counts_reads=True), settings.max_concurrent)
        # One more, so that a page may ask for two panels at once, and leaves a turn to others.
        self._own = _Workload(limits.of_product(is_own=True), settings.max_concurrent + 1)
        # Commands of who may read the directory's token, and so its files: somebody waits at a terminal.
        self._commands = _Workload(limits.of_product(is_own=False), settings.max_concurrent)
        #: Queries that wait or run.
        self._places = Places(
            WAITING_MAX + settings.max_concurrent, WAITING_OF_TOKEN_MAX, WAITING_OF_ADDRESS_MAX
        )
        #: Bodies of requests, while they arrive.
        self.bodies = MemoryBudget(_BODIES_MAX_BYTES, _BODIES_MAX_BYTES // 4)
        self.running = 0
        self.outcomes: Counter[str] = Counter()
        self._threads = ThreadPoolExecutor(3 * settings.max_concurrent + 1, thread_name_prefix="query")
        self._timer: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def answered(
        self,
        sql: str,
        parameters: Mapping[str, Parameter],
        form: Form,
        client: Client,
        *,
        is_own: bool = False,
    ) -> AsyncIterator[Answered]:
        """Yield the result; its turn is held until it was sent, so that few results exist at a time.

        If two or more queries may run, one token may use all turns but one.

        Args:
            sql: The statement.
            parameters: Bound to it.
            form: Of the result.
            client: Who asks.
            is_own: The text is the product's, whatever the parameters are: it waits for no statement of users, has a
                process that stays, and is not starved by other programs of the machine.
        """
        workload = self._own if is_own else self._workload_of(client, form)
        async with self._admission(client, workload):
            with self._counted():
                pool = self._pool_of(workload)
                # A process that has run a user's statement could be compromised: it serves one client only.
                owner = "" if is_own else f"{client.token} {client.address} {client.teams}"
                answer = await self._run(pool, owner, _Query(sql, dict(parameters), form, client.teams))
            try:
                yield answer
            finally:
                os.close(answer.descriptor)
                self._end_idle_later()

    async def check_reader(self) -> None:
        """Once the store is open, log if SQL is off because the server provides no user for it, and why."""
        while (store := self._store()) is None:  # noqa: ASYNC110 - the opener provides no event
            await asyncio.sleep(_LOOK_EVERY_S)
        if isinstance(store.target, Embedded) or not self._settings.enabled:
            return
        try:
            pool = self._pool_of(self._users)
            await asyncio.get_running_loop().run_in_executor(self._threads, pool.check)
            self._end_idle_later()
        except (QueriesOff, ApiError) as off:
            logger.warning("SQL is off", extra={"reason": str(off), "runbook": "docs/access.md#sql"})

    async def close(self) -> None:
        """Cancel everything immediately."""
        if self._timer is not None:
            self._timer.cancel()
        for pool in self._pools():
            await asyncio.to_thread(pool.close)
        await asyncio.to_thread(self._threads.shutdown, wait=True, cancel_futures=True)

    @asynccontextmanager
    async def _admission(self, client: Client, workload: _Workload) -> AsyncIterator[None]:
        if self._places.full(client):
            self.outcomes["busy"] += 1
            raise ApiError(503, "too many queries wait already; ask again later", "busy")
        with self._places.held(client):
            async with self._turn(client.token, workload):
                yield

    @asynccontextmanager
    async def _turn(self, token: str, workload: _Workload) -> AsyncIterator[None]:
        async with AsyncExitStack() as taken:
            try:
                async with asyncio.timeout(TURN_WITHIN_S):
                    for turns in (workload.turns_of(token), workload.turns):
                        await taken.enter_async_context(turns)
            except TimeoutError:
                self.outcomes["busy"] += 1
                message = f"no query ended within {TURN_WITHIN_S:g} s (query.max_concurrent); ask again later"
                raise ApiError(503, message, "busy") from None
            yield

    @contextmanager
    def _counted(self) -> Iterator[None]:
        outcome = "failed"
        self.running += 1
        try:
            yield
            outcome = "answered"
        except asyncio.CancelledError:
            outcome = "cancelled"
            raise
        except ApiError as fault:
            outcome = _OUTCOME_OF.get(fault.code, "failed")
            raise
        finally:
            self.running -= 1
            self.outcomes[outcome] += 1

    def _pools(self) -> list[QueryPool]:
        every = (self._users, self._own, self._commands)
        return [workload.pool for workload in every if workload.pool is not None]

    def _workload_of(self, client: Client, form: Form) -> _Workload:
        is_command = client.token == LOCAL_NAME and form != "json"
        return self._commands if is_command else self._users

    def _pool_of(self, workload: _Workload) -> QueryPool:
        if not self._settings.enabled:
            raise ApiError(503, "SQL is switched off here (query.enabled)", "queries_off")
        store = self._store()
        if store is None:
            raise ApiError(503, "the store is not open yet; /readyz says what it waits for", "starting")
        if workload.pool is None:
            try:
                workload.pool = QueryPool(query_source(store.target), workload.limits)
            except QueriesOff as off:
                raise of_store(off) from off
        return workload.pool

    async def _run(self, pool: QueryPool, owner: str, query: _Query) -> Answered:
        try:
            run = pool.new_run(owner)
            future = self._threads.submit(run.answer, *query)
            try:
                return await asyncio.wrap_future(future)
            except asyncio.CancelledError:
                run.cancel()
                future.add_done_callback(_closed)
                raise
        except SinkError as fault:
            raise of_query(fault, query.sql) from fault

    def _end_idle_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(IDLE_S + 1, lambda: self._threads.submit(self._close_idle))

    def _close_idle(self) -> None:
        for pool in self._pools():
            pool.close_idle()


def _closed(future: Future[Answered]) -> None:
    """Close a result that arrived after its client left."""
    if not future.cancelled() and future.exception() is None:
        os.close(future.result().descriptor)
