"""One job: opened and left by keyboard, everything of it shown, its sums exact."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal

import pytest
from playwright.sync_api import Page, expect

from tests.page import fleet
from tests.page.conftest import Open, Watched
from tests.page.server import Script, Server

Board = Callable[..., Watched]
JOB = "diffusion-xl-finetune"
SPOT = "asr-conformer-spot"


def test_opens_by_enter_closes_by_escape_and_gives_the_focus_back(board: Board) -> None:
    page = board().page
    page.locator(".job-link", has_text="llm-pretrain-7b").focus()
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.title") == JOB
    page.keyboard.press("Enter")
    expect(page.locator("#job-title")).to_be_focused()
    assert page.url.endswith(f"#/job/{JOB}")
    assert JOB in page.title()
    expect(page.locator("#board")).to_be_hidden()
    page.keyboard.press("Escape")
    expect(page.locator("#job")).to_be_hidden()
    expect(page.locator("#board")).to_be_visible()
    assert page.evaluate("document.activeElement.title") == JOB


def test_every_way_in_and_out(board: Board, script: Script) -> None:
    script.alerts = [fleet.alert(JOB, 0, script.now_ms - 60_000)]
    page = board().page
    page.locator(".alert .subject").click()
    expect(page.locator("#job-title")).to_have_text(JOB)
    page.go_back()
    expect(page.locator(".alert .subject")).to_be_focused()
    page.locator("tr", has_text=SPOT).locator(".c-cost").click()
    expect(page.locator("#job-title")).to_have_text(SPOT)
    page.get_by_role("link", name="← All jobs").click()
    expect(page.locator("#board")).to_be_visible()
    page.go_forward()
    expect(page.locator("#job-title")).to_have_text(SPOT)


def test_opened_by_its_address_it_is_left_to_the_jobs(board: Board) -> None:
    page = board(f"/#/job/{SPOT}").page
    expect(page.locator("#job-title")).to_have_text(SPOT)
    page.keyboard.press("Escape")
    expect(page.locator(f".job-link[title='{SPOT}']")).to_be_focused()


def test_shows_what_happened_and_where_the_money_went(board: Board, script: Script) -> None:
    page = board(f"/#/job/{SPOT}").page
    expect(page.locator(".phases .phase.running")).to_have_count(4)
    expect(page.locator(".phases .phase.starting")).to_have_count(4)
    name = page.locator(".phases svg").get_attribute("aria-label") or ""
    assert "attempt 1: starting from 08:12:00 for 4 min, running from 08:16:00" in name
    expect(page.locator("#job .plot.burn").get_by_role("img")).to_have_attribute(
        "aria-label", re.compile(r"Burn rate: now \$[\d.]+ per hour, expected \$46\.23")
    )
    expect(page.locator("#job .plot.use canvas")).to_have_count(1)
    expect(page.locator(".components li")).to_have_count(5)
    expect(page.locator(".components li").first).to_contain_text("GPU")
    attempts = page.get_by_role("table", name="Attempts of the job")
    expect(attempts.get_by_role("row")).to_have_count(5)
    expect(attempts).to_contain_text("preempted spot reclaim")
    expect(attempts).to_contain_text("goes on")


def test_the_jobs_of_its_run_are_links_with_what_they_cost(board: Board, script: Script) -> None:
    began_ms = script.now_ms - 7_200_000
    jobs = [
        {
            "job_id": job_id,
            "state": state,
            "began_ms": began_ms,
            "ended_ms": ended_ms,
            "cost_usd": usd,
            "lost_cost_usd": lost,
        }
        for job_id, state, ended_ms, usd, lost in (
            ("101", "failed", began_ms + 60_000, "12.5", "12.5"),
            (SPOT, "running", None, "30", "0"),
        )
    ]
    script.run = {
        "name": "llama",
        "by": "name",
        "job_count": 2,
        "cost_usd": "42.5",
        "lost_cost_usd": "12.5",
        "jobs": jobs,
    }
    page = board(f"/#/job/{SPOT}").page
    run = page.locator("section[aria-labelledby=run-title]")
    expect(run.get_by_role("row")).to_have_count(3)
    expect(run.get_by_role("link")).to_have_text("101")
    expect(run).to_contain_text("goes on")
    expect(run).to_contain_text("llama: 2 jobs, $42.50 in all, $12.50 of it lost")


def test_a_job_alone_shows_no_run(board: Board) -> None:
    page = board(f"/#/job/{SPOT}").page
    expect(page.get_by_role("table", name="Attempts of the job")).to_be_visible()
    expect(page.locator("#run-title")).to_be_hidden()


def test_the_intervals_of_many_nodes_are_one_line_and_the_sum_is_exact(board: Board, script: Script) -> None:
    script.frozen = True
    page = board(f"/#/job/{SPOT}").page
    told = fleet.explain(script.spec(SPOT) or fleet.specs()[0], script.now_ms)
    rows = page.locator(".explain tbody tr")
    expect(rows).to_have_count(1)
    for words in (
        "4 nodes",
        "4 intervals",
        "GPU-h",
        "$1.29 per GPU-hour",
        "aws.a100",
        "price matches gpu_type=A100",
    ):
        expect(rows.first).to_contain_text(words)
    total = page.locator(".total .money").get_attribute("title") or ""
    assert amount(total) == Decimal(told["total_usd"])
    assert amounts(page) == [Decimal(told["total_usd"])]
    page.locator(".explain [aria-expanded=false]").press("Enter")
    expect(page.locator(".explain [aria-expanded=true]")).to_be_focused()
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("32 GPU-h")
    assert sum(amounts(page)[1:]) == Decimal(told["total_usd"])
    said = f"16 intervals, in total ${Decimal(told['total_usd']):,.2f}"
    expect(page.locator(".total")).to_contain_text(said)


def amount(title: str) -> Decimal:
    return Decimal(title.lstrip("$").replace(",", ""))


def amounts(page: Page) -> list[Decimal]:
    titles = page.locator(".explain tbody .money").evaluate_all("all => all.map(each => each.title)")
    return [amount(each) for each in titles]


def test_the_evidence_is_copied_by_keyboard(board: Board, script: Script) -> None:
    script.alerts = [fleet.alert(JOB, 0, script.now_ms - 60_000)]
    page = board(f"/#/job/{JOB}", clipboard=True).page
    page.locator(".evidence summary").focus()
    page.keyboard.press("Enter")
    expect(page.locator(".evidence pre")).to_contain_text("FROM burn_rates FINAL")
    page.get_by_role("button", name="Copy the query").press("Enter")
    expect(page.locator(".copy-line [role=status]")).to_have_text("Copied")
    assert page.evaluate("navigator.clipboard.readText()") == script.alerts[0]["evidence_sql"]


def test_of_many_alerts_the_newest_stand_before_the_rest_and_what_fires_is_never_hidden(
    board: Board, script: Script
) -> None:
    began = [script.now_ms - minutes * 60_000 for minutes in range(60, 180, 10)]
    over = [
        fleet.alert(JOB, 0, at, alert_id=f"al_{place}", status="resolved", resolved_ms=at + 60_000)
        for place, at in enumerate(began)
    ]
    script.alerts = [*over, fleet.alert(JOB, 0, began[-1] - 60_000, alert_id="al_firing")]
    page = board(f"/#/job/{JOB}").page
    alerts = page.locator(".evidence .alert")
    expect(alerts).to_have_count(6)
    expect(alerts.last).to_have_attribute("data-status", "firing")
    every = page.get_by_role("link", name="All in Alerts")
    expect(every).to_have_attribute("href", f"#/alerts?kind=job&subject={JOB}")
    page.get_by_role("button", name="Show 7 older alerts").press("Enter")
    expect(alerts).to_have_count(13)
    page.get_by_role("button", name="Show fewer").press("Enter")
    expect(alerts).to_have_count(6)


def test_of_many_attempts_the_last_stand_before_the_rest(board: Board, script: Script) -> None:
    spot = next(spec for spec in script.specs if spec.job_id == SPOT)
    script.specs = [replace(spot, start_ms=spot.start_ms - 30 * 3_600_000)]
    page = board(f"/#/job/{SPOT}").page
    rows = page.get_by_role("table", name="Attempts of the job").locator("tbody tr")
    expect(rows).to_have_count(12)
    expect(rows.last).to_contain_text("goes on")
    more = page.get_by_role("button", name=re.compile(r"^Show all \d+ attempts$"))
    every = int(re.findall(r"\d+", more.text_content() or "")[0])
    assert every > 12
    more.press("Enter")
    expect(rows).to_have_count(every)
    expect(rows.first.locator("td").first).to_have_text("1")


def test_an_unknown_job_is_told_in_words(board: Board) -> None:
    watched = board("/#/job/nobody")
    watched.provoked = ("404",)
    expect(watched.page.locator("#job .notice")).to_contain_text("knows no job of this id")
    watched.page.keyboard.press("Escape")
    expect(watched.page.locator("#board")).to_be_visible()


def test_the_cursor_is_one_for_all_charts(board: Board) -> None:
    page = board(f"/#/job/{SPOT}").page
    box = page.locator("#job .plot.burn canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 60)
    expect(page.locator("#job .plot.burn .readout")).to_contain_text("expected $46.23/h")
    expect(page.locator("#job .plot.use .readout")).to_contain_text("GPU use")


def test_a_chart_is_read_and_zoomed_by_keys_and_by_dragging(board: Board) -> None:
    page = board(f"/#/job/{SPOT}").page
    slider = page.locator("#job .plot.burn").get_by_role("slider")
    all_of_it = page.locator("#job .plot.burn").get_by_role("button", name="Show all")
    slider.focus()
    expect(slider).to_have_attribute("aria-valuetext", re.compile(r"^[\d:]+: .*expected \$46\.23/h"))
    last = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowLeft")
    expect(slider).not_to_have_attribute("aria-valuetext", last or "")
    span = "[...document.querySelectorAll('.plot.burn [role=slider], .plot.use [role=slider]')].map((each) => each.ariaValueMax - each.ariaValueMin)"
    whole = page.evaluate(span)
    page.keyboard.press("+")
    expect(all_of_it).to_be_visible()
    assert page.evaluate(span) == [pytest.approx(each / 2, rel=0.1) for each in whole], (
        "one zoom for all charts"
    )
    page.keyboard.press("Escape")
    expect(all_of_it).to_be_hidden()
    expect(page.locator("#job-title")).to_be_visible()
    page.locator("#job .plot.use canvas").scroll_into_view_if_needed()
    box = page.locator("#job .plot.use canvas").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * 0.4, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40, steps=4)
    page.mouse.up()
    expect(all_of_it).to_be_visible()
    assert page.evaluate(span)[0] < whole[0] / 3
    all_of_it.click()
    assert page.evaluate(span)[0] == pytest.approx(whole[0], rel=0.1)


def test_times_are_utc_or_the_readers_by_one_switch_that_is_remembered(opened: Open, server: Server) -> None:
    page = opened(server.url).page
    session = page.context.new_cdp_session(page)
    session.send("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Kolkata"})
    page.reload()
    expect(page.locator("#clock")).to_contain_text("UTC")
    utc = re.search(r"(\d\d):(\d\d):", page.text_content("#clock") or "")
    page.get_by_role("button", name="Times: UTC").click()
    expect(page.locator("#clock")).to_contain_text("UTC+05:30")
    local = re.search(r"(\d\d):(\d\d):", page.text_content("#clock") or "")
    assert utc is not None
    assert local is not None
    ahead = (int(local[1]) * 60 + int(local[2]) - int(utc[1]) * 60 - int(utc[2])) % 1440
    assert 330 <= ahead <= 335
    page.reload()
    expect(page.get_by_role("button", name="Times: Asia/Calcutta")).to_be_visible()
    expect(page.locator("#clock")).to_contain_text("UTC+05:30")
    page.get_by_role("button", name="Times: ").click()
    expect(page.locator("#clock")).to_contain_text(re.compile(r"UTC(?!\+)"))
