"""The page over the worker's own server and a store: what it asks for is what it gets."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from urllib.parse import urlencode

import pytest
from playwright.sync_api import expect

from schemas.budget_tables import BUDGET_USE
from schemas.control_table import CONTROLS
from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.keys import OutgoingRecord
from streams.worker.storing.control_rows import control_table
from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.sinks.rows import instant, rows
from tests.web import live, log
from tests.web.serving import LOCAL_TOKEN

ALERT = "al_8fe63f15d88e32e0d55fbafd"


class StoredLog:
    """Takes records, and stores them as a worker that reads them does."""

    def __init__(self, store: ClickHouseStore) -> None:
        self._store = store
        self._offset = 0

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        (record,) = records
        event = decode(record.topic, record.value, (), 2**42)
        assert isinstance(event, ControlEvent), event
        rows = control_table([(log.AS_OF_MS, record.key, event)], [self._offset])
        await asyncio.to_thread(self._store.insert, CONTROLS, rows, f"controls:{self._offset}")
        self._offset += 1


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small replay with an alert, served in a thread of its own."""
    root = tmp_path_factory.mktemp("page")
    store = _open(log.replayed(root))
    try:
        with serving_page(store, controls=StoredLog(store), wall_ms=log.AS_OF_MS) as found:
            yield found
    finally:
        store.close()
        shutil.rmtree(root)


def _open(data: Path) -> ClickHouseStore:
    store = ClickHouseStore(Embedded(data_dir=data))
    live.only_ours(store)
    live.put(store, ALERTS, [live.alert(ALERT, rule="burn_sustained")], "one whose id is of the right form")
    used = {"budget": "vision-month", "subject_kind": "team", "subject_name": "vision", "per": "month", "match": [("team", "vision")], "limit_usd": Decimal(10), "used_usd": Decimal(log.COST_A), "used_ratio": float(log.COST_A) / 10, "time": live.at(log.AS_OF_MS), "period_start": instant("2026-03-01 00:00"), "period_end": instant("2026-04-01 00:00"), "version": 1}  # fmt: skip
    store.insert(BUDGET_USE, rows(BUDGET_USE, used), "a budget")
    return store


def test_the_board_and_a_job_of_a_real_store(url: str, opened: Open) -> None:
    page = opened(url).page
    expect(page.locator("#link")).to_have_attribute("data-state", "live", timeout=20_000)
    expect(page.locator("#clock")).to_contain_text("meter clock 20")
    expect(page.locator("#hero .amount")).to_have_text("$12.50")
    expect(page.locator("#hero .amount")).to_have_attribute("title", "$12.500000001")
    alert = page.locator(".alert", has_text="Runaway burn").first
    expect(alert).to_contain_text("delivered to bob")
    row = page.locator("tr", has=page.locator(".job-link[title='b']"))
    expect(row.locator(".pill")).to_contain_text("2.5")
    row.locator(".job-link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#job-title")).to_have_text("b")
    expect(page.locator(".explain tbody tr").first).to_be_visible()
    expect(page.locator(".components li").first).to_contain_text("$")
    expect(page.locator(".phases .phase").first).to_be_visible()
    expect(page.locator(".evidence .alert").first).to_contain_text("Runaway burn")
    total = page.locator(".total .money").get_attribute("title")
    booked = page.locator(".facts .tile", has_text="Cost so far").locator(".figure").get_attribute("title")
    assert total == booked
    page.keyboard.press("Escape")
    expect(row.locator(".job-link")).to_be_focused()


def test_an_act_goes_from_the_button_through_the_log_to_the_alert(url: str, opened: Open) -> None:
    page = opened(url).page
    alert = page.locator(".alert", has_text="Burning above plan").first
    alert.get_by_role("button", name="Acknowledge 4 h").click()
    page.keyboard.type(LOCAL_TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator(".toast")).to_contain_text("Acknowledged, by local token, until")
    done = alert.locator(".done li")
    expect(done).to_contain_text("acknowledged by local token until", timeout=15_000)
    alert.get_by_role("button", name="End: acknowledged").click()
    expect(done).to_have_count(0, timeout=15_000)
    alert.get_by_role("button", name="This is planned").click()
    page.get_by_role("button", name="It is planned").click()
    expect(done).to_contain_text("planned $32.50/h by local token until", timeout=15_000)
    alert.get_by_role("button", name="End: planned").click()
    expect(done).to_have_count(0, timeout=15_000)


def test_sql_on_the_page_is_answered_by_the_store(url: str, opened: Open) -> None:
    sql = "SELECT job_id, cost_usd, started FROM job_costs ORDER BY job_id"
    page = opened(f"{url}/#/query?{urlencode({'sql': sql})}").page
    expect(page.locator(".brought")).to_contain_text("has not run")
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_label("Token with the scope query").fill(LOCAL_TOKEN)
    page.keyboard.press("Enter")
    expect(page.locator(".query-rows tbody tr")).to_have_count(4, timeout=60_000)
    answer = page.request.post(
        f"{url}/api/v1/query", data={"sql": sql}, headers={"Authorization": f"Bearer {LOCAL_TOKEN}"}
    ).json()
    shown = [row.locator("td").nth(1).text_content() for row in page.locator(".query-rows tbody tr").all()]
    assert shown == [cost for _, cost, _ in answer["rows"]]
    assert shown[0] == log.COST_A
    expect(page.locator(".query-main > .sub")).to_contain_text("4 rows in")
    expect(page.locator(".query-main > .sub")).to_contain_text("; read ")
    page.evaluate("localStorage.clear(); sessionStorage.clear()")


def test_the_meter_says_what_the_api_says(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/meter").page
    verdict = page.get_by_role("region", name="Verdict")
    expect(verdict).to_contain_text("2 things to mend", timeout=30_000)
    report = page.request.get(f"{url}/api/v1/meter").json()
    assert [each["what"] for each in report["wrong"]] == ["dead letters jobs unknown_type", "unpriced gpu"]
    for each in report["wrong"]:
        expect(verdict).to_contain_text(each["said"])
        expect(verdict).to_contain_text(each["mends"])
    (letter,) = report["dead_letters"]
    expect(page.locator(".meter")).to_contain_text(letter["example"])
    expect(page.get_by_role("table", name="Quantities without a price")).to_contain_text("0.033 GPU-h")


def test_the_dashboards_show_what_the_api_answers(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/dashboards/executive?range=24h").page
    costs = page.locator("#page .panel", has_text="The ten dearest jobs").locator("tbody tr")
    expect(costs.first).to_be_visible(timeout=30_000)
    asked = f"from_ms={log.AS_OF_MS - 86_400_000}&to_ms={log.AS_OF_MS}"
    answer = page.request.get(f"{url}/api/v1/panels/top_jobs?{asked}").json()
    place = answer["columns"].index("cost")
    shown = [
        (line.locator("a").inner_text(), line.locator("td[data-label='cost'] span").get_attribute("title"))
        for line in costs.all()
    ]
    assert [job for job, _ in shown] == [row[0] for row in answer["rows"]]
    exact = [str(title).replace("$", "").replace(",", "") for _, title in shown]
    assert [Decimal(usd) for usd in exact] == [Decimal(row[place]) for row in answer["rows"]]
    expect(page.locator("#page .panel-plot canvas").first).to_be_visible()
    # A job leads to its page, a link opens what is looked at, and without a job there are jobs to choose from.
    expect(costs.first.locator("a")).to_have_attribute("href", f"#/job/{shown[0][0]}")
    page.get_by_role("link", name="Debug a job").click()
    page.locator("#page .empty").get_by_role("link", name="a", exact=True).click()
    facts = page.locator("#page .panel", has_text="All of its life").locator("dd").first
    expect(facts).to_be_visible(timeout=30_000)
    expect(page.locator("#dashboards-job")).to_have_value("a")
    link = page.locator("#page .panel", has_text="All of its life").get_by_role("link", name="Open in Query")
    assert "job_id+%3D+%27a%27" in str(link.get_attribute("href"))


def test_alerts_and_why_one_fired_are_those_of_the_api(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/alerts").page
    rows = page.locator(".alerts-table tbody tr")
    told = page.request.get(f"{url}/api/v1/alerts?order=started&folded=1&limit=50").json()
    expect(rows).to_have_count(told["count"], timeout=20_000)
    for place, each in enumerate(told["alerts"]):
        expect(rows.nth(place).locator(".money")).to_have_attribute(
            "title", f"${float(each['usd_per_hour']):.2f}"
        )
        expect(rows.nth(place)).to_contain_text(each["subject"]["name"])
    rows.filter(has_text="Burning above plan").locator(".rule").click()
    why = page.request.get(f"{url}/api/v1/alerts/{ALERT}/why?at_ms={log.T0_MS + 400_000}").json()
    own = [each for each in why["rules"] if each["rule"] == "burn_sustained"]
    expect(page.locator(".conditions tbody tr")).to_have_count(len(own))
    expect(page.locator(".conditions tbody tr").first).to_contain_text(f"{own[0]['value']:.4g}")
    expect(page.locator(".others tbody tr").first).to_be_visible()
    expect(page.locator(".course").first).to_be_visible()


def test_a_budgets_spend_is_the_ledgers_and_its_own(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/budgets").page
    page.get_by_role("link", name="vision-month").click()
    exact = f"${log.COST_A}".rstrip("0")
    expect(page.locator("#page .panel .money").first).to_have_attribute("title", exact, timeout=20_000)
    figures = page.locator(".budget-figures [title]")
    expect(figures.nth(0)).to_have_attribute("title", exact)
    expect(figures.nth(1)).to_have_attribute("title", "$10.00")
    expect(page.locator(".dearest tbody .money")).to_have_attribute("title", exact)
    listed = page.request.get(f"{url}/api/v1/budgets").json()["budgets"]
    assert [each["used"]["usd"]["used"] for each in listed] == [log.COST_A]
