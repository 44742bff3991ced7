"""Parameters {name:Type} on the page Query: an input for each, values sent beside the statement, the state in the address."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.page.conftest import Watched
from tests.page.server import Script
from tests.page.test_layout import CONTRAST
from tests.page.test_query import HOSTILE, forget, opened

__all__ = ["forget"]

Board = Callable[..., Watched]
SQL = (
    "SELECT {team:String}, '{text:String}', \"{column:String}\", -- {line:String}\n"
    "/* {block:String} */ { at : DateTime64(3) }, {n:UInt64}, {team:String}, {on:Bool}, {day:Date}, {ids:Array(UInt64)}, "
    "{sums:Array(Decimal(18, 9))}, $tag$ {here:String} $tag$, 'it''s \\' {quoted:String}'"
)
NAMES = ["team String", "at DateTime64(3)", "n UInt64", "on Bool", "day Date", "ids Array(UInt64)", "sums Array(Decimal(18, 9))"]  # fmt: skip


@pytest.mark.parametrize("width", [360, 1440])
def test_each_parameter_has_an_input_of_its_type_by_keyboard(
    board: Board, script: Script, width: int, tmp_path: Path
) -> None:
    page = opened(board, script, SQL, width=width).page
    expect(page.locator(".query-parameters label")).to_have_text(NAMES)
    page.get_by_label("team String").focus()
    for text in ("it's \\ a {x:String}", "Tab", "2026-03-01 12:00:00.5", "Tab", "18446744073709551615", "Tab", "t", "Tab"):  # fmt: skip
        page.keyboard.press("Tab") if text == "Tab" else page.keyboard.type(text)
    page.get_by_label("day Date").fill("2026-03-01")
    page.get_by_label("ids Array").fill("18446744073709551615, 7")
    page.get_by_label("sums Array").fill("[1.5, 2]")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    page.screenshot(path=tmp_path / f"parameters-{width}.png", full_page=True)
    page.keyboard.press("Enter")
    expect(page.locator(".query-answer")).to_contain_text("The answer has no column")
    assert script.queries == [SQL]
    assert script.parameters == [
        {
            "team": "it's \\ a {x:String}", "at": "2026-03-01 12:00:00.5", "n": "18446744073709551615", "on": "true",
            "day": "2026-03-01", "ids": [18446744073709551615, 7], "sums": [1.5, 2],
        }
    ]  # fmt: skip


def test_a_value_that_is_none_is_pointed_at_and_nothing_is_asked(board: Board, script: Script) -> None:
    page = opened(board, script, "SELECT {n:Int64}, {a:Array(Float64)}").page
    fault = page.locator(".query-fault")
    run = page.get_by_role("button", name="Run", exact=True)
    run.click()
    expect(fault).to_contain_text("Parameter n: give it a value (Int64).")
    expect(page.get_by_label("n Int64")).to_be_focused()
    expect(page.get_by_label("n Int64")).to_have_attribute("aria-invalid", "true")
    page.get_by_label("n Int64").fill("1.5")
    run.click()
    expect(fault).to_contain_text("Parameter n: “1.5” is no Int64.")
    page.get_by_label("n Int64").fill("-7")
    for wrong in ("x", "[[1]]", "[1", '[{"a": 1}]', "1,,2"):
        page.get_by_label("a Array").fill(wrong)
        run.click()
        expect(fault).to_contain_text("is no Array(Float64)")
    assert script.queries == []
    page.get_by_label("a Array").fill("")
    run.click()
    expect(page.locator(".query-answer")).to_contain_text("The answer has no column")
    assert script.parameters == [{"n": "-7", "a": []}]


def test_values_stand_in_the_address_and_a_link_runs_nothing(board: Board, script: Script) -> None:
    sql = "SELECT {job:String}"
    watched = board(f"/#/query?sql={quote(sql)}&p.job={quote(HOSTILE)}&p.gone=1")
    page = watched.page
    expect(page.get_by_label("job String")).to_have_value(HOSTILE)
    expect(page.locator(".brought")).to_contain_text("has not run")
    expect(page.locator(".query-form")).to_contain_text(r"do not show or turn its direction: \u{1b} \u{202e}")
    page.wait_for_timeout(300)
    assert script.queries == []
    page.evaluate(f"sessionStorage.setItem('trainfare.query-token', '{script.query_token}')")
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator(".query-answer")).to_contain_text("The answer has no column")
    assert script.parameters == [{"job": HOSTILE}]
    # Another value of the same statement is another entry of the history of the browser, and of the page's own.
    page.get_by_label("job String").fill("run-8")
    page.wait_for_timeout(600)
    assert page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('p.job')") == "run-8"
    assert page.evaluate("new URLSearchParams(location.hash.split('?')[1]).get('p.gone')") is None
    page.get_by_role("button", name="Run", exact=True).click()
    expect(page.locator("#query-history option")).to_have_count(3)
    page.go_back()
    expect(page.get_by_label("job String")).to_have_value(HOSTILE)
    expect(page.locator(".brought")).to_be_hidden()
    page.get_by_label("Asked before in this browser").select_option("1")
    expect(page.get_by_label("job String")).to_have_value(HOSTILE)
    page.get_by_label("Asked before in this browser").select_option("0")
    expect(page.get_by_label("job String")).to_have_value("run-8")
    page.get_by_label("SQL, one statement").fill("SELECT 1")
    expect(page.locator(".query-values")).to_be_hidden()
    page.get_by_label("SQL, one statement").fill("SELECT {job:String} AS j")
    expect(page.get_by_label("job String")).to_have_value("run-8")


def test_a_statement_full_of_beginnings_is_read_at_once(board: Board, script: Script) -> None:
    page = opened(board, script).page
    for text in (
        "{a:" * 5_000,
        "'" * 15_000,
        "$a$" * 5_000,
        "/*" * 8_000,
        "{a:" + "String " * 2_000,
        "\\'" * 8_000,
    ):
        page.get_by_label("SQL, one statement").fill(text)
        expect(page.locator(".query-values")).to_be_hidden()
