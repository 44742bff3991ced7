"""The Costs page where things are not as they should be: nothing yet, a fault, a cut, no price, names that nobody expects."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import Page, Route, expect

from tests.page.conftest import Watched
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
END = datetime(2026, 6, 1, 12, tzinfo=UTC)
RTL = "\N{RIGHT-TO-LEFT OVERRIDE}" + "gnol" * 62
COMPONENTS = ("gpu", "compute", "network", "storage", "license", "labor", "overhead", "compliance")


class Costs:
    """Answers as the API does, from a few names that each cost the same every day."""

    def __init__(self, **usd: str) -> None:
        self.usd = {name.replace("_", "-"): Decimal(amount) for name, amount in usd.items()}
        self.left_out = 0
        self.unpriced: set[str] = set()
        self.is_empty = False
        self.fault: tuple[int, str] | None = None
        self.too_many = ""  # what the drivers are refused with
        self.idle: Decimal | None = None
        self.held: list[Route] | None = None  # requests that wait
        self.held_chart: list[Route] | None = None  # those for the cells of the chart
        self.asked: list[dict[str, list[str]]] = []

    def watch(self, page: Page) -> None:
        page.route("**/api/v1/costs**", self.answer)
        page.route("**/api/v1/forecast**", self.answer)

    def answer(self, route: Route) -> None:
        if self.held is not None:
            self.held.append(route)
            return
        url = urlsplit(route.request.url)
        asked = parse_qs(url.query, keep_blank_values=True)
        if self.held_chart is not None and "metric" not in asked and "per" in asked:
            self.held_chart.append(route)
        elif self.fault is not None:
            status, message = self.fault
            route.fulfill(status=status, json={"error": {"code": "x", "message": message}})
        elif self.too_many and "drivers" in asked:
            route.fulfill(status=400, json={"error": {"code": "bad_request", "message": self.too_many}})
        elif url.path.endswith("/span"):
            times = (END - timedelta(days=90), END, END)
            texts = [None if self.is_empty else f"{at:%Y-%m-%dT%H:%M:%SZ}" for at in times]
            names = ("first_hour", "end_hour", "as_of", "billed_until")
            route.fulfill(json=dict(zip(names, (*texts, None), strict=True)))
        elif url.path.endswith(("/month", "/forecast")):
            total = {"spent_usd": "5.000000000", "forecast_usd": None}
            found = {"month": "2026-06", "basis": "no day", "basis_days": 0, "earlier_forecasts": 0}
            route.fulfill(json={**found, **total, "total": total})
        else:
            self.asked.append(asked)
            route.fulfill(body=json.dumps(self.rows(asked)), content_type="application/json")

    def rows(self, asked: dict[str, list[str]]) -> dict[str, Any]:
        metric, per = asked.get("metric", ["total"])[0], asked.get("per", ["all"])[0]
        level = asked.get("by", [""])[0]
        first, last = (datetime.fromisoformat(asked[name][0]).replace(tzinfo=UTC) for name in ("from", "to"))
        starts = [first]
        if per == "day":
            starts = [first + timedelta(days=day) for day in range((last - first).days + 1)]
        if metric == "m3":
            idle = [] if self.idle is None else [self._idle(at) for at in starts]
            return {"rows": idle, "is_cut": False, "left_out": 0, "drivers": []}
        names = self.usd.items() if level else [("", sum(self.usd.values(), Decimal(0)))]
        rows = []
        for at in starts:
            for name, usd in sorted(names, key=lambda each: -each[1]):
                whole = usd if per == "day" else usd * 30
                row: dict[str, Any] = {
                    "period_start": f"{at:%Y-%m-%dT%H:%M:%SZ}",
                    "cost_usd": f"{whole:.9f}",
                    **{f"{component}_cost_usd": "0.000000000" for component in COMPONENTS},
                    "gpu_cost_usd": f"{whole:.9f}",
                    "previous_cost_usd": f"{whole / 2:.9f}",
                    "lost_cost_usd": "0.000000000",
                    "wall_clock_h": 2.0,
                    "gpu_h": 4.0,
                    "unpriced_gpu_h": 3.0 if name in self.unpriced else 0.0,
                    "jobs": 1,
                    "median_usd_per_hour": 1.5,
                    "p95_usd_per_hour": 9.5,
                }
                rows.append(row | {level: name} if level else row)
        is_cut = bool(self.left_out and level and per == "all" and metric == "total")
        return {"rows": rows, "is_cut": is_cut, "left_out": self.left_out if is_cut else 0, "drivers": []}

    def _idle(self, at: datetime) -> dict[str, Any]:
        assert self.idle is not None
        return {
            "period_start": f"{at:%Y-%m-%dT%H:%M:%SZ}",
            "cost_usd": f"{10 * self.idle:.9f}",
            "idle_cost_usd": f"{self.idle:.9f}",
            "overcommitted_cost_usd": "0.000000000",
            "unattributed_cost_usd": f"{self.idle / 4:.9f}",
            "unpriced_usd": 0.0,
            "ratio": 0.1,
        }


def shown(board: Board, costs: Costs, address: str = "#/costs", **how: Any) -> Page:
    """Open the page once the meter's first figures are there."""
    page = board(**how).page
    costs.watch(page)
    page.evaluate("(to) => { location.hash = to; }", address)
    return page


def test_nothing_yet_says_why_and_what_to_do(board: Board) -> None:
    costs = Costs()
    costs.is_empty = True
    page = shown(board, costs)
    expect(page.locator("#page .empty")).to_contain_text("Nothing has cost anything yet")
    expect(page.locator(".costs-parts")).to_be_hidden()


def test_a_time_without_costs_names_that_with_costs(board: Board) -> None:
    page = shown(board, Costs())
    expect(page.locator("#page .empty")).to_contain_text(
        "The store has costs from 2026-03-03 12:00 to 2026-06-01 12:00 UTC"
    )
    expect(page.get_by_role("link", name="Show all there is")).to_have_attribute("href", "#/costs?range=all")


@pytest.mark.parametrize(
    ("status", "words"),
    [(504, "The store did not answer in time: too slow"), (400, "Could not read the costs: too slow")],
)
def test_a_fault_is_told_in_words_and_tried_again(board: Board, status: int, words: str) -> None:
    costs = Costs(vision="10")
    costs.fault = (status, "too slow")
    watched = board()
    watched.provoked = (str(status),)
    page = watched.page
    costs.watch(page)
    page.get_by_role("link", name="Costs", exact=True).click()
    expect(page.locator("#page .notice")).to_contain_text(words)
    costs.fault = None
    page.locator("#page .notice").get_by_role("button", name="Try again").click()
    expect(page.locator(".costs-rows tbody tr")).to_have_count(1)
    expect(page.locator("#page .notice")).to_be_hidden()


def test_a_slow_answer_is_said_and_the_old_figures_stay(board: Board) -> None:
    costs = Costs(vision="10")
    page = shown(board, costs)
    expect(page.locator(".costs-rows tbody tr")).to_have_count(1)
    costs.held = []
    page.get_by_role("link", name="7 days").click()
    expect(page.locator("#page .slow")).to_have_text("Asking the store\N{HORIZONTAL ELLIPSIS}")
    expect(page.locator(".costs-parts")).to_have_attribute("aria-busy", "true")
    expect(page.locator(".costs-rows tbody tr")).to_have_count(1)
    held, costs.held = costs.held, None
    assert 1 <= len(held) <= 3, "two of the view that was left at most, and what the next one asks first"
    for route in held:
        costs.answer(route)
    expect(page.locator("#page .slow")).to_be_hidden()
    expect(page.locator(".page-head .sub")).to_contain_text("2026-05-26 00:00")


def test_the_chart_comes_before_what_stands_below_it(board: Board) -> None:
    """A store of few cores answers all at once more slowly than the chart alone."""
    costs = Costs(vision="10")
    costs.held_chart = []
    page = shown(board, costs)
    expect(page.locator(".costs-rows tbody tr")).to_have_count(1)
    page.wait_for_timeout(300)
    assert len(costs.held_chart) == 1
    assert len(costs.asked) == 1, "those of the rows alone"
    held, costs.held_chart = costs.held_chart, None
    tiles = page.locator("[data-fact=idle] .figure, [data-fact=month] .figure")
    expect(tiles).to_have_text(["…", "…"])
    for route in held:
        costs.answer(route)
    expect(page.locator(".costs-jobs li")).to_have_count(1)
    assert any(asked.get("metric") == ["m1"] for asked in costs.asked)
    expect(tiles).not_to_have_text(["…", "…"])


def test_a_cut_says_how_many_are_left_out_and_what_they_cost(board: Board) -> None:
    costs = Costs(a="100", b="50")
    costs.left_out = 4321
    page = shown(board, costs, "#/costs?by=experiment")
    words = page.locator(".costs-rows").get_by_role("status")
    expect(words).to_contain_text("2 rows. Cut: 4,321 names that cost $0.00 together are left out")


def test_too_many_names_to_explain_are_told_where_it_would_stand(board: Board) -> None:
    costs = Costs(vision="10")
    costs.too_many = "drivers: more than 100000 cells; name levels with by, or a shorter time"
    watched = board()
    watched.provoked = ("400",)
    costs.watch(watched.page)
    watched.page.get_by_role("link", name="Costs", exact=True).click()
    expect(watched.page.locator(".costs-drivers .sub")).to_contain_text(
        "Not explained: more than 100000 cells"
    )
    expect(watched.page.locator("#page .notice")).to_be_hidden()


def test_what_has_no_price_is_no_zero(board: Board) -> None:
    costs = Costs(priced="10", partly="5", not_at_all="0")
    costs.unpriced = {"partly", "not-at-all"}
    page = shown(board, costs)
    rows = page.locator(".costs-rows tbody tr")
    expect(rows.nth(1)).to_contain_text("\N{GREATER-THAN OR EQUAL TO} $150.00")
    expect(rows.nth(2)).to_contain_text("unpriced")
    expect(page.locator(".basis")).to_contain_text("some GPU-hours have no price")
    expect(page.locator(".basis")).to_contain_text(" of partly, ")
    expect(page.locator(".basis")).to_contain_text("trainfare prices load FILE loads prices")
    page.evaluate("location.hash = '#/costs?compare=off'")
    expect(page.locator(".costs-drivers")).to_be_hidden()
    expect(page.locator("#page .dimmed")).to_have_count(0)


def test_idle_nodes_stand_in_the_same_picture(board: Board) -> None:
    costs = Costs(vision="10")
    costs.idle = Decimal(4)
    page = shown(board, costs)
    expect(page.locator(".costs-legend")).to_contain_text("idle nodes")
    expect(page.locator(".costs-legend")).to_contain_text("used by no known job")
    expect(page.locator("[data-fact=idle] .figure")).to_have_attribute("title", "$120.00")
    beside = page.locator(".costs-rows .beside .money")
    expect(beside.first).to_have_attribute("title", "$30.00")
    expect(beside.last).to_have_attribute("title", "$90.00")
    page.evaluate("location.hash = '#/costs?where=owner=ada'")
    expect(page.locator("[data-fact=idle] .sub")).to_contain_text(
        "known of nodes, not of what is chosen here"
    )


def test_levels_without_names_are_passed_over_and_the_way_back_is_a_link(board: Board) -> None:
    costs = Costs(vision="10", speech="5")
    page = shown(board, costs)
    page.locator(".costs-legend a", has_text="vision").click()
    expect(page).to_have_url(re.compile(re.escape("#/costs?where=team%3Dvision")))
    expect(page.get_by_role("heading", name="By project")).to_be_visible()
    assert costs.asked[-1]["where"] == ["team=vision"]
    page.locator(".costs-rows a.down").first.press("Enter")
    expect(page.locator(".crumbs")).to_contain_text("project: vision")
    expect(page.locator("#page h1")).to_be_focused()
    expect(page.get_by_role("heading", name="By experiment")).to_be_visible()
    page.locator(".costs-rows a.down").first.click()
    expect(page.get_by_role("heading", name="By job")).to_be_visible()
    expect(page.locator(".costs-rows a.down").first).to_have_attribute("href", "#/job/vision")
    page.locator(".crumbs a", has_text="team: vision").click()
    expect(page).to_have_url(re.compile(re.escape("#/costs?where=team%3Dvision") + "$"))
    page.go_back()
    expect(page.get_by_role("heading", name="By job")).to_be_visible()
    costs.usd = {"": Decimal(3)}
    page.evaluate("location.hash = '#/costs?where=team=speech'")
    expect(page.get_by_role("heading", name="By job")).to_be_visible()


def test_a_part_of_the_chart_is_a_span_with_an_address(board: Board) -> None:
    page = shown(board, Costs(vision="10"))
    expect(page.locator(".costs-legend")).to_contain_text("the 30 days before")
    box = page.locator(".costs-plot canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 100)
    expect(page.locator(".costs-plot .readout")).to_contain_text("vision $10.00")
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 100, steps=4)
    page.mouse.up()
    expect(page).to_have_url(re.compile(r"#/costs\?from=2026-05-1\dT00%3A00&to=2026-05-\d\dT00%3A00$"))
    page.locator(".costs-plot").get_by_role("button", name="Show all").click()
    expect(page).to_have_url(re.compile(r"#/costs$"))


def test_the_training_hour_is_drawn_with_median_and_p95_of_the_jobs(board: Board) -> None:
    page = shown(board, Costs(vision="10"), "#/costs?measure=hour")
    expect(page.locator(".costs-legend")).to_contain_text("p95 of the jobs")
    slider = page.locator(".costs-plot").get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    for words in ("p95 of the jobs $9.50 per training hour", "vision $5.00", "median of the jobs $1.50"):
        expect(slider).to_have_attribute("aria-valuetext", re.compile(re.escape(words)))
    expect(page.locator("[data-fact=hour] .sub")).to_have_text("median $1.50, p95 $9.50 of 1 job")


def test_a_chart_is_let_go_with_its_page_and_drawn_anew_when_it_comes_back(board: Board) -> None:
    page = shown(board, Costs(vision="10"))
    canvas = page.locator(".costs-plot canvas")
    expect(canvas).to_have_count(1)
    page.evaluate("globalThis.held = document.querySelector('.costs-plot')")
    page.get_by_role("link", name="Live", exact=True).click()
    expect(page.locator("#board")).to_be_visible()
    assert (
        page.evaluate(
            "new Promise((done) => setTimeout(() => done(held.querySelectorAll('canvas').length), 100))"
        )
        == 0
    )
    page.go_back()
    expect(canvas).to_have_count(1)
    expect(page.locator(".costs-plot").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile("^Cost by team per day")
    )


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light"), (2560, "dark")])
def test_long_names_break_nothing_and_all_is_readable(board: Board, width: int, scheme: str) -> None:
    costs = Costs(vision="10", other="0.001")
    costs.usd[RTL] = Decimal(7)
    costs.usd["x" * 256] = Decimal(6)
    costs.usd[""] = Decimal(5)
    costs.idle = Decimal(2)
    page = shown(board, costs, width=width, scheme=scheme)
    expect(page.locator(".costs-rows tbody tr")).to_have_count(5)
    expect(page.locator(".costs-legend a", has_text="no team")).to_be_visible()
    tick = page.get_by_label("Compare with the time before").bounding_box()
    assert tick is not None
    assert tick["width"] < 30, "its words stand beside it"
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
