"""The page Idle: each kind with dollars, since when and what to do; nothing yet, no answer, hostile names, every width."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202egnp"
SHOWN = r"<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}gnp"
NOTHING = "0.000000000"


def report(name: str = "fra-1", **changes: Any) -> dict[str, Any]:
    money = {"node_cost_usd": "1000.000000001", "job_cost_usd": "600.000000000", "idle_cost_usd": "400.000000001", "overcommitted_cost_usd": NOTHING, "unattributed_cost_usd": "12.500000000"}  # fmt: skip
    run = {"name": name, "team": name, "since": "2026-05-28", "until": "2026-05-31", "days": 4, "cost_usd": "144.000000000", "detail": f"nothing ran on it; {name}"}  # fmt: skip
    job = {"job_id": name, "owner": name, "team": "vision", "first_hour": NOW_MS - 90_000_000, "last_hour": NOW_MS}  # fmt: skip
    return {
        "as_of_ms": NOW_MS, "by": "cluster", "from_ms": None, "to_ms": None, "has_nodes": True, "note": "",
        "sums": {**money, "forgotten_cost_usd": "144.000000000", "lost_cost_usd": "33.300000000", "retry_cost_usd": "3.000000000", "jobs": 1},
        "last_hour": {"begin_ms": NOW_MS - 5_000_000, **money, "idle_cost_usd": "7.250000000"},
        "rows": [{"cluster": name, "paid_node_h": "48.000", **money, "idle_ratio": 0.4}, {"cluster": "", "paid_node_h": "1.000", **money, "idle_ratio": None}],
        "forgotten": [run], "unattributed": [run],
        "lost": [{**job, "lost_cost_usd": "33.300000000", "retry_cost_usd": "3.000000000", "attempts": 3, "reasons": ["", "spot_reclaim"]}],
        "hollow": [{**job, "state": "running", "gpu_cost_usd": "80.000000000", "sampled_gpu_h": 12.5, "productive_ratio": 0.25}],
        "findings": [{"finding": "provisioning_burst", "period": "2026-05-31 10:00:00", "name": name, "team": "", "cost_usd": None, "detail": "40 new nodes"}],
        "left_out": {"rows": 0, "forgotten": 0, "unattributed": 0, "lost": 7, "findings": 0},
    } | changes  # fmt: skip


def test_each_kind_says_its_dollars_since_when_whose_and_what_to_do(board: Board, script: Script) -> None:
    script.idle = report()
    page = board("/#/idle").page
    tiles = page.locator(".idle-tiles")
    expect(tiles).to_contain_text("Idle nodes$400.00")
    expect(tiles.locator(".money").first).to_have_attribute("title", "$400.000000001")
    expect(tiles).to_contain_text("Idle now$7.25/h")
    for name, words in (
        ("Nodes", "give back what stays idle"),
        ("Forgotten nodes", "2026-05-28"),
        ("Forgotten nodes", "terminate it"),
        ("Use without a job", "look at the processes on the node"),
        ("Lost work", "write checkpoints more often"),
        ("Lost work", "7 more are left out"),
        ("GPUs that jobs held and did not use", "\N{ALMOST EQUAL TO} $60.00"),
        ("More to look at", "nodes came in a burst"),
    ):
        expect(page.get_by_role("region", name=name, exact=True).first).to_contain_text(words)
    expect(page.get_by_role("link", name="fra-1").first).to_have_attribute("href", "#/job/fra-1")


def test_a_long_list_shows_its_dearest_and_all_on_demand(board: Board, script: Script) -> None:
    run = report()["forgotten"][0]
    script.idle = report(forgotten=[{**run, "name": f"node-{number}"} for number in range(25)])
    page = board("/#/idle").page
    rows = page.get_by_role("region", name="Forgotten nodes", exact=True).locator("tbody tr:visible")
    expect(rows).to_have_count(20)
    page.get_by_role("button", name="Show all 25").click()
    expect(rows).to_have_count(25)
    expect(page.get_by_role("button", name="Show all 25")).to_have_count(0)


def test_the_view_is_in_the_address(board: Board, script: Script) -> None:
    script.idle = report(by="node", rows=[])
    page = board("/#/idle?range=30d&by=node").page
    expect(page.locator(".idle")).to_contain_text("No node was paid for in this time.")
    (first,) = (each for each in script.asked if each.startswith("/api/v1/idle"))
    asked = parse_qs(urlsplit(first).query)
    assert asked == {"by": ["node"], "from": ["2026-05-03T00:00"], "to": ["2026-06-02T00:00"]}
    page.get_by_label("Time").select_option("24h")
    expect(page.locator(".idle > .sub")).to_contain_text("2026-05-31 12:00:00 UTC to 2026-06-01 12:00:00 UTC")
    assert page.url.endswith("#/idle?range=24h&by=node")
    page.go_back()
    expect(page.get_by_label("Time")).to_have_value("30d")
    page.get_by_label("Time").select_option("all")
    expect(page.locator(".idle > .sub")).to_contain_text("All hours")


def test_nothing_yet_and_nothing_idle(board: Board, script: Script) -> None:
    empty: dict[str, Any] = {
        key: [] for key in ("rows", "forgotten", "unattributed", "lost", "hollow", "findings")
    }
    sums = dict.fromkeys(report()["sums"], NOTHING) | {"jobs": 0}
    script.idle = report(
        **empty, sums=sums, last_hour=None, has_nodes=False, note="3 hours of nodes are left out"
    )
    page = board("/#/idle").page
    for words in (
        "No events of nodes have come", "docs/usage_events.md#nodes", "✓ No node was paid for a whole day", "✓ No GPU worked without a job",
        "✓ No job lost work", "none worked less than half", "no hour yet", "3 hours of nodes are left out.",
    ):  # fmt: skip
        expect(page.locator(".idle")).to_contain_text(words)


def test_no_answer_is_told_and_the_last_figures_stay(board: Board, script: Script) -> None:
    watched = board("/#/idle")
    watched.provoked = ("504",)
    page = watched.page
    expect(page.get_by_role("alert").first).to_contain_text("longer than 30 s. Try a shorter time")
    script.idle = report()
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".idle-tiles")).to_be_visible()
    expect(page.locator(".idle > .notice")).to_be_hidden()
    script.idle = None
    page.get_by_role("button", name="Ask again").click()
    expect(page.locator(".idle > .sub")).to_have_text("The figures below are older.")
    expect(page.locator(".idle-tiles")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_hostile_names_are_text_at_every_width(board: Board, script: Script, width: int, scheme: str) -> None:
    script.idle = report(HOSTILE + "x" * 256)
    page = board("/#/idle", width=width, scheme=scheme).page
    expect(page.locator(".idle")).to_contain_text(SHOWN)
    assert page.locator(".idle img").count() == 0
    assert "\u202e" not in page.locator(".idle").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
