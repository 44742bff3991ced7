"""A server over a store, and a client that speaks to it, in one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import aiohttp

from schemas.events import ControlEvent
from sinks.clickhouse import ClickHouseStore
from streams.calendar import PLAIN, Calendar
from streams.clock import SystemClock
from streams.config.live import CiSettings, WebSettings
from streams.config.serving import SignInSettings
from streams.config.settings import QuerySettings
from streams.engine.reference_log import ReferenceLog, Standing
from streams.web.connections import PATIENCE, Timeouts
from streams.web.receivers import ReceiverTester
from streams.web.record_log import RecordLog
from streams.web.server import WebServer
from streams.worker.health.worker_status import WorkerStatus

T = TypeVar("T")
TOKEN = "a-secret-of-sixteen-and-more"
LOCAL_TOKEN = "the-token-of-the-data-directory"
#: Log time of the server.
WALL_MS = 1_780_308_000_000
BEARER = {"Authorization": f"Bearer {TOKEN}"}
LOCAL = {"Authorization": f"Bearer {LOCAL_TOKEN}"}


class Client:
    """Asks one server."""

    def __init__(self, server: WebServer, session: aiohttp.ClientSession) -> None:
        self.server = server
        self.session = session

    async def get(self, path: str, status: int = 200, **options: Any) -> Any:
        """Return the JSON of an answer that must have the status."""
        async with self.session.get(self.server.url + path, **options) as answer:
            body = await answer.read()
            assert answer.status == status, body
            return await answer.json() if answer.content_type == "application/json" else body

    async def ask(self, body: object, status: int = 200, **options: Any) -> Any:
        """Return the JSON of an answer to a query, which is asked with the token of the data directory."""
        headers = {**LOCAL, **options.pop("headers", {})}
        url = f"{self.server.url}/api/v1/query"
        async with self.session.post(url, json=body, headers=headers, **options) as answer:
            assert answer.status == status, await answer.read()
            return await answer.json()


@asynccontextmanager
async def serving(
    store: ClickHouseStore | None,
    status: Callable[[], WorkerStatus] = WorkerStatus,
    *,
    local_token: str | None = LOCAL_TOKEN,
    patience: Timeouts = PATIENCE,
    query: QuerySettings | None = None,
    controls: RecordLog | None = None,
    standing: Standing | None = None,
    requests: Mapping[bytes, ControlEvent] | None = None,
    events: RecordLog | None = None,
    ci: CiSettings | None = None,
    receivers: ReceiverTester | None = None,
    wall_ms: int = WALL_MS,
    speed: float = 1,
    docs_url: str = "",
    filed: Mapping[bytes, ControlEvent] | None = None,
    sign_in: SignInSettings | None = None,
    clock: Callable[[], int] | None = None,
    calendar: Calendar = PLAIN,
    issued: Mapping[bytes, ControlEvent] | None = None,
    prices: ReferenceLog | None = None,
    **settings: Any,
) -> AsyncIterator[Client]:
    web = WebSettings(**{"port": 0, **settings})
    server = WebServer(
        web,
        lambda: store,
        status,
        SystemClock().monotonic_ms,
        query=query,
        ci=ci,
        local_token=local_token,
        patience=patience,
        controls=controls,
        standing=lambda: standing or {},
        requests=lambda: {} if requests is None else requests,
        events=events,
        wall_ms=clock or (lambda: wall_ms),
        speed=speed,
        receivers=lambda: receivers,
        docs_url=docs_url,
        filed=filed,
        sign_in=sign_in or SignInSettings(),
        calendar=calendar,
        issued=lambda: {} if issued is None else {**issued},
        prices=lambda: ReferenceLog() if prices is None else prices,
    )
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Client(server, session)
    finally:
        await server.stop()


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run a test's coroutine, which must not hang."""
    return asyncio.run(asyncio.wait_for(work, 60))


def served(
    store: ClickHouseStore | None, work: Callable[[Client], Coroutine[Any, Any, T]], **options: Any
) -> T:
    """Run work against a server of its own."""

    async def go() -> T:
        async with serving(store, **options) as client:
            return await work(client)

    return run(go())
