"""Budgets on the page: share, money, forecast, actions, overrides; setting one; hostile names; both schemes, both widths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script

Board = Callable[..., Watched]
HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202egnp"
SHOWN = r"<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}gnp"


def budget(name: str, used: float, limit: float, **changes: Any) -> dict[str, Any]:
    """One BUDGET of the API."""
    row = {
        "budget": name,
        "subject": {"kind": "team", "name": "vision"},
        "match": {"team": "vision"},
        "per": "month",
        "period_start_ms": NOW_MS // DAY_MS * DAY_MS,
        "period_end_ms": NOW_MS // DAY_MS * DAY_MS + 30 * DAY_MS,
        "used": {"ratio": used / limit, "usd": {"used": f"{used:.9f}", "limit": f"{limit:.9f}"}, "gpu_hours": None, "wall_clock_hours": None},
        "usd_per_hour": "44.100000000",
        "exhausted_ms": None,
        "actions": [],
        "override": None,
        "set": {"by": "platform", "time_ms": NOW_MS - DAY_MS, "comment": ""},
    }  # fmt: skip
    return row | changes


def planned(rung: str, **changes: Any) -> dict[str, Any]:
    row = {"rung": rung, "mode": "dry_run", "state": "planned", "jobs": 3, "time_ms": NOW_MS - 600_000}
    return row | changes


@pytest.fixture
def budgets(script: Script) -> list[dict[str, Any]]:
    script.may_act = True
    script.speed = 1
    script.budgets += [
        budget("sweep-12", 104, 100, subject={"kind": "experiment", "name": "vit-lr"}, per="total", period_end_ms=None, actions=[planned("checkpoint"), planned("stop", mode="live", state="acknowledged", jobs=1)], override={"name": "paper", "until_ms": NOW_MS + 8 * HOUR_MS, "by": "ada", "reason": "the paper is due tomorrow"}),
        budget("vision-month", 8_640.5, 10_000, exhausted_ms=NOW_MS + 2 * HOUR_MS),
        budget("nlp-month", 1_200, 20_000, subject={"kind": "team", "name": "nlp"}),
        {"budget": "fresh", "match": {"team": "nlp"}, "used": None, "set": {"by": "web.write_token", "time_ms": NOW_MS, "comment": "agreed"}},
    ]  # fmt: skip
    return script.budgets


def test_each_budget_says_its_share_its_money_and_its_end(board: Board, budgets: list[Any]) -> None:
    page = board().page
    items = page.locator(".budget")
    expect(items).to_have_count(4)
    expect(items.nth(0)).to_contain_text("104 %")
    expect(items.nth(0)).to_contain_text("used up")
    expect(items.nth(0)).to_contain_text("dry run checkpoint planned, 3 jobs")
    expect(items.nth(0)).to_contain_text("stop acknowledged")
    expect(items.nth(0)).to_contain_text("actions suspended by ada until")
    expect(items.nth(1)).to_contain_text("$8,640.50 of $10,000.00")
    expect(items.nth(1)).to_contain_text("used up at 13:43 at this rate ($44.10/h)")
    expect(items.nth(2)).to_contain_text("lasts until the period ends")
    expect(items.nth(3)).to_contain_text("set by web.write_token")
    expect(page.get_by_role("progressbar", name="Used of budget vision-month: 86 %")).to_be_visible()


def test_an_end_that_has_passed_is_not_to_come(board: Board, budgets: list[Any]) -> None:
    """Budgets have not been judged for an hour."""
    budgets.append(budget("late", 9_000, 10_000, exhausted_ms=NOW_MS - HOUR_MS))
    item = board().page.locator(".budget", has_text="late")
    expect(item).to_contain_text("was to be used up at 10:43 ($44.10/h)")
    expect(item).not_to_contain_text("at this rate")


def test_a_budget_is_set_with_the_token_and_who_did_it_is_said(
    board: Board, script: Script, budgets: list[Any]
) -> None:
    page = board().page
    page.evaluate(f"sessionStorage.setItem('trainfare.write-token', '{script.write_token}')")
    page.get_by_role("button", name="Set a budget…").click()
    page.get_by_label("Name of the budget").fill("speech-week")
    page.get_by_label("Name of the team, owner").fill("speech")
    page.get_by_label("Dollars").fill("500")
    page.get_by_label("For", exact=True).select_option("week")
    page.get_by_role("button", name="Set it").click()
    expect(page.locator(".toast")).to_have_text("Budget speech-week set: $500.00, by web.write_token.")
    assert script.records == [
        {"kind": "budget", "name": "speech-week", "team": "speech", "usd": "500", "per": "week"}
    ]
    page.evaluate("sessionStorage.clear()")


def test_a_budget_that_exists_is_not_replaced(board: Board, script: Script, budgets: list[Any]) -> None:
    page = board().page
    expect(page.locator(".budget")).to_have_count(4)
    page.get_by_role("button", name="Set a budget…").click()
    page.get_by_label("Name of the budget").fill("sweep-12")
    page.get_by_label("Name of the team, owner").fill("speech")
    page.get_by_label("Dollars").fill("500")
    page.get_by_role("button", name="Set it").click()
    expect(page.locator(".toast[data-kind=bad]")).to_contain_text("there is a budget sweep-12")
    assert not script.records


def test_who_may_not_write_has_no_button_and_without_a_budget_no_section(
    board: Board, script: Script
) -> None:
    page = board().page
    expect(page.locator(".jobs tbody tr").first).to_be_visible()
    assert not page.locator("#budgets").is_visible()
    assert not page.locator("#set-budget").is_visible()


def test_hostile_names_are_text(board: Board, script: Script) -> None:
    script.budgets.append(
        budget(
            HOSTILE,
            10,
            100,
            subject={"kind": "team", "name": HOSTILE},
            override={"name": HOSTILE, "until_ms": None, "by": HOSTILE, "reason": HOSTILE},
            set={"by": HOSTILE, "time_ms": NOW_MS, "comment": HOSTILE},
        )
    )
    script.budgets.append(
        {
            "budget": HOSTILE,
            "match": {"team": HOSTILE},
            "used": None,
            "set": {"by": HOSTILE, "time_ms": NOW_MS, "comment": HOSTILE},
        }
    )
    page = board().page
    expect(page.locator(".budget")).to_have_count(2)
    assert page.locator(".budget img").count() == 0
    for at, times in ((0, 6), (1, 4)):
        text = page.locator(".budget").nth(at).inner_text()
        assert text.count(SHOWN) == times
        assert "\u202e" not in text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1400])
def test_nothing_runs_over_the_edge(
    board: Board, script: Script, budgets: list[Any], width: int, scheme: str
) -> None:
    budgets.append(budget("x" * 200, 1, 100))
    page = board(width=width, scheme=scheme).page
    expect(page.locator(".budget")).to_have_count(5)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    order = page.evaluate(
        "['.alerts', '.budgets', '.jobs'].map((each) => document.querySelector(each).getBoundingClientRect().top)"
    )
    assert order[1] < order[2]
