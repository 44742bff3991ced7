"""What moves: figures between and with snapshots, alerts as they come, the stream that stops and returns."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from urllib.parse import urlsplit

from playwright.sync_api import Page, expect

from tests.page import fleet
from tests.page.conftest import Open, Watched
from tests.page.listing import listed
from tests.page.server import Script, Server

Board = Callable[..., Watched]
#: Of the fleet, as the board shows it: jobs that live, sweeps as one row.
ROWS = listed(Script().rows(), {"state": "live", "group": "sweep"})["rows"]
TIMES = "\N{MULTIPLICATION SIGN}"


def dollars(text: str | None) -> float:
    found = re.search(r"[\d,]+(\.\d+)?", text or "")
    assert found, f"no amount in {text!r}"
    return float(found.group().replace(",", ""))


def test_the_first_figures_need_few_requests(board: Board) -> None:
    watched = board()
    assert watched.page.locator(".jobs-table tbody tr").count() == ROWS
    paths = [urlsplit(each).path for each in watched.requests]
    assert {path for path in paths if path.startswith("/api/")} == {
        "/api/v1/budgets",
        "/api/v1/jobs",
        "/api/v1/sign_in",
        "/api/v1/stream",
    }
    assert len(set(paths)) == len(paths), "a file is asked for once"
    drawing = [at for at, path in enumerate(paths) if "/vendor/" in path or path.endswith("/timechart.js")]
    assert len(paths) - len(drawing) <= 10
    assert not drawing or drawing[0] > paths.index("/api/v1/stream"), "figures wait for nothing that draws"


def test_numbers_move(board: Board) -> None:
    page = board().page
    cell = page.locator("tr", has_text="llm-pretrain-7b").locator(".c-cost .money").first
    before = dollars(cell.text_content()), dollars(page.text_content("#spend"))
    page.wait_for_function(
        "(before) => Number(document.querySelector('#spend').textContent.replace(/[$,]/g, '')) > before", arg=before[1]
    )  # fmt: skip
    page.wait_for_timeout(600)
    assert dollars(cell.text_content()) > before[0]


def test_costs_tick_between_snapshots_and_stop_with_them(board: Board, script: Script) -> None:
    watched = board()
    page = watched.page
    script.streaming = False
    watched.provoked = ("503",)
    page.wait_for_timeout(300)
    first = dollars(page.text_content("#spend"))
    page.wait_for_timeout(1000)
    second = dollars(page.text_content("#spend"))
    assert second > first


def test_a_dead_stream_is_called_stale_and_nothing_ticks_any_more(opened: Open, script: Script) -> None:
    with Server(script) as server:
        watched = opened(server.url)
        page = watched.page
        page.wait_for_selector("#link[data-state=live]")
    watched.provoked = ("ERR_CONNECTION_REFUSED", "ERR_INCOMPLETE_CHUNKED_ENCODING", "ERR_")
    expect(page.locator("#link")).to_have_attribute("data-state", "stale", timeout=9000)
    expect(page.locator("#link-text")).to_contain_text("stale: figures are")
    expect(page.locator("#notice")).to_contain_text("does not answer")
    assert "stale" in page.title()
    first = page.text_content("#spend"), page.text_content("#clock")
    page.wait_for_timeout(1200)
    assert (page.text_content("#spend"), page.text_content("#clock")) == first


def test_a_refused_stream_is_replaced_by_requests_and_taken_again(
    opened: Open, server: Server, script: Script
) -> None:
    script.streaming = False
    watched = opened(server.url)
    watched.provoked = ("503",)
    page = watched.page
    expect(page.locator("#link-text")).to_have_text("live (polling)", timeout=15_000)
    assert page.locator(".jobs-table tbody tr").count() == ROWS
    script.streaming = True
    expect(page.locator("#link-text")).to_have_text("live", timeout=20_000)


def test_an_alert_appears_and_is_said_once(board: Board, script: Script) -> None:
    page = board().page
    expect(page.locator("#alerts")).to_contain_text("No alert fires")
    assert page.text_content("#announcer") == ""
    script.alerts = [fleet.alert("diffusion-xl-finetune", 0, script.now_ms - 60_000)]
    item = page.locator(".alert-list .alert")
    expect(item).to_have_count(1)
    for words in (
        "page",
        "Runaway burn",
        "diffusion-xl-finetune",
        "ada",
        "burns 142.77 USD/h, 6.4 times the expected",
        "delivered to ada",
    ):
        expect(item).to_contain_text(words)
    announcer = page.locator("#announcer")
    assert announcer.get_attribute("aria-live") == "polite"
    for words in (
        "page",
        "Runaway burn",
        "diffusion-xl-finetune",
        "owner ada",
        "$142.77 per hour",
        "delivered",
    ):
        expect(announcer).to_contain_text(words)
    page.wait_for_timeout(700)
    assert announcer.locator("p").count() == 1, "said again with each snapshot"
    expect(page.locator("#firing-tile")).to_contain_text("1 page")
    expect(page.locator("tr", has_text="diffusion-xl-finetune").locator(".flag")).to_contain_text("page")
    script.alerts = [{**script.alerts[0], "status": "resolved", "resolved_ms": script.now_ms}]
    expect(announcer).to_contain_text("resolved: Runaway burn")
    expect(page.locator("#alerts summary")).to_have_text("1 resolved")


def test_an_incident_is_one_alert_with_those_of_its_jobs_under_it(board: Board, script: Script) -> None:
    page = board().page
    cause = '["silence","c1","p5"]'
    jobs = ["diffusion-xl-finetune", "speech-encoder-v4", "reward-model-7b"]
    began_ms = script.now_ms - 120_000
    incident = fleet.alert("c1/p5", 0, script.now_ms - 60_000, rule="incident", shared_cause=cause)
    incident["subject"] = {"kind": "source", "name": "c1/p5"}
    other = fleet.alert("alone", 1, began_ms, rule="retry_loop", shared_cause="")
    members = [fleet.alert(job, 0, began_ms, rule="silent_job", shared_cause=cause) for job in jobs]
    script.alerts = [incident, *members, other]
    top = page.locator("#alerts > .alert-list > .alert")
    expect(top).to_have_count(2)
    fold = page.locator("#alerts > .alert-list > .alert > details.members")
    expect(fold.locator("> summary")).to_have_text("3 alerts of jobs with this cause")
    expect(page.locator("#announcer")).not_to_contain_text("speech-encoder-v4")
    fold.locator("> summary").click()
    for job in jobs:
        expect(fold.locator(".alert", has_text=job)).to_be_visible()
    expect(top.filter(has_text="alone").locator("details.members")).to_have_count(0)
    script.alerts = [incident, other]
    expect(fold).to_have_count(0)


def test_what_became_of_each_message_is_said(board: Board, script: Script) -> None:
    outcomes = {
        "delivered": "✓ delivered to ada",
        "retrying": "… not delivered yet, attempt 1 failed",
        "failed": "✗ not delivered",
        "no_receiver": "✗ not delivered: nobody to send it to",
    }
    why = "it has no owner, and alerts.default_webhook is not set"
    script.alerts = [
        fleet.alert(f"job-{outcome}", 0, script.now_ms - 60_000 * at, deliveries=[fleet.delivered(script.now_ms, outcome)])
        for at, outcome in enumerate(outcomes, start=1)
    ]  # fmt: skip
    script.alerts.append(fleet.alert("job-quiet", 0, script.now_ms - 1, silenced=True, deliveries=[]))
    script.alerts.append(fleet.alert("job-new", 0, script.now_ms - 2, deliveries=[]))
    said = [fleet.delivered(script.now_ms, "no_receiver", detail=why)]
    script.alerts.append(fleet.alert("job-ownerless", 0, script.now_ms - 3, deliveries=said))
    page = board().page
    others = {"quiet": "silenced, not sent", "new": "not sent so far", "ownerless": f"✗ not delivered: {why}"}
    for outcome, words in (outcomes | others).items():
        expect(page.locator(".alert", has_text=f"job-{outcome}").locator(".delivered")).to_contain_text(words)


def test_the_meters_clock_is_shown_where_it_is_another(board: Board) -> None:
    page = board().page
    told = re.compile(r"meter clock 2026-06-01 1\d:\d\d:\d\d UTC, 60" + TIMES)
    expect(page.locator("#clock")).to_have_text(told)


def test_the_speed_of_another_clock_is_measured_where_it_is_not_told(board: Board, script: Script) -> None:
    # Snapshots without `speed`, whose clock runs 60 times as fast.
    step = script.step
    script.speed = None

    def faster() -> None:
        script.speed = 60
        step()
        script.speed = None

    # The first snapshots of an empty store know no instant: they must not count as a clock that ran.
    script.empty = 3
    script.step = faster  # type: ignore[method-assign]  # the script is the test's own
    page = board().page
    # A busy machine sends its snapshots later than it means to.
    told = re.compile(r", about [2-6]\d" + TIMES)
    expect(page.locator("#clock")).to_have_text(told, timeout=15_000)


def test_of_a_store_at_rest_it_is_said_and_nothing_ticks(
    server: Server, opened: Open, script: Script
) -> None:
    script.speed, script.frozen = 0, True
    page = opened(f"{server.url}/").page
    page.wait_for_selector("#link[data-state=rest]")
    expect(page.locator("#link-text")).to_have_text("read-only: nobody meters")
    expect(page.locator("#clock")).to_have_text(re.compile(r"^as of 2026-06-01 \d\d:\d\d:\d\d UTC$"))
    expect(page.locator("#spend-sub")).to_have_text("the day of the last figures")
    spent = page.locator("#spend").text_content()
    expect(page.locator("#link-text")).to_have_text("read-only: nobody meters")
    page.wait_for_timeout(1_000)  # ticks of a live page would have changed it
    assert page.locator("#spend").text_content() == spent
    script.specs = []
    expect(page.locator("#jobs")).to_contain_text("No job was live at the last instant of this store.")


def test_the_readers_own_clock_needs_no_words(board: Board, script: Script) -> None:
    script.now_ms = int(time.time() * 1000)
    script.speed = 1
    script.specs = [fleet.Spec("one", 8, "H100", 0, script.now_ms - 3_600_000)]
    page = board().page
    expect(page.locator("#clock")).to_have_text(re.compile(r"^\d\d:\d\d:\d\d UTC$"))


def test_no_jobs_yet_says_what_to_do(board: Board, script: Script) -> None:
    script.specs = []
    page = board().page
    for words in ("No jobs yet", "trainfare publish", "trainfare demo"):
        expect(page.locator("#jobs")).to_contain_text(words)
    expect(page.locator("#alerts")).to_contain_text("No alert fires")
    expect(page.locator("#idle-sub")).to_have_text("no GPU samples yet")
    script.specs = fleet.specs()
    expect(page.locator(".jobs-table tbody tr")).to_have_count(ROWS)


def test_rows_stay_while_a_hand_is_on_them(board: Board, script: Script) -> None:
    page = board().page
    first = page.locator(".jobs-table tbody tr").nth(1)
    first.hover()
    names = order(page)
    script.specs = [*script.specs, fleet.Spec("giant", 900, "H100", 1, script.now_ms - 60_000)]
    expect(page.locator(".jobs-table tbody tr")).to_have_count(ROWS + 1)
    assert order(page)[:5] == names[:5]
    page.mouse.move(5, 5)
    page.wait_for_function(
        "() => document.querySelector('.jobs-table tbody .job-link').textContent === 'giant'"
    )


def order(page: Page) -> list[str]:
    return page.locator(".jobs-table tbody .job-link").all_text_contents()


def test_a_store_that_does_not_answer_is_named(board: Board, script: Script) -> None:
    page = board().page
    script.fault = "ClickHouse at 127.0.0.1:8123 does not answer"
    expect(page.locator("#link")).to_have_attribute("data-state", "stale", timeout=9000)
    expect(page.locator("#notice")).to_contain_text("ClickHouse at 127.0.0.1:8123 does not answer")
    script.fault = None
    expect(page.locator("#link")).to_have_attribute("data-state", "live")
    expect(page.locator("#notice")).to_be_hidden()


def test_a_worker_with_a_token_is_asked_with_it(opened: Open, server: Server, script: Script) -> None:
    script.token = "a token/with#odd?signs"
    watched = opened(server.url)
    watched.provoked = ("401",)
    page = watched.page
    page.get_by_label("token").fill("a wrong one")
    page.get_by_role("button", name="Show the figures").click()
    expect(page.get_by_role("alert").filter(has_text="this is no token of this worker")).to_be_visible()
    page.get_by_label("token").fill(script.token)
    page.get_by_role("button", name="Show the figures").click()
    expect(page.locator("#link")).to_have_attribute("data-state", "live")
    assert "token" not in page.url
    assert page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])") == '[{},{},""]'
