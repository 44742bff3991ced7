"""The board over more jobs than it holds: the meter searches, sorts and pages; the page shows, links and moves by keys."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
from playwright.sync_api import Page, Route, expect

from tests.page import fleet
from tests.page.conftest import Open, Watched
from tests.page.server import Script, Server

Board = Callable[..., Watched]
MANY = 230
NAMES = [f"run{chr(97 + at // 26 // 26)}{chr(97 + at // 26 % 26)}{chr(97 + at % 26)}x" for at in range(MANY)]


@pytest.fixture
def script(script: Script) -> Script:
    """Jobs that are no sweep, each dearer than the next."""
    began_ms = script.now_ms - 3_600_000
    script.specs = [fleet.Spec(name, 1_000 - at, "H100", 1, began_ms) for at, name in enumerate(NAMES)]
    return script


def rows(page: Page) -> list[str]:
    return page.locator(".jobs-table tbody .job-link").all_text_contents()


def test_any_job_is_found_and_the_link_finds_it_again(board: Board, opened: Open, server: Server) -> None:
    page = board().page
    expect(page.locator("#count")).to_have_text(f"{MANY} of {MANY} live jobs")
    page.keyboard.press("/")
    page.keyboard.type(NAMES[-1].upper())
    expect(page.locator("#count")).to_have_text(f"1 of {MANY} live jobs")
    assert rows(page) == [NAMES[-1]]
    assert page.url.endswith(f"#/?q={NAMES[-1].upper()}")
    again = opened(page.url).page
    expect(again.locator("#count")).to_have_text(f"1 of {MANY} live jobs")
    expect(again.get_by_role("searchbox")).to_have_value(NAMES[-1].upper())
    again.get_by_role("searchbox").fill("nobody")
    expect(again.locator("#jobs")).to_contain_text(f"No job matches these filters, of {MANY} live jobs.")


def test_pages_by_button_by_keys_and_by_link(board: Board) -> None:
    page = board().page
    pager = page.get_by_role("navigation", name="Pages of the list")
    expect(pager).to_contain_text(f"Rows 1 to 50 of {MANY}")
    expect(pager.get_by_role("link", name="Previous")).to_be_hidden()
    pager.get_by_role("link", name="Next").click()
    expect(pager).to_contain_text(f"Rows 51 to 100 of {MANY}")
    assert rows(page) == NAMES[50:100]
    assert "cursor=" in page.url
    page.locator(".job-link").last.focus()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".job-link", has_text=NAMES[100])).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator(".job-link", has_text=NAMES[101])).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#job-title")).to_have_text(NAMES[101])
    page.keyboard.press("Escape")
    expect(page.locator(".job-link", has_text=NAMES[101])).to_be_focused()
    page.locator(".job-link").first.focus()
    page.keyboard.press("ArrowUp")
    expect(page.locator(".job-link", has_text=NAMES[99])).to_be_focused()
    page.go_back()
    page.go_back()
    expect(pager).to_contain_text("Rows 51 to 100")
    page.reload()
    expect(pager).to_contain_text("Rows 51 to 100")
    page.get_by_role("columnheader", name="Job").get_by_role("button").click()
    expect(pager).to_contain_text("Rows 1 to 50")


def test_rows_beyond_the_stream_go_on_being_fresh(board: Board, script: Script) -> None:
    page = board().page
    page.get_by_role("searchbox").fill(NAMES[-1])
    row = page.locator(".jobs-table tbody tr")
    expect(row).to_have_count(1)
    before = row.locator(".c-gpus .gpus").text_content()
    script.specs = [*script.specs[:-1], replace(script.specs[-1], gpus=3)]
    expect(row.locator(".c-gpus .gpus")).not_to_have_text(str(before), timeout=15_000)


def test_the_last_answer_wins(board: Board) -> None:
    watched = board()
    page = watched.page

    def late(route: Route) -> None:
        page.wait_for_timeout(900)
        route.continue_()

    page.route(re.compile("q=runaa"), late)
    search = page.get_by_role("searchbox")
    search.fill("runaa")
    page.wait_for_timeout(400)
    search.fill(NAMES[200])
    expect(page.locator("#count")).to_have_text(f"1 of {MANY} live jobs")
    page.wait_for_timeout(1_500)
    assert rows(page) == [NAMES[200]]
    page.unroute_all(behavior="ignoreErrors")


def test_a_sweep_is_one_row_that_opens(board: Board, script: Script) -> None:
    script.specs = fleet.specs()
    page = board().page
    row = page.locator("tr[data-sweep]")
    expect(row).to_have_count(1)
    expect(row).to_contain_text("vit-lr")
    jobs = int(re.findall(r"(\d+) jobs", row.text_content() or "")[0])
    row.locator(".job-link").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#count")).to_contain_text(f"{jobs} of ")
    expect(page.locator(".jobs-table tbody tr")).to_have_count(jobs)
    expect(page.get_by_text("Jobs of the sweep vit-lr")).to_be_visible()
    page.reload()
    expect(page.locator(".jobs-table tbody tr")).to_have_count(jobs)
    page.get_by_role("link", name="All jobs").first.click()
    expect(page.locator("tr[data-sweep]")).to_have_count(1)
    page.get_by_label("Group sweeps").uncheck()
    expect(page.locator("tr[data-sweep]")).to_have_count(0)
    assert "group=off" in page.url


@pytest.mark.parametrize("width", [360, 1440])
def test_long_and_turning_names_do_not_break_rows(board: Board, script: Script, width: int) -> None:
    names = ("w" * 256, "\u202e" + "dlrow-olleh", "a\u2066b\u202ec")
    base = fleet.job_row(script.specs[0], script.now_ms, [])
    wide = [
        base | {"job_id": name, "owner": name[::-1], "team": name, "project": name, "experiment": name}
        for name in names
    ]
    plain = fleet.job_row(script.specs[1], script.now_ms, [])
    script.extra = [*wide, plain]
    script.specs = []
    page = board(width=width).page
    expect(page.locator(".jobs-table tbody tr")).to_have_count(4)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    tall = page.evaluate("[...document.querySelectorAll('.jobs-table tbody tr')].map(r => r.offsetHeight)")
    assert max(tall) <= 3 * min(tall), "two lines of a name, not twenty"
    cells = page.evaluate(
        """() => [...document.querySelectorAll('.jobs-table tbody td')].filter((cell) => {
          const box = cell.getBoundingClientRect();
          return [...cell.children].some((child) => child.getBoundingClientRect().right > box.right + 1);
        }).length"""
    )
    assert cells == 0, "nothing sticks out of its cell"


def test_an_id_of_two_dots_opens(board: Board, script: Script) -> None:
    script.specs = [replace(script.specs[0], job_id="..")]
    page = board().page
    page.locator(".job-link").click()
    expect(page.locator("#job-title")).to_have_text("..")
    expect(page.locator(".explain tbody tr").first).to_be_visible()
    assert page.url.endswith("#/job/..")


def test_the_time_of_a_job_that_ended_ends_with_it(board: Board, script: Script) -> None:
    ended_ms = script.now_ms - 90 * 60_000
    script.specs = [replace(script.specs[0], job_id="over", start_ms=ended_ms - 3_600_000, end_ms=ended_ms)]
    page = board("/#/job/over").page
    expect(page.locator(".phases .phase").first).to_be_visible()
    expect(page.locator(".facts .tile", has_text="Burning now").locator(".figure")).to_have_text("$0.00/h")
    whole = page.locator(".phases svg").get_attribute("width")
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.phases .phase')].map(p => +p.getAttribute('x') + +p.getAttribute('width')))"
    )
    assert right >= float(str(whole)) - 30, "its last phase ends where the axis does"
