"""Raising a budget on its page: by keyboard alone, before and after, what it resolves, what raises nothing, what was refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script
from tests.page.test_budgets import HOSTILE, SHOWN, budget
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
LEVELS = ("50", "80", "100", "forecast")


@pytest.fixture
def used_up(script: Script) -> dict[str, Any]:
    """A budget that is used up, with a page that fires and a forecast that does."""
    found = budget("vision-month", 1000.25, 1000)
    script.may_act = True
    script.budgets = [found]
    firing = {"alert_id": "al_000000000000000000000001", "severity": "page", "status": "firing", "started_ms": NOW_MS, "resolved_ms": None}  # fmt: skip
    alerts = {
        "100": firing,
        "50": {**firing, "status": "resolved"},
        "forecast": {**firing, "severity": "ticket"},
    }
    levels = [{"level": each, "alert_id": "al_1", "alert": alerts.get(each)} for each in LEVELS]
    script.budget_detail = {"levels": levels, "step_ms": 3_600_000, "spend": [], "jobs": [], "jobs_left_out": 0, "actions": [], "actions_left_out": 0}  # fmt: skip
    return found


def opened_dialog(board: Board, width: int = 1440, name: str = "vision-month") -> Page:
    page = board(f"/#/budgets/{name}?kind=team&name=vision", width=width).page
    page.get_by_role("button", name="Raise its limit…").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    return page


@pytest.mark.parametrize("width", [360, 1440])
def test_it_shows_what_it_comes_to_and_asks_once(
    board: Board, script: Script, used_up: dict[str, Any], width: int, tmp_path: Path
) -> None:
    page = opened_dialog(board, width)
    seen = page.locator(".ask-preview")
    amount = page.get_by_label("Dollars a month ($1,000.00 now)")
    expect(amount).to_be_focused()
    expect(amount).to_have_value("1000.00")
    expect(seen.locator("li")).to_have_text(["Before: $1,000.25 of $1,000.00, 100 % used"])
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    assert (
        amount.evaluate("each => each.validationMessage")
        == "This raises nothing: name more than the limit of now."
    )
    page.keyboard.press("Control+a")
    page.keyboard.type("1500")
    expect(seen.locator("li")).to_have_text(
        [
            "Before: $1,000.25 of $1,000.00, 100 % used",
            "After: $1,000.25 of $1,500.00, 67 % used",
            "Resolves the page that 100 % are used",
            "Then a ticket says that 50 % of the new limit are used",
            "The forecast is judged anew by the new limit",
        ]
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    page.screenshot(path=tmp_path / f"raise-{width}.png")
    page.keyboard.press("Tab")
    page.keyboard.type("the paper is due")
    page.keyboard.press("Enter")
    token = page.get_by_label("Token (setting web.write_token)")
    expect(token).to_be_focused()
    page.keyboard.type(script.write_token)
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text(
        "Raised to $1,500.00; alerts follow within two minutes, by web.write_token"
    )
    assert script.records == [{"kind": "budget", "name": "vision-month", "replaces": {"usd": "1000.000000000"}, "usd": "1500", "comment": "the paper is due"}]  # fmt: skip
    page.evaluate("sessionStorage.clear()")


def test_several_limits_and_what_stays_used_up(board: Board, script: Script, used_up: dict[str, Any]) -> None:
    used_up["used"] = {"ratio": 1.1, "usd": {"used": "40.000000000", "limit": "100.123456789"}, "gpu_hours": {"used": 44.0, "limit": 40.0}, "wall_clock_hours": None}  # fmt: skip
    page = opened_dialog(board)
    seen = page.locator(".ask-preview li")
    page.get_by_label("GPU-hours a month (40 now)").fill("42")
    expect(seen.nth(1)).to_have_text("After: $40.00 of $100.12, 44 of 42 GPU-hours, 105 % used")
    expect(seen.last).to_have_text("It stays used up, and its actions go on")
    page.get_by_label("GPU-hours a month (40 now)").fill("100")
    expect(seen.nth(1)).to_contain_text("44 % used")
    page.get_by_label("Dollars a month").fill("90")
    expect(seen).to_have_count(1)
    assert (
        page.get_by_label("Dollars a month").evaluate("each => each.validationMessage")
        == "It is $100.12 now: name more."
    )
    page.get_by_label("Dollars a month").fill("100.12")
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    page.get_by_role("button", name="Raise it", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("Raised to 100 GPU-hours")
    assert script.records == [
        {"kind": "budget", "name": "vision-month", "replaces": {"gpu_hours": 40}, "gpu_hours": 100}
    ]
    page.evaluate("sessionStorage.clear()")


def test_a_refusal_is_said_and_left_it_writes_nothing(
    board: Board, script: Script, used_up: dict[str, Any]
) -> None:
    used_up["budget"] = HOSTILE
    script.refusal = (409, 'usd: it was changed meanwhile, the limit in force is "2000"')
    watched = board("/#/budgets", width=360)
    watched.provoked = ("409",)
    page = watched.page
    page.locator(".budgets-table a").click()
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    button = page.get_by_role("button", name="Raise its limit…")
    button.click()
    expect(page.get_by_role("dialog").locator("h2")).to_have_text(f"Raise {SHOWN}")
    page.keyboard.press("Escape")
    expect(button).to_be_focused()
    button.click()
    page.get_by_label("Dollars a month").fill("1200")
    page.get_by_role("button", name="Raise it", exact=True).click()
    expect(page.locator(".toast")).to_contain_text("Not written: usd: it was changed meanwhile")
    assert not script.records
    page.evaluate("sessionStorage.clear()")


def test_a_jobs_own_budget_is_of_its_events(board: Board, script: Script, used_up: dict[str, Any]) -> None:
    used_up |= {"budget": "", "subject": {"kind": "job", "name": "run-8"}, "per": "run"}
    page = board("/#/budgets/own?kind=job&name=run-8").page
    expect(page.get_by_text("own budget is a field of the")).to_be_visible()
    expect(page.get_by_role("button", name="Raise its limit…")).to_have_count(0)
