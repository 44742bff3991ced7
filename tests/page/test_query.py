"""The page Query: what is run and when, answers to the last digit, faults with their place, hostile links and names."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Page, expect

from tests.page.conftest import Watched
from tests.page.server import Script
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
HOSTILE = "<img src=x onerror=alert(1)>\x1b[31m\u202egnp"
SHOWN = r"<img src=x onerror=alert(1)>\u{1b}[31m\u{202e}gnp"
SQL = "SELECT team FROM job_costs"
ANSWER: dict[str, Any] = {
    "columns": ["job_id", "n", "usd", "at", "labels", "nothing"],
    "types": [
        "String",
        "UInt64",
        "Decimal(38, 9)",
        "Nullable(DateTime64(3, 'UTC'))",
        "Map(String, String)",
        "Nullable(Float64)",
    ],
    "rows": [
        [
            "llm-7b",
            "18446744073709551615",
            "12345678901234.000000001",
            1_772_366_400_500,
            {"k": "v"},
            None,
        ],
        [HOSTILE, 3, "0.100000000", 1_772_366_400_000, {}, 1.5],
        ["=cmd|'/c calc'!A0", -1, "-2.000000000", None, {}, 0],
    ],
}


def opened(board: Board, script: Script, sql: str = "", *, token: bool = True, **how: Any) -> Watched:
    watched = board(f"/#/query{f'?sql={quote(sql)}' if sql else ''}", **how)
    page = watched.page
    expect(page.get_by_role("heading", name="Query", exact=True)).to_be_visible()
    if token:
        page.evaluate(f"sessionStorage.setItem('trainfare.query-token', '{script.query_token}')")
    page.evaluate("localStorage.clear()")
    return watched


@pytest.fixture(autouse=True)
def forget(board: Board) -> Any:
    yield
    # Pages share a browser context: what one remembers would be seen by the next.
    page = board().page
    page.evaluate("localStorage.clear(); sessionStorage.clear()")


def answer_of(page: Page) -> list[list[str]]:
    rows = page.locator(".query-rows tbody tr")
    return [rows.nth(at).locator("td").all_text_contents() for at in range(rows.count())]


def test_a_link_brings_a_query_and_runs_nothing(board: Board, script: Script) -> None:
    hostile = "SELECT * FROM job_costs -- \u202e)(\u200b"
    watched = opened(board, script, hostile)
    page = watched.page
    expect(page.get_by_label("SQL, one statement")).to_have_value(hostile)
    expect(page.locator(".brought")).to_contain_text("has not run")
    expect(page.locator(".query-form")).to_contain_text(
        r"do not show or turn its direction: \u{202e} \u{200b}"
    )
    page.wait_for_timeout(300)
    assert script.queries == []
    page.reload()
    page.wait_for_selector(".query")
    page.wait_for_timeout(300)
    assert script.queries == []
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".query-answer")).to_contain_text("The answer has no column")
    assert script.queries == [hostile]
    expect(page.locator(".brought")).to_be_hidden()


def test_every_digit_of_an_answer_is_shown_and_in_its_files(board: Board, script: Script) -> None:
    script.answers[SQL] = (200, ANSWER)
    page = opened(board, script, SQL).page
    page.get_by_label("SQL, one statement").focus()
    page.keyboard.press("Control+Enter")
    expect(page.locator(".query-main > .sub")).to_contain_text("3 rows in")
    expect(page.locator(".query-main > .sub")).to_contain_text("read 12,345 rows, 2 MiB")
    assert answer_of(page) == [
        ["llm-7b", "18446744073709551615", "12345678901234.000000001", "2026-03-01 12:00:00.500", '{"k":"v"}', "NULL"],
        [SHOWN, "3", "0.100000000", "2026-03-01 12:00:00", "{}", "1.5"],
        ["=cmd|'/c calc'!A0", "-1", "-2.000000000", "NULL", "{}", "0"],
    ]  # fmt: skip
    assert page.locator(".query-rows img").count() == 0
    expect(page.get_by_role("link", name="llm-7b")).to_have_attribute("href", "#/job/llm-7b")
    with page.expect_download() as csv:
        page.get_by_role("button", name="Download CSV").click()
    assert csv.value.suggested_filename == "trainfare-query.csv"
    assert Path(csv.value.path()).read_text() == (
        "job_id,n,usd,at,labels,nothing\n"
        'llm-7b,18446744073709551615,12345678901234.000000001,2026-03-01 12:00:00.500,"{""k"":""v""}",\n'
        f"{SHOWN},3,0.100000000,2026-03-01 12:00:00,{{}},1.5\n"
        "\"'=cmd|'/c calc'!A0\",-1,-2.000000000,,{},0\n"
    )
    with page.expect_download() as file:
        page.get_by_role("button", name="Download JSON").click()
    assert page.evaluate("(text) => JSON.parse(text)", Path(file.value.path()).read_text()) == ANSWER


def test_a_token_is_asked_for_and_a_wrong_one_is_told_with_what_to_set(board: Board, script: Script) -> None:
    script.slow_s = 0.6
    watched = opened(board, script, SQL, token=False)
    watched.provoked = ("401",)
    page = watched.page
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_label("Token with the scope query").fill("wrong")
    page.keyboard.press("Enter")
    fault = page.locator(".query-fault")
    expect(fault).to_contain_text(
        "web.query_token or web.token (TRAINFARE_WEB_QUERY_TOKEN, TRAINFARE_WEB_TOKEN)"
    )
    page.get_by_role("button", name="Run", exact=True).click()
    page.get_by_label("Token with the scope query").fill(script.query_token)
    page.keyboard.press("Enter")
    expect(page.locator(".query-answer")).to_be_visible()
    assert script.queries == [SQL]
    assert script.query_token not in page.url
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".query-main > .sub")).to_contain_text("Running")
    expect(page.locator(".query-main > .sub")).to_contain_text("0 rows in")
    assert script.queries == [SQL, SQL], "the token is kept for this tab"


def test_a_fault_is_one_line_with_a_caret_and_the_cursor_there(board: Board, script: Script) -> None:
    wrong = "SELECT 1,\n  count( FROM jobs"
    message = "the SQL has a syntax error at line 2, column 10"
    script.answers[wrong] = (
        400,
        {"error": {"code": "query_failed", "message": message, "line": 2, "column": 10}},
    )
    script.answers["SELECT 2"] = (
        504,
        {"error": {"code": "query_timed_out", "message": f"it ran too long {HOSTILE}"}},
    )
    watched = opened(board, script, wrong)
    watched.provoked = ("400", "504")
    page = watched.page
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.get_by_role("alert").filter(has_text=message)).to_be_visible()
    assert page.locator(".caret").text_content() == "  count( FROM jobs\n         ^"
    assert page.evaluate("document.activeElement.selectionStart") == wrong.index("FROM")
    page.get_by_label("SQL, one statement").fill("SELECT 2")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".query-fault")).to_have_text(f"it ran too long {SHOWN}.")
    page.get_by_label("SQL, one statement").fill("  ")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".query-fault")).to_have_text(
        "There is nothing to run: write a statement, or take an example."
    )


def test_a_long_query_says_so_and_is_cancelled(board: Board, script: Script) -> None:
    script.slow_s = 8
    page = opened(board, script, SQL).page
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".query-main > .sub")).to_contain_text("Running for")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_disabled()
    page.get_by_role("button", name="Cancel").click()
    expect(page.locator(".query-main > .sub")).to_have_text("Cancelled.")
    expect(page.get_by_role("button", name="Run", exact=True)).to_be_enabled()


def test_tables_examples_history_and_back(board: Board, script: Script) -> None:
    example = "SELECT team, sum(cost_usd) AS usd\nFROM job_costs\nGROUP BY team"
    script.answers[example] = (200, ANSWER)
    page = opened(board, script).page
    editor = page.get_by_label("SQL, one statement")
    page.get_by_label("Take an example").select_option(label="Cost by team")
    expect(editor).to_have_value(example)
    assert "GROUP" in page.url
    page.keyboard.press("Control+Enter")
    expect(page.locator(".query-rows")).to_be_visible()
    page.get_by_label("Find a table").fill("cost_u")
    expect(page.locator(".query-side")).to_contain_text("1 of 2")
    page.get_by_role("button", name="team", exact=True).click()
    expect(editor).to_be_focused()
    page.wait_for_timeout(600)
    page.go_back()
    expect(editor).to_have_value(example)
    expect(page.locator(".query-rows")).to_be_visible()
    expect(page.locator(".brought")).to_be_hidden()
    page.get_by_label("Find a table").fill("")
    page.locator("summary", has_text="alerts").click()
    page.get_by_role("button", name="Its first rows").click()
    expect(editor).to_have_value("SELECT *\nFROM alerts\nLIMIT 100")
    page.get_by_label("Asked before").select_option(index=1)
    expect(editor).to_have_value(example)
    page.get_by_role("button", name="Forget them").click()
    expect(page.get_by_label("Asked before")).to_be_disabled()
    assert page.evaluate("localStorage.length") == 0


def test_an_answer_over_time_is_drawn(board: Board, script: Script) -> None:
    day_ms = 86_400_000
    days = [["2026-03-01", "1.500000000", "0.500000000", 3], ["2026-03-02", "2.250000000", "0.000000001", 4]]
    script.answers[SQL] = (
        200,
        {"columns": ["day", "usd", "lost_usd", "jobs"], "types": ["Date", "Decimal(38, 9)", "Decimal(38, 9)", "UInt64"], "rows": days},
    )  # fmt: skip
    by_team = [
        [at * day_ms, f"{HOSTILE}{team}", f"{team}.000000000"] for at in range(3) for team in range(10)
    ]
    script.answers["SELECT 2"] = (
        200,
        {"columns": ["at", "team", "usd"], "types": ["DateTime('UTC')", "LowCardinality(String)", "Decimal(38, 9)"], "rows": by_team},
    )  # fmt: skip
    twice = {"columns": ["at", "usd"], "types": ["DateTime", "Float64"], "rows": [[0, 1], [0, 2]]}
    script.answers["SELECT 3"] = (200, twice)
    page = opened(board, script, SQL).page
    editor = page.get_by_label("SQL, one statement")
    editor.focus()
    page.keyboard.press("Control+Enter")
    chart = page.locator(".query-chart")
    expect(chart.get_by_role("slider")).to_be_visible()
    expect(chart.locator(".query-legend li")).to_have_text(["usd"])
    page.get_by_label("Draw").select_option(label="all 3 columns of numbers")
    expect(chart.locator(".query-legend li")).to_have_text(["usd", "lost_usd", "jobs"])
    assert page.url.endswith("&y=*")
    chart.get_by_role("slider").focus()
    expect(chart.get_by_role("slider")).to_have_attribute(
        "aria-valuetext", re.compile("lost_usd 0.000000001")
    )
    editor.fill("SELECT 2")
    page.keyboard.press("Control+Enter")
    expect(chart.locator(".query-legend li")).to_have_count(8)
    expect(chart.locator(".query-legend li").first).to_have_text(f"{SHOWN}9")
    expect(chart).to_contain_text("2 more names left out")
    editor.fill("SELECT 3")
    page.keyboard.press("Control+Enter")
    expect(chart).to_contain_text("No chart: several rows have the same at.")
    expect(chart.get_by_role("slider")).to_be_hidden()


def test_more_rows_than_are_shown_are_counted(board: Board, script: Script) -> None:
    script.answers[SQL] = (200, {"columns": ["n"], "types": ["UInt64"], "rows": [[n] for n in range(1_234)]})
    page = opened(board, script, SQL).page
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".query-answer")).to_contain_text(
        "The first 500 rows of 1,234; 734 are left out here"
    )
    assert page.locator(".query-rows tbody tr").count() == 500


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_overflows_and_every_text_can_be_read(
    board: Board, script: Script, width: int, scheme: str
) -> None:
    sql = f"SELECT {', '.join(['cost_usd'] * 40)}, {'x' * 300} FROM job_costs"
    script.answers[sql] = (200, {**ANSWER, "rows": [["x" * 256, *each[1:]] for each in ANSWER["rows"]]})
    page = opened(board, script, sql, width=width, scheme=scheme).page
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".query-rows")).to_be_visible()
    page.locator("summary", has_text="job_costs").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
