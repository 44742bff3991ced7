"""A source of snapshots that does what it is told, and the live view driven over it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from decimal import Decimal

from textual.pilot import Pilot
from textual.widgets import Static

from streams.cli.top.figures import AlertView, Burn, Job, MeterView, Subject
from streams.cli.top.view import JobTable, TopApp
from streams.clock import ManualClock

T0_MS = 1_772_366_400_000
Drive = Callable[[TopApp, Pilot[None]], Awaitable[None]]


def job(number: int, now: float, **more: object) -> Job:
    fields = {
        "owner": f"owner-{number % 3}",
        "team": "red",
        "state": "running",
        "gpu_count": Decimal(8),
    } | more
    return Job(job_id=f"job-{number:03d}", usd_per_hour_now=Decimal(str(now)), ratio=1.0, **fields)  # type: ignore[arg-type]  # as given


def snapshot(*jobs: Job, alerts: tuple[AlertView, ...] = (), as_of_ms: int = T0_MS) -> MeterView:
    burn = Burn(
        as_of_ms, Decimal(123), Decimal(100), Decimal(2_000), 0.25, len(jobs), Decimal(64), len(alerts)
    )
    return MeterView(as_of_ms, burn, jobs, alerts, "a script")


class Script:
    """Gives what it is told to, and counts how often it was asked."""

    def __init__(self, *jobs: Job, alerts: tuple[AlertView, ...] = ()) -> None:
        self.now: MeterView | Exception = snapshot(*jobs, alerts=alerts)
        self.asked = 0

    def fetch(self) -> MeterView:
        self.asked += 1
        if isinstance(self.now, Exception):
            raise self.now
        return self.now


THREE = (job(1, 5, cost_usd=Decimal(900)), job(2, 50), job(3, 7, owner="zoe"))
PAGE = AlertView(
    "al_1",
    "burn_fast",
    "page",
    "firing",
    Subject("job", "job-002"),
    "ann",
    T0_MS - 60_000,
    summary="too fast",
)


def drive(
    source: Script, steps: Drive, size: tuple[int, int] = (80, 24), clock: ManualClock | None = None
) -> None:
    async def go() -> None:
        # The interval is long: a test asks for the next look itself.
        app = TopApp(source, clock=clock or ManualClock(T0_MS), interval_s=3_600)
        async with app.run_test(size=size) as pilot:
            await settle(app, pilot)
            await steps(app, pilot)

    asyncio.run(asyncio.wait_for(go(), 60))


async def settle(app: TopApp, pilot: Pilot[None]) -> None:
    await app.workers.wait_for_complete()
    await pilot.pause()


async def look_again(app: TopApp, pilot: Pilot[None]) -> None:
    app._poll()
    await settle(app, pilot)


def listed(app: TopApp) -> list[str]:
    return [str(row.value) for row in app.query_one(JobTable).rows]


def titles(app: TopApp) -> list[str]:
    return [str(column.label).strip() for column in app.query_one(JobTable).ordered_columns]


def said(app: TopApp, where: str) -> str:
    return str(app.query_one(where, Static).render())
