"""The Costs page by the reader's clock: days begin at that clock's midnight, and are the cells of `--tz`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, Response, expect

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.new_store import begun
from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.sinks.rows import rows

FIRST = datetime(2025, 10, 24, 10, tzinfo=UTC)
HOURS = 96


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A dollar an hour for four days around the end of summer time in Europe."""
    store = ClickHouseStore(Embedded(data_dir=begun(tmp_path_factory.mktemp("zone") / "meter")))
    hours = (
        {
            "hour": FIRST + timedelta(hours=at),
            "job_id": "j",
            "attempt": 1,
            "gpu_cost_usd": Decimal(1),
            "wall_clock_ms": 3_600_000,
        }
        for at in range(HOURS)
    )
    try:
        store.insert(
            "jobs", rows("jobs", {"job_id": "j", "team": "vision", "state": "running", "started": FIRST}), "j"
        )
        store.insert("job_hours", rows("job_hours", *hours), "h")
        with serving_page(store) as address:
            yield address
    finally:
        store.close()


def answers(page: Page, address: str) -> list[dict[str, Any]]:
    """What costs were answered per day until the page was complete."""
    found: list[dict[str, Any]] = []

    def keep(response: Response) -> None:
        if "/costs?" in response.url and "per=day" in response.url and "metric" not in response.url:
            found.append(json.loads(response.text()))

    page.on("response", keep)
    page.goto(address)
    page.reload()
    expect(page.locator(".costs-rows tbody tr").first).to_be_visible(timeout=20_000)
    expect(page.locator("#page .dimmed")).to_have_count(0, timeout=20_000)
    return found


@pytest.mark.parametrize(
    ("zone", "starts", "usd"),
    [
        ("Europe/Berlin", "2025-10-26T00:00:00+02:00", 25),
        ("Asia/Kolkata", "2025-10-26T00:30:00+05:30", 24),
        ("UTC", "2025-10-26T00:00:00Z", 24),
    ],
)
def test_days_are_those_of_the_readers_clock(
    opened: Open, url: str, zone: str, starts: str, usd: int, tmp_path: Path
) -> None:
    page = opened(url).page
    page.context.new_cdp_session(page).send("Emulation.setTimezoneOverride", {"timezoneId": zone})
    page.evaluate("localStorage.setItem('trainfare.times', 'local')")
    try:
        found = answers(page, f"{url}/#/costs?from=2025-10-24T00:00&to=2025-10-29T00:00&per=day&compare=off")
        cells = {row["period_start"]: Decimal(row["cost_usd"]) for answer in found for row in answer["rows"]}
        assert cells[starts] == usd
        assert sum(cells.values()) == HOURS
        # Chromium calls India's zone by its older name.
        name = page.evaluate("Intl.DateTimeFormat().resolvedOptions().timeZone")
        assert {answer["tz"] for answer in found} == {name}
        words = {"Europe/Berlin": "UTC+01:00", "Asia/Kolkata": "UTC+05:30", "UTC": "UTC"}[zone]
        expect(page.locator(".page-head .sub")).to_contain_text(words)
        expect(page.get_by_text(f"Own range, days of {name}")).to_be_visible()
        page.screenshot(path=tmp_path / "costs.png")
    finally:
        page.evaluate("localStorage.removeItem('trainfare.times')")
