"""The page over a real store in which alerts fired a while ago: what is to come is as of now, on the board and in the job's view."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from schemas.tables import JOBS
from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.sinks.rows import rows
from tests.sinks.stores import embedded
from tests.web.test_outlook import NOW, NOW_MS, about, more, of_budget, put


@pytest.fixture
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Two jobs and a budget, of which alerts fired at 09:30; it is 10:05."""
    with embedded(tmp_path_factory.mktemp("page") / "store") as store:
        idle = about(
            "i", "idle_gpus", f"leaves 8 GPUs idle; stop it, else {more(2)}", 2, started_ms=NOW_MS - 1
        )
        retries = about("r", "retry_loop", f"failed 3 times; stop it, else {more(2)}", 2)
        put(store, of_budget("budget_used", 80), idle, retries)
        seen = {"state": "running", "first_event": NOW, "last_event": NOW, "started": NOW}
        store.insert(JOBS, rows(JOBS, *({"job_id": job, **seen} for job in "ir")), "jobs")
        with serving_page(store, wall_ms=NOW_MS) as found:
            yield found


def test_what_is_to_come_is_as_of_now(url: str, opened: Open) -> None:
    page = opened(url).page
    expect(page.locator("#link")).to_have_attribute("data-state", "live", timeout=20_000)
    alerts = page.locator(".alert .summary")
    expect(alerts.filter(has_text="i leaves 8 GPUs idle")).to_have_text(
        "i leaves 8 GPUs idle; stop it, else $24 more by 18:00 UTC"
    )
    expect(alerts.filter(has_text="r failed")).to_have_text("r failed 3 times; stop it")
    expect(alerts.filter(has_text="team vision")).to_have_text(
        "team vision has used 80.0 % of budget b for March 2026: $80 of $100, $20/h; stop or shrink a ($1.00/h), or"
        " raise it; 90.5 % at 10:05 UTC, $19/h, used up at 10:35 UTC"
    )
    row = page.locator("tr", has=page.locator(".job-link[title='i']"))
    row.locator(".job-link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#job-title")).to_have_text("i")
    expect(page.locator(".evidence .alert").first).to_contain_text("stop it, else $24 more by 18:00 UTC")
    assert "17:00" not in page.locator("body").inner_text()
