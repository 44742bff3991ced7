"""Finance and the currency of Costs over a real store: each figure is that of the commands, and a view's state is in its address."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.cli.command import trainfare
from tests.cli.test_finance_answers import HOUR, LOG, T0, event, job, metered
from tests.page.accessibility import violations
from tests.page.conftest import Open
from tests.page.real import serving_data

#: Two more days, so that there is a forecast; an hour of personal data costs $1.50 on top.
_MORE = [
    event(
        "prices", T0 - HOUR, sku="pii", component="compliance", label="data_class=pii", usd="1.5", per="job_hour", effective_ms=T0 - HOUR
    ),
    *job("long", 50, gpu_count=1, team="vision", labels={"data_class": "pii"}),
    *job("closed", 2, gpu_count=1, team="speech", labels={"data_class": "secret"}),
    event(
        "controls", T0, kind="planned", name="p", job_id="run-9", team="vision", usd_per_hour="10", from_ms=T0 + 99 * HOUR, until_ms=T0 + 109 * HOUR
    ),
]  # fmt: skip
RATES = "date,currency,usd\n2026-10-01,EUR,1.25\n2026-10-03,EUR,1.6\n"
NOW_MS = T0 + 50 * HOUR


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The store, and what the commands say of it."""
    root = tmp_path_factory.mktemp("finance")
    log = sorted([*LOG, *_MORE], key=lambda each: each["value"]["time_ms"])
    data = metered(root, log)
    (root / "rates.csv").write_text(RATES)
    done = trainfare("fx", "load", root / "rates.csv", "--data", data)
    assert done.code == 0, done.err
    month = ("--month", "2026-10")
    asked = {
        "coverage": ("coverage", "--per", "month"),
        "worst": ("coverage", "--worst"),
        "savings": ("savings", *month),
        "carbon": ("carbon", "show", *month),
        "forecast": ("forecast",),
        "costs": ("costs", "--by", "team", "--currency", "EUR", "--from", "2026-10-01", "--to", "2026-10-03T02:00"),
    }  # fmt: skip
    answers = {}
    for name, words in asked.items():
        done = trainfare(*words, "--data", data, "--format", "json")
        assert done.code == 0, done.err
        answers[name] = json.loads(done.out)
    return {"data": data, **answers}


@pytest.fixture(scope="module")
def url(said: dict[str, Any]) -> Iterator[str]:
    with serving_data(Path(said["data"]), wall_ms=NOW_MS) as found:
        yield found


def shown(usd: object) -> str:
    """Every digit of dollars, as the page's tooltip has them."""
    fraction = f"{Decimal(str(usd)):.9f}".split(".")[1].rstrip("0").ljust(2, "0")
    return f"${int(Decimal(str(usd))):,}.{fraction}"


def titles(page: Page, table: str) -> list[list[str | None]]:
    """The exact amounts of each row of a table."""
    found = page.get_by_role("table", name=table)
    expect(found).to_be_visible(timeout=60_000)
    rows = found.locator("tbody tr").all()
    return [[each.get_attribute("title") for each in row.locator(".money").all()] for row in rows]


def test_each_figure_is_that_of_the_commands(url: str, opened: Open, said: dict[str, Any]) -> None:
    page = opened(f"{url}/#/finance").page
    assert titles(page, "Energy and its CO2 equivalent") == [
        [shown(each["cost_usd"])] for each in said["carbon"]
    ]
    grams = page.get_by_role("table", name="Energy and its CO2 equivalent").locator("tbody tr td span[title]")
    assert said["carbon"][0]["co2e_g"] in [each.get_attribute("title") for each in grams.all()]
    assert titles(page, "What could be saved") == [
        [shown(each["usd"]), shown(each["usd_per_month"])] for each in said["savings"]
    ]
    assert titles(page, "Share of cost with a name") == [[shown(said["coverage"][0]["cost_usd"])]]
    assert titles(page, "Where cost without a name comes from") == [
        [shown(each["cost_usd"])] for each in said["worst"]
    ]
    names = ("spent_usd", "planned_usd", "forecast_usd", "low_usd", "high_usd")
    assert said["forecast"]["total"]["planned_usd"] == "100.00"
    assert titles(page, "Forecast of the month")[:-1] == [
        [shown(each[name]) for name in names] for each in said["forecast"]["rows"]
    ]


def test_the_state_is_in_the_address_and_keys_change_it(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/finance?range=all&per=day&by=owner&carbon=team").page
    expect(page.get_by_role("table", name="Share of cost with a name").locator("tbody tr")).to_have_count(
        3, timeout=60_000
    )
    expect(page.get_by_role("columnheader", name="Owner", exact=True)).to_be_visible()
    page.get_by_label("Carbon by").focus()
    page.keyboard.press("ArrowUp")
    expect(page).to_have_url(f"{url}/#/finance?range=all&per=day&by=owner")
    energy = page.get_by_role("table", name="Energy and its CO2 equivalent")
    expect(energy.get_by_role("columnheader", name="Region")).to_be_visible(timeout=60_000)


def test_costs_stand_in_a_currency_with_rate_and_day(
    url: str, opened: Open, said: dict[str, Any], tmp_path: Path
) -> None:
    page = opened(f"{url}/#/costs?range=month").page
    expect(page.locator("[data-fact=month] .sub")).to_contain_text("(80 %)", timeout=60_000)
    expect(page.locator("[data-fact=hour] .sub")).to_contain_text("of it compliance", timeout=60_000)
    expect(page.locator(".costs-rows td.converted").first).to_be_hidden()
    page.get_by_label("Currency").select_option("EUR")
    expect(page.locator(".costs-rows td.converted").first).to_be_visible(timeout=60_000)
    assert page.url.endswith("#/costs?range=month&currency=EUR")
    expect(page.locator(".basis")).to_contain_text(
        "Not in the amount: label data_class=secret of 1 job (closed) has no price"
    )
    words = "1 EUR for 1.6 USD of 2026-10-03"
    expect(page.locator(".basis")).to_contain_text(words)
    expect(page.locator("[data-fact=cost] .sub")).to_contain_text(words)
    cells = page.locator(".costs-rows tbody td.converted .money").all()
    assert [each.get_attribute("title") for each in cells] == [
        f"{each['cost']} EUR" for each in said["costs"]
    ]
    page.screenshot(path=tmp_path / "costs.png", full_page=True)


@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_overflows_and_axe_finds_nothing(
    url: str, opened: Open, width: int, scheme: str, tmp_path: Path
) -> None:
    page = opened(url, width=width, scheme=scheme, calm=True).page
    for address, ready in (("finance", "#finance-carbon ~ div table"), ("costs?range=month&currency=EUR", ".costs-rows td.converted")):  # fmt: skip
        page.evaluate("address => { location.hash = `#/${address}`; }", address)
        expect(page.locator(ready).first).to_be_visible(timeout=60_000)
        assert page.evaluate("innerWidth - document.documentElement.scrollWidth") >= 0
        assert violations(page) == []
        page.screenshot(path=tmp_path / f"{address[:7]}-{width}-{scheme}.png", full_page=True)
