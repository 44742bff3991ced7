"""The Costs page over a real store: each figure is that of `trainfare costs`, and questions take a few clicks, or keys alone."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from playwright.sync_api import Locator, Page, Route, expect

from tests.cli.command import ROOT, trainfare
from tests.page.conftest import Open
from tests.page.keyboard import follow
from tests.page.real import serving_data

WEEK = ("--from", "2020-04-16", "--to", "2020-04-22T15:00")
ALL = ("--from", "2020-04-01", "--to", "2020-04-22T15:00")
LEVELS = ("team", "owner", "cluster", "purchase")


class Meter(NamedTuple):
    """A served store, and what the command said of it: the rows by what was asked."""

    url: str
    by: dict[str, list[dict[str, Any]]]
    m1: list[dict[str, Any]]
    month: list[dict[str, Any]]
    forecast: dict[str, Any]
    risen: str
    dearest: list[str]


def _costs(data: Path, *options: str) -> list[dict[str, Any]]:
    done = trainfare("costs", "--data", data, "--format", "json", *options)
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


@pytest.fixture(scope="module")
def meter(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Meter]:
    """The example of 500 jobs of Helios, metered once."""
    data = tmp_path_factory.mktemp("costs") / "meter"
    done = trainfare("replay", ROOT / "examples" / "helios-500.jsonl.gz", "--data", data)
    assert done.code == 0, done.err
    by = {level: _costs(data, "--by", level, "--compare", "previous", *WEEK) for level in LEVELS}
    m1 = _costs(data, "--metric", "m1", "--by", "team", *WEEK)
    month = _costs(data, "--by", "project", *ALL)
    done = trainfare("forecast", "--data", data, "--format", "json")
    assert done.code == 0, done.err
    forecast = json.loads(done.out)["total"]
    risen = max(by["team"], key=lambda row: Decimal(row["change_usd"]))["team"]
    jobs = _costs(data, "--by", "job", "--where", f"team={risen}", "--limit", "3", *WEEK)
    with serving_data(data) as found:
        yield Meter(found, by, m1, month, forecast, risen, [row["job"] for row in jobs])
    shutil.rmtree(data.parent)


def usd(locator: Locator) -> Decimal:
    """The exact amount of a tooltip."""
    text = locator.get_attribute("title") or ""
    return Decimal(text.replace("$", "").replace(",", "").replace("\N{MINUS SIGN}", "-"))


def shown(page: Page) -> dict[str, tuple[Decimal, Decimal, Decimal]]:
    """Cost, cost before and change of each row of the table."""
    found = {}
    for row in page.locator(".costs-rows tbody tr").all():
        amounts = row.locator(".money")
        found[row.locator("a.down").inner_text()] = (
            usd(amounts.nth(0)),
            usd(amounts.nth(1)),
            usd(row.locator(".change")),
        )
    return found


def complete(page: Page) -> None:
    """Wait until nothing is asked for any more."""
    expect(page.locator(".costs-drivers tbody tr").first).to_be_visible(timeout=60_000)
    expect(page.locator(".costs-rows tbody tr").first).to_be_visible()
    expect(page.locator("#page .dimmed")).to_have_count(0, timeout=60_000)


def test_all_figures_are_on_the_first_screen_of_a_phone(meter: Meter, opened: Open) -> None:
    page = opened(f"{meter.url}/#/costs?range=7d&by=team&sort=rise", width=360).page
    page.set_viewport_size({"width": 360, "height": 740})
    complete(page)
    expect(page.locator(".choices > summary")).to_have_text("Choices (2 set): By team, Sort by rise")
    tiles = page.locator(".facts").bounding_box()
    assert tiles is not None
    assert tiles["y"] + tiles["height"] <= 740


@pytest.mark.parametrize("level", LEVELS)
def test_each_row_is_that_of_the_command_to_the_nano_dollar(meter: Meter, opened: Open, level: str) -> None:
    page = opened(f"{meter.url}/#/costs?range=7d&by={level}").page
    complete(page)
    expected = {
        row[level] or f"no {level}": tuple(
            Decimal(row[name]) for name in ("cost_usd", "previous_cost_usd", "change_usd")
        )
        for row in meter.by[level]
    }
    assert shown(page) == expected
    total = sum((Decimal(row["cost_usd"]) for row in meter.by[level]), Decimal(0))
    assert usd(page.locator(".costs-rows .sum .money").first) == total
    assert usd(page.locator("[data-fact=cost] .figure")) == total


def test_the_first_view_is_useful_and_says_what_it_has_nothing_before(meter: Meter, opened: Open) -> None:
    page = opened(f"{meter.url}/#/costs").page
    expect(page.locator(".costs-rows tbody tr")).to_have_count(8, timeout=60_000)
    total = sum((Decimal(row["cost_usd"]) for row in meter.month), Decimal(0))
    assert usd(page.locator("[data-fact=cost] .figure")) == total
    expect(page.locator(".basis")).to_contain_text("Not compared: costs begin on 2020-04-01 00:00 UTC")
    expect(page.locator(".basis")).to_contain_text("Provisional: no bill is loaded")
    tile, month = page.locator("[data-fact=month]"), meter.forecast
    expect(tile.locator(".figure")).to_contain_text("\N{ALMOST EQUAL TO} $29,014", timeout=60_000)
    assert usd(tile.locator(".figure")) == Decimal(month["forecast_usd"])
    low, high = (f"${round(Decimal(month[name])):,}" for name in ("low_usd", "high_usd"))
    expect(tile.locator(".sub")).to_contain_text(f"{low} to {high} (80 %) by 21 days of costs")
    expect(page.locator("[data-fact=hour] .sub")).to_contain_text("of 500 jobs", timeout=60_000)


def test_components_are_the_columns_of_the_total(meter: Meter, opened: Open) -> None:
    page = opened(f"{meter.url}/#/costs?range=7d&by=component").page
    complete(page)
    sums = {
        name: sum((Decimal(row[f"{name}_cost_usd"]) for row in meter.by["team"]), Decimal(0))
        for name in ("gpu", "compute", "network", "storage", "license", "labor", "overhead")
    }
    names = {"gpu": "GPU", "compute": "Compute", "labor": "Labour", "overhead": "Overhead"}
    assert {name: amounts[0] for name, amounts in shown(page).items()} == {
        names[name]: amount for name, amount in sums.items() if amount
    }


def test_the_file_has_the_rows_with_every_digit(meter: Meter, opened: Open, tmp_path: Path) -> None:
    page = opened(f"{meter.url}/#/costs?range=7d").page
    complete(page)
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    download.value.save_as(tmp_path / "costs.csv")
    assert download.value.suggested_filename == "trainfare-costs-by-team-2020-04-16_2020-04-22.csv"
    with (tmp_path / "costs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["team"] for row in rows] == [row["team"] for row in meter.by["team"]]
    for row, expected in zip(rows, meter.by["team"], strict=True):
        for name in ("cost_usd", "previous_cost_usd", "change_usd", "lost_cost_usd"):
            assert row[name] == expected[name]
        for name in ("wall_clock_h", "gpu_h", "unpriced_gpu_h"):
            assert float(row[name]) == expected[name]
    m1 = {row["team"]: row for row in meter.m1}
    for row in rows:
        for name in ("jobs", "usd_per_hour", "median_usd_per_hour", "p95_usd_per_hour"):
            assert float(row[name]) == m1[row["team"]][name]


def test_of_many_names_the_dearest_come_first_and_then_all(
    meter: Meter, opened: Open, tmp_path: Path
) -> None:
    page = opened("about:blank").page
    held: list[Route] = []
    page.route(
        lambda url: "by=job" in url and not any(each in url for each in ("limit=", "per=", "metric=")),
        lambda route: held.append(route),
    )
    page.goto(f"{meter.url}/#/costs?range=all&by=job")
    expect(page.locator(".costs-chart .costs-legend li")).to_have_count(9, timeout=60_000)
    rows = page.locator(".costs-rows")
    expect(rows.locator("tbody tr")).to_have_count(100)
    expect(rows).to_contain_text("The 100 rows that cost most; the others are asked for.")
    save = page.get_by_role("button", name="Download CSV")
    expect(save).to_be_disabled()
    total = sum((Decimal(row["cost_usd"]) for row in meter.month), Decimal(0))
    assert usd(page.locator("[data-fact=cost] .figure")) == total
    first = rows.locator("a.down").all_inner_texts()
    expect(page.locator("#page .slow")).to_be_hidden()
    while not held:
        page.wait_for_timeout(50)
    held.pop().continue_()
    expect(save).to_be_enabled(timeout=60_000)
    expect(rows).not_to_contain_text("asked for")
    assert rows.locator("a.down").all_inner_texts() == first
    with page.expect_download() as download:
        save.click()
    download.value.save_as(tmp_path / "costs.csv")
    with (tmp_path / "costs.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) > 400
    assert sum(Decimal(line["cost_usd"]) for line in lines) == total
    assert usd(page.locator(".costs-rows .sum .money").first) == total


def test_which_team_rose_most_week_on_week_and_its_dearest_jobs_in_three_clicks(
    meter: Meter, opened: Open
) -> None:
    page = opened(meter.url).page
    page.get_by_role("link", name="Costs", exact=True).click()
    page.get_by_role("link", name="7 days").click()
    expect(page.locator(".page-head .sub")).to_contain_text(
        "2020-04-16 00:00 to 2020-04-22 15:00 UTC", timeout=60_000
    )
    page.locator(".mover", has_text="Rose most").get_by_role("link", name=meter.risen).click()
    expect(page.get_by_role("navigation", name="What is shown")).to_contain_text(
        f"team: {meter.risen}", timeout=60_000
    )
    # Its jobs have no projects and no experiments: the click led down to them.
    links = page.locator(".costs-rows a.down")
    expect(links.first).to_have_text(meter.dearest[0], timeout=60_000)
    assert [link.inner_text() for link in links.all()[:3]] == meter.dearest
    links.first.click()
    expect(page.locator("#job-title")).to_have_text(meter.dearest[0])
    page.go_back()
    expect(page.get_by_role("navigation", name="What is shown")).to_contain_text(meter.risen, timeout=60_000)


def test_the_same_by_keys_alone(meter: Meter, opened: Open) -> None:
    page = opened(meter.url).page

    follow(page, page.get_by_role("link", name="Costs", exact=True))
    follow(page, page.get_by_role("link", name="7 days"))
    expect(page.locator(".page-head .sub")).to_contain_text("2020-04-16 00:00", timeout=60_000)
    follow(page, page.locator(".mover", has_text="Rose most").get_by_role("link"))
    expect(page.locator(".crumbs")).to_contain_text(meter.risen, timeout=60_000)
    expect(page.locator(".costs-rows a.down").first).to_have_text(meter.dearest[0], timeout=60_000)
    slider = page.locator(".costs-chart").get_by_role("slider")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^2020-04-16: jobs (nothing|\$[\d.]+)"))
