"""The jobs table: burn by colour and by words, filters, sorting, text that is no markup, money as people read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from playwright.sync_api import expect

from tests.page import fleet
from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script

Board = Callable[..., Watched]
#: Jobs of the fleet that have not ended; the board shows these unless it is asked for others.
LIVE = len([spec for spec in fleet.specs() if spec.end_ms is None or spec.end_ms > NOW_MS])
TIMES = "\N{MULTIPLICATION SIGN}"


def test_burn_ratio_is_said_by_colour_by_sign_and_in_words(board: Board) -> None:
    page = board().page
    for job, band, sign, words in (
        ("diffusion-xl-finetune", "far", f"▲▲ 8.0{TIMES}", "far above expected"),
        ("reward-model-v3", "over", f"▲ 1.6{TIMES}", "above expected"),
        ("llm-pretrain-7b", "even", f"= 1.0{TIMES}", "as expected"),
    ):
        row = page.locator("tr", has_text=job)
        expect(row).to_have_attribute("data-band", band)
        expect(row.locator(".pill")).to_have_text(sign)
        expect(row.locator(".c-ratio .unseen")).to_contain_text(words)


def test_search_and_filters_and_their_address(board: Board) -> None:
    page = board().page
    page.keyboard.press("/")
    page.keyboard.type("sweep ada")
    rows = page.locator(".jobs-table tbody tr")
    expect(rows).to_have_count(3)
    expect(page.locator("#count")).to_have_text(f"3 of {LIVE} live jobs")
    page.get_by_role("combobox", name="State").select_option("all")
    expect(page.locator("#count")).to_have_text("11 of 40 jobs, in 1 row")
    page.get_by_label("Group sweeps").uncheck()
    expect(rows).to_have_count(11)
    page.get_by_label("Search").fill("")
    page.get_by_role("combobox", name="Team").select_option("language")
    expect(rows).to_have_count(3)
    page.get_by_role("combobox", name="State").select_option("ended")
    expect(rows).to_have_count(1)
    assert "team=language" in page.url
    assert "state=ended" in page.url
    page.reload()
    expect(rows).to_have_count(1)
    page.get_by_label("Search").fill("nothing like it")
    expect(page.locator("#jobs")).to_contain_text("No job matches")
    page.get_by_role("button", name="Clear the filters").click()
    expect(page.locator("#count")).to_have_text(f"{LIVE} of {LIVE} live jobs")


def test_columns_sort_both_ways_and_say_so(board: Board) -> None:
    page = board().page
    cost = page.get_by_role("columnheader", name="Cost so far")
    expect(page.get_by_role("columnheader", name="Burn per hour")).to_have_attribute(
        "aria-sort", "descending"
    )
    cost.get_by_role("button").click()
    expect(cost).to_have_attribute("aria-sort", "descending")
    names = page.locator(".jobs-table tbody .job-link")
    expect(names.first).to_have_text("llm-pretrain-7b")
    cost.get_by_role("button").press("Enter")
    expect(cost).to_have_attribute("aria-sort", "ascending")
    expect(names.last).to_have_text("llm-pretrain-7b")
    page.get_by_role("columnheader", name="Job").get_by_role("button").click()
    expect(names).to_have_text(sorted(names.all_text_contents()))


def test_text_of_others_stays_text(board: Board, script: Script) -> None:
    hostile = fleet.Spec(fleet.HOSTILE, 500, "H100", 0, script.now_ms - 3_600_000)
    script.specs = [hostile, replace(hostile, job_id="x' onclick='alert(1)"), *script.specs]
    script.alerts = [
        fleet.alert(fleet.HOSTILE, 0, script.now_ms - 60_000, owner=fleet.HOSTILE, summary=fleet.HOSTILE)
    ]
    page = board().page
    row = page.locator(".jobs-table tbody tr").first
    assert row.locator(".job-link").text_content() == fleet.HOSTILE
    expect(page.locator(".alert .subject")).to_have_text(fleet.HOSTILE)
    expect(page.locator("#announcer")).to_contain_text("1 alert is firing")
    row.locator(".job-link").click()
    expect(page.locator("#job-title")).to_have_text(fleet.HOSTILE)
    expect(page.locator(".evidence")).to_contain_text(fleet.HOSTILE)
    expect(page.locator(".explain tbody tr").first).to_be_visible()
    assert page.locator("img").count() == 0
    assert page.evaluate("document.querySelectorAll('[onclick], [onerror], script:not([src])').length") == 0


def test_odd_ids_have_a_view(board: Board, script: Script) -> None:
    odd = ["a/b c?d#e%2F", "\u202edab", "日本語 🚕", "x" * 200]
    base = fleet.Spec("", 8, "H100", 0, script.now_ms - 3_600_000)
    script.specs = [replace(base, job_id=each) for each in odd]
    page = board(width=400).page
    for each in odd:
        page.locator(".job-link", has_text=each).click()
        expect(page.locator("#job-title")).to_have_text(each)
        expect(page.locator(".explain tbody tr").first).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.keyboard.press("Escape")
        expect(page.locator("#board")).to_be_visible()


MONEY = [
    ("0", "$0.00", "$0.00"),
    ("0.000000001", "$0.0000000010", "$0.000000001"),
    ("0.004200000", "$0.0042", "$0.0042"),
    ("0.005000000", "$0.01", "$0.005"),
    ("7.125000000", "$7.13", "$7.125"),
    ("1234.500000000", "$1,234.50", "$1,234.50"),
    ("99999.994999999", "$99,999.99", "$99,999.994999999"),
    ("99999.995000000", "$100,000", "$99,999.995"),
    ("123456789.123456789", "$123,456,789", "$123,456,789.123456789"),
    ("-12.500000000", "\N{MINUS SIGN}$12.50", "\N{MINUS SIGN}$12.50"),
]
"""An amount, as it is shown, and whole."""


def test_money_has_the_digits_that_matter(board: Board) -> None:
    found = board().page.evaluate(
        "async values => { const f = await import('/static/format.js'); return values.map(v => [v, f.money(v), f.exact(v)]); }",
        [value for value, *_ in MONEY],
    )
    assert found == [
        [value, shown.replace("$0.0000000010", "$0.000000001"), whole] for value, shown, whole in MONEY
    ]


def test_money_to_edit_is_no_zero_that_would_be_sent(board: Board) -> None:
    shown = board().page.evaluate(
        "async values => { const f = await import('/static/format.js'); return values.map(f.editable); }",
        ["142.768000000", "0.000000000", "0.125", "0.004200000", "0.000000001"],
    )
    assert shown == ["142.77", "0.00", "0.13", "0.0042", "0.000000001"]


def test_a_job_without_a_price_is_no_zero(board: Board) -> None:
    shown = board().page.evaluate(
        "async values => { const f = await import('/static/format.js'); return values.map(([cost, gpu, compute]) => f.jobCost(cost, {unpriced_gpu_h: gpu, unpriced_compute_h: compute})); }",
        [
            ["0.000000000", 2.5, 0],
            ["7.125000000", 2.5, None],
            ["0.000000000", 0, 0],
            ["7.125000000", None, None],
            ["0.000000000", 0, 0.5],
        ],
    )
    assert shown == ["unpriced", "≥ $7.13", "$0.00", "$7.13", "unpriced"]
