"""Dollars of a column of a table have one number of decimals, so that they compare by eye."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

import pytest
from playwright.sync_api import Page, expect

from streams.cli.output import column_decimals, even, money
from tests.page import fleet
from tests.page.conftest import Watched
from tests.page.server import Script

Board = Callable[..., Watched]
MINUS = "\N{MINUS SIGN}"
#: The decimals of each amount of a column, by the class of its cell.
DECIMALS = """
name => [...document.querySelectorAll(`tbody .${name}`)].flatMap(cell => cell.innerText.match(/\\$[\\d,.]+/g) ?? [])
"""
#: What a table shows of amounts, its rows written twice: what is shown must not depend on what was.
SHOWN = """
async values => {
  const d = await import('/static/dom.js');
  const columns = [{title: 'Job', class: ''}, {title: 'Cost', class: 'num'}];
  const made = d.table(columns);
  made.fill([d.row(columns, ['before', d.dollars('1')])]);
  made.fill(values.map(value => d.row(columns, ['a', d.dollars(value, {words: text => `${text}/h`})])));
  return [...made.body.rows].map(each => [each.cells[1].textContent, each.cells[1].firstChild.title]);
}
"""


@pytest.mark.parametrize(
    ("amounts", "shown"),
    [
        (("1234.5", "0.0042", "0", "-0.004"), ("$1,234.50", "< $0.01", "$0.00", f"> {MINUS}$0.01")),
        (("12.34", "0.0042", "-0.00001", "0"), ("$12.3400", "$0.0042", f"> {MINUS}$0.0001", "$0.0000")),
        (("7", "1.005", "0.5"), ("$7.00", "$1.01", "$0.50")),
        (("123456.5", "12"), ("$123,456.50", "$12.00")),
        (("123456.5", "234567"), ("$123,456.50", "$234,567.00")),
        (("12.34", "0.0999"), ("$12.3400", "$0.0999")),
    ],
)
def test_a_table_gives_a_column_one_number_of_decimals_and_tooltips_every_digit(
    board: Board, amounts: tuple[str, ...], shown: tuple[str, ...]
) -> None:
    found = board().page.evaluate(SHOWN, list(amounts))
    assert tuple(text for text, _ in found) == tuple(f"{each}/h" for each in shown)
    assert found[0][1].replace(",", "").startswith(f"${amounts[0]}")


#: Columns of amounts, and how many decimals they have, on a terminal and on the page.
COLUMNS = [
    ((), "USD", 2),
    (("0", "0.000000000"), "USD", 2),
    (("0.1", "7"), "USD", 2),
    (("0.099999999", "7"), "USD", 4),
    (("0.0042", "0", "12.34"), "USD", 4),
    (("-0.0042", "99.999999999"), "USD", 4),
    (("0.0042", "100"), "USD", 2),
    (("0.0042", "-100.5"), "USD", 2),
    (("0.000000001", "1"), "USD", 4),
    (("0.0000000001", "1"), "USD", 2),
    (("0.005", "0.5"), "USD", 4),
    (("123456.5", "234567"), "USD", 2),
    (("99999.995", "1000000"), "USD", 2),
    (("0.0042", "1"), "EUR", 4),
    (("12.5", "7"), "EUR", 2),
    (("0.0042", "1"), "JPY", 0),
    (("163.7", "1000"), "JPY", 0),
    (("0.0042", "1000"), "KWD", 3),
    (("0.5", "20"), "CLF", 4),
]


def test_the_terminal_and_the_page_choose_the_decimals_of_a_column_by_one_rule(board: Board) -> None:
    script = "async columns => { const f = await import('/static/format.js'); return columns.map(([values, currency]) => f.decimals(values, currency)); }"
    wanted = [decimals for _, _, decimals in COLUMNS]
    terminal = [column_decimals(map(Decimal, amounts), currency) for amounts, currency, _ in COLUMNS]
    page = board().page.evaluate(script, [[list(amounts), currency] for amounts, currency, _ in COLUMNS])
    assert terminal == wanted
    assert page == wanted


def test_a_column_of_a_currency_without_cents_has_none(board: Board) -> None:
    script = SHOWN.replace("{words:", "{currency: 'JPY', words:")
    found = board().page.evaluate(script, ["1234.5678", "0.25", "0"])
    assert [text for text, _ in found] == ["$1,235/h", "< $1/h", "$0/h"]
    assert even(("cost",), [[money(each, "JPY")] for each in ("1234.5678", "0.25", "0")]) == [
        ["1,235"],
        ["<1"],
        ["0"],
    ]


def decimals(page: Page, name: str) -> set[int]:
    amounts: list[str] = page.evaluate(DECIMALS, name)
    assert len(amounts) > 3
    return {len(each.partition(".")[2]) for each in amounts}


def test_amounts_of_the_board_compare_by_eye(board: Board, script: Script) -> None:
    script.specs = [fleet.Spec("just-begun", 1, "H100", 0, script.now_ms - 1_000), *script.specs]
    page = board("/#/?sort=cost&dir=asc&group=off").page
    expect(page.locator(".jobs-table tbody tr", has_text="just-begun").locator(".c-cost")).to_contain_text(
        re.compile(r"< \$0\.01|\$0\.0")
    )
    assert [decimals(page, name) for name in ("c-cost", "c-burn")] == [{2}, {2}]
    align = page.locator(".c-cost").last.evaluate(
        "e => [getComputedStyle(e).textAlign, getComputedStyle(e).fontVariantNumeric]"
    )
    assert align == ["right", "tabular-nums"]
