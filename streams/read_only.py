"""Wires `trainfare serve --read-only`: the page and the API over a store at rest, as a replay leaves it.

It must not meter, take events or write controls.
"""

from __future__ import annotations

import asyncio
import sys

from sinks.clickhouse import ClickHouseStore
from streams.app import shown_settings
from streams.clock import Clock, SystemClock
from streams.config.settings import Settings
from streams.from_settings import open_store
from streams.selfcheck.audit import ledger_checks, tables
from streams.selfcheck.audit.live import asking
from streams.selfcheck.audit.verdict import Verdict
from streams.web.last_audit import LastAudit
from streams.web.local_access import LocalAccess, served
from streams.web.server import AT_REST, WebServer
from streams.worker.health.worker_status import WorkerStatus
from streams.worker.startup import stopped_by_signals


def run_read_only(settings: Settings, clock: Clock | None = None) -> None:
    """Serve the configured store until SIGTERM or SIGINT.

    Raises:
        TrainfareError: The address is not available.
        SinkError: The store is in use, or not this user's.
    """
    store = open_store(settings.clickhouse)
    try:
        asyncio.run(_serve(settings, store, SystemClock() if clock is None else clock))
    finally:
        store.close()


async def _serve(settings: Settings, store: ClickHouseStore, clock: Clock) -> None:
    stop = asyncio.Event()
    door = LocalAccess(settings.web, settings.clickhouse.data_dir, settings.at_rest.keys)
    # Once: nothing changes in it.
    auditing = asyncio.create_task(asyncio.to_thread(_audited, store, clock))
    server = WebServer(
        settings.web,
        lambda: store,
        WorkerStatus,
        clock.monotonic_ms,
        speed=AT_REST,
        audit=lambda: LastAudit(_verdict(auditing), clock.now_ms()),
        query=settings.query,
        calendar=settings.calendar.calendar(),
        local_token=door.token,
        docs_url=settings.alerts.docs_url,
        sign_in=settings.sign_in,
        at_rest=settings.at_rest.keys,
        shown_settings=shown_settings(settings),
    )
    try:
        async with stopped_by_signals(stop), served(server, door, sys.stderr):
            await stop.wait()
    finally:
        await asyncio.wait([auditing])  # it reads the store, which is closed next


def _audited(store: ClickHouseStore, clock: Clock) -> Verdict:
    books, findings = tables.stored_findings(asking(store))
    findings += ledger_checks.parts(store.lost_parts)
    return Verdict(clock.now_ms(), tuple(findings), tuple(books))


def _verdict(auditing: asyncio.Task[Verdict]) -> Verdict | None:
    """The result of the audit; None as long as it runs, and where the store did not answer it."""
    return auditing.result() if auditing.done() and auditing.exception() is None else None
