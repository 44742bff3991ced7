"""The pages of budgets: the list, one with its spend, levels, dearest jobs and actions; the override that a reader writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.accessibility import violations
from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script
from tests.page.test_budgets import HOSTILE, budget
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
HOUR_MS = 3_600_000
FIRST_MS = NOW_MS // HOUR_MS * HOUR_MS - 2 * HOUR_MS


@pytest.fixture
def budgets(script: Script) -> list[dict[str, Any]]:
    """A budget that is used up, with all that there may be of one, and one that is not judged yet."""
    script.speed = 1
    script.budgets = [
        budget("vision-month", 1000.25, 1000, period_start_ms=FIRST_MS),
        {"budget": "new", "match": {"team": "nlp"}, "used": None, "set": {"by": "ada", "time_ms": NOW_MS, "comment": ""}},
    ]  # fmt: skip
    fired = {"alert_id": "al_000000000000000000000001", "severity": "ticket", "status": "resolved", "started_ms": FIRST_MS, "resolved_ms": NOW_MS}  # fmt: skip
    script.budget_detail = {
        "levels": [
            {"level": "50", "alert_id": fired["alert_id"], "alert": fired},
            {"level": "80", "alert_id": "al_2", "alert": None},
            {"level": "100", "alert_id": "al_3", "alert": {**fired, "alert_id": "al_3", "severity": "page", "status": "firing"}},
            {"level": "forecast", "alert_id": "al_4", "alert": None},
        ],
        "step_ms": HOUR_MS,
        "spend": [[FIRST_MS, "0.100000001"], [FIRST_MS + HOUR_MS, "1000.149999999"]],
        "jobs": [{"job_id": "llm-pretrain-7b", "owner": "grace", "team": "language", "state": "running", "usd": "750.187500000"}],
        "jobs_left_out": 3,
        "actions": [{"job_id": "llm-pretrain-7b", "rung": "checkpoint", "mode": "dry_run", "state": "planned", "attempt": 0, "time_ms": NOW_MS, "used_ratio": 0.98, "detail": HOSTILE}],
        "actions_left_out": 0,
    }  # fmt: skip
    return script.budgets


def test_one_budget_from_the_board_by_keyboard(board: Board, budgets: list[dict[str, Any]]) -> None:
    watched = board()
    # Of the alert at the end, which this meter does not know: its answer may come in time.
    watched.provoked = ("404",)
    page = watched.page
    page.get_by_role("link", name="Budgets", exact=True).focus()
    page.keyboard.press("Enter")
    expect(page.locator(".page-head .count")).to_have_text("2 budgets, 1 used up")
    expect(page.locator(".budgets-table tbody tr").nth(1)).to_contain_text("not judged yet")
    page.get_by_role("link", name="vision-month").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".page-head h1")).to_have_text("vision-month")
    # Sums are exact: 0.100000001 and 1000.149999999 are 1000.25.
    expect(page.locator("#page .panel .money").first).to_have_attribute("title", "$1,000.25")
    expect(page.locator(".levels tbody tr").nth(0)).to_contain_text("fired, over, ticket")
    expect(page.locator(".levels tbody tr").nth(2)).to_contain_text("fires now, page")
    expect(page.locator(".dearest tbody tr")).to_contain_text("75 %")
    expect(page.get_by_text("3 more jobs cost less.")).to_be_visible()
    expect(page.locator(".budget-actions tbody tr")).to_contain_text("dry run: would have been asked for")
    expect(page.locator(".budget-actions tbody tr")).to_contain_text(r"<img src=x onerror=alert(1)>\u{1b}")
    expect(page.locator("#page .plot [role=slider]")).to_be_visible()
    assert "#/budgets/vision-month?kind=team&name=vision" in page.url
    page.locator(".levels a").first.click()
    assert "#/alerts/al_000000000000000000000001" in page.url
    page.go_back()
    expect(page.locator(".page-head h1")).to_have_text("vision-month")


def test_an_override_asks_for_a_reason_and_is_ended_by_its_name(
    board: Board, script: Script, budgets: list[dict[str, Any]]
) -> None:
    script.may_act = True
    page = board("/#/budgets/vision-month?kind=team&name=vision").page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    page.get_by_role("button", name="Suspend its actions…").click()
    page.get_by_label("For the next hours").fill("12")
    page.get_by_label("Why").fill("the paper is due")
    budgets[0]["override"] = {"name": "page/vision-month", "until_ms": NOW_MS + HOUR_MS, "by": "web.write_token", "reason": "due"}  # fmt: skip
    page.get_by_role("button", name="Suspend them").click()
    expect(page.locator(".toast")).to_contain_text("Actions suspended")
    (record,) = script.records
    assert (
        record.items() >= {"kind": "override", "budget": "vision-month", "reason": "the paper is due"}.items()
    )
    assert 11.9 * HOUR_MS < record["until_ms"] - script.now_ms <= 12.1 * HOUR_MS
    page.get_by_role("button", name="End the override").click()
    expect(page.locator(".toast")).to_have_count(2)
    assert script.records[1]["name"] == record["name"]
    assert script.records[1]["until_ms"] <= script.now_ms + 60_000
    page.evaluate("sessionStorage.clear()")


def test_what_cannot_be_done_or_read_is_said(
    board: Board, script: Script, budgets: list[dict[str, Any]]
) -> None:
    watched = board("/#/budgets/vision-month?kind=team&name=vision")
    watched.provoked = ("503", "404")
    page = watched.page
    expect(page.locator(".needs")).to_contain_text("set web.write_token (TRAINFARE_WEB_WRITE_TOKEN)")
    script.failing["/api/v1/budgets"] = "the store does not answer"
    page.get_by_role("link", name="All budgets").click()
    expect(page.locator("#page .notice")).to_contain_text(
        "Could not read the budgets: the store does not answer"
    )
    del script.failing["/api/v1/budgets"]
    budgets.clear()
    page.goto(f"{page.url.partition('#')[0]}#/budgets/gone")
    expect(page.locator("#page .notice")).to_contain_text("in this store")
    page.get_by_role("link", name="All budgets").click()
    expect(page.locator(".empty .lead")).to_have_text("No budget yet.")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_runs_over_the_edge(
    board: Board, script: Script, budgets: list[dict[str, Any]], width: int, scheme: str
) -> None:
    long = HOSTILE + "x" * 200
    budgets[0] |= {"budget": long, "subject": {"kind": "team", "name": long}, "match": {"team": long}}
    page = board("/#/budgets", width=width, scheme=scheme, calm=True).page
    expect(page.locator(".budgets-table tbody tr")).to_have_count(2)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    assert violations(page) == []
    page.locator(".budgets-table a").click()
    expect(page.locator(".dearest tbody tr")).to_have_count(1)
    page.locator("summary", has_text="The same as a table").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    assert violations(page) == []
