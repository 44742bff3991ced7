"""A job's page beside similar jobs and other places: hostile and long names at every width, many places, what is not known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.page import fleet
from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script
from tests.page.test_budgets import HOSTILE, SHOWN
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
JOB = "diffusion-xl-finetune"
LONG = HOSTILE + "x" * 220


def side(usd: str, **more: Any) -> dict[str, Any]:
    price = {"component": "gpu", "sku": LONG, "price_usd": "2.490000000", "per": "instance_hour of 8 GPUs"}
    return {"wall_clock_ms": 3_600_000, "gpu_h": "8.000", "cost_usd": usd, "lost_to_preemptions_usd": "0.000000000", "components": {}, "prices": [price], **more}  # fmt: skip


def place(at: int, **different: str) -> dict[str, Any]:
    return side(
        f"{at}.000000000", different=different, difference_usd=f"{at - 20}.000000000", break_even_speed_factor="1.250", spot_jobs=at % 2
    )  # fmt: skip


@pytest.fixture
def beside(script: Script) -> Script:
    """A job that goes on, dearer than 95 % of its kind, with 30 places; each name is hostile and long."""
    spread = {"least": "1.000000000", "p25": "2.000000000", "median": "3.000000000", "p75": "4.000000000", "p95": "5.000000000", "most": "6.000000000"}  # fmt: skip
    script.similar = {
        "jobs": 7, "kind": {"team": LONG, "gpu_type": "H100"}, "is_over": False,
        "figures": {
            "usd_per_hour": {"job": "12.000000000", **spread, "ratio": 4.0},
            "cost_usd": {"job": "3.000000000", **spread, "ratio": 1.0},
            "wall_clock_ms": {"job": 0, **dict.fromkeys(spread, 0), "ratio": None},
        },
    }  # fmt: skip
    places = [
        place(at, purchase="spot" if at % 2 else "on_demand", region=LONG, gpu_type="A100")
        for at in range(30)
    ]
    script.elsewhere = {"reason": "", "as_it_ran": side("20.000000000"), "places": places, "left_out": 3_399, "later_prices": 0}  # fmt: skip
    script.receipt = {
        "receipt_id": "rc_1",
        "ended_ms": NOW_MS,
        "owner": LONG,
        "summary": LONG,
        "outcomes": "",
    }
    return script


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440])
def test_nothing_runs_over_the_edge(board: Board, beside: Script, width: int, scheme: str) -> None:
    page = board(f"/#/job/{JOB}", width=width, scheme=scheme, calm=True).page
    section = page.locator("section[aria-labelledby=elsewhere-title]")
    expect(section.locator("tbody tr")).to_have_count(13)
    similar = page.locator("section[aria-labelledby=similar-title]")
    expect(similar).to_contain_text("completed in the 30 days before now: team " + SHOWN)
    expect(similar.locator("[data-figure=usd_per_hour]")).to_contain_text("4.0\u00d7 the median, above the 95th percentile")  # fmt: skip
    expect(similar.locator("[data-figure=cost_usd]")).to_contain_text("Cost so far$3.00 at the median")
    expect(page.locator("section[aria-labelledby=receipt-title]")).to_contain_text(SHOWN)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    section.get_by_role("button", name="Show all 30 places").focus()
    page.keyboard.press("Enter")
    expect(section.locator("tbody tr")).to_have_count(31)
    expect(section.get_by_role("group")).to_be_focused()
    for words in (
        "Of 30 places of the price list 20 would have been cheaper, at best by $20.00",
        "3,399 more places of the price list were not compared",
        "On spot it would have lost what similar completed spot jobs lost.",
    ):
        expect(section).to_contain_text(words)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.locator("#job img").count() == 0
    assert "\u202e" not in page.locator("#job").inner_text()


def test_what_is_not_known_is_said(board: Board, script: Script) -> None:
    path = f"/api/v1/jobs/{JOB}/elsewhere"
    script.failing[path] = "too many queries wait already"
    watched = board(f"/#/job/{JOB}")
    watched.provoked = ("503",)
    page = watched.page
    section = page.locator("section[aria-labelledby=elsewhere-title]")
    expect(section).to_contain_text(
        "Could not price it elsewhere: too many queries wait already. Trying again."
    )
    expect(page.locator("section[aria-labelledby=similar-title]")).to_contain_text(
        "Fewer than 5 similar jobs were completed in the 30 days before now: there is nothing to compare it with."
    )
    expect(page.locator("#receipt-title")).to_be_hidden()
    del script.failing[path]
    page.goto(f"{page.url.partition('#')[0]}#/job/{script.specs[0].job_id}")
    expect(section).to_contain_text("Not known: it has paid for nothing yet.")


def test_each_job_is_asked_once(board: Board, script: Script) -> None:
    script.speed = 1
    page = board(f"/#/job/{JOB}").page
    expect(page.locator("section[aria-labelledby=elsewhere-title]")).to_contain_text("Not known")
    other = next(spec.job_id for spec in script.specs if spec.job_id != JOB and isinstance(spec, fleet.Spec))
    page.goto(f"{page.url.partition('#')[0]}#/job/{other}")
    expect(page.locator("section[aria-labelledby=elsewhere-title]")).to_contain_text("Not known")
    page.wait_for_timeout(5_000)  # the job's own figures are asked for again
    asked = [path for path in script.asked if path.endswith(("/similar", "/elsewhere"))]
    assert len(asked) == len(set(asked)) == 4
