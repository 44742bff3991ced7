"""An experiment of 3,400 trials, over a real store: fifty rows at a time, found, filtered and sorted; a file of its own, for a process has one store open at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from loadtest import board_store
from sinks.clickhouse import ClickHouseStore, Embedded
from tests.page.accessibility import violations
from tests.page.conftest import Open
from tests.page.keyboard import follow
from tests.page.real import serving_page
from tests.page.test_layout import CONTRAST

_TRIALS: Final = 3_400
_ADDRESS: Final = "/#/experiments/lr-0000"


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = ClickHouseStore(Embedded(data_dir=Path(tmp_path_factory.mktemp("trials"))))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(board_store, "SWEPT", 1)
            patch.setattr(board_store, "TRIALS", _TRIALS)
            board_store.fill(store, _TRIALS, minutes=2, hours=3)
        with serving_page(store, wall_ms=board_store.AS_OF_MS) as found:
            yield found
    finally:
        store.close()


def _rows(page: Page) -> list[str]:
    expect(page.locator(".listing tbody tr").first).to_be_visible()
    return page.locator(".listing tbody tr a").all_text_contents()


def test_pages_hold_fifty_rows_and_the_link_keeps_the_page(url: str, opened: Open) -> None:
    page = opened(url + _ADDRESS).page
    pager = page.get_by_role("navigation", name="Pages: Trials")
    expect(pager).to_contain_text("Rows 1 to 50 of 3,400")
    expect(page.locator(".listing .count")).to_have_text("3,400 trials")
    listed = page.request.get(f"{url}/api/v1/experiments/lr-0000").json()
    trials = [trial["job_id"] for trial in listed["trials"]]
    assert len(trials) == _TRIALS
    assert _rows(page) == trials[:50]
    pager.get_by_role("link", name="Next").click()
    expect(pager).to_contain_text("Rows 51 to 100 of 3,400")
    assert _rows(page) == trials[50:100]
    assert page.url.endswith("lr-0000?page=2")
    page.reload()
    expect(pager).to_contain_text("Rows 51 to 100 of 3,400")
    page.go_back()
    expect(pager).to_contain_text("Rows 1 to 50 of 3,400")
    # There is no page beyond the last one.
    page.goto(f"{url}{_ADDRESS}?page=999")
    expect(pager).to_contain_text("Rows 3,351 to 3,400 of 3,400")
    expect(pager.get_by_role("link", name="Next")).to_be_hidden()


def test_any_trial_is_found_and_filters_and_order_stand_in_the_address(url: str, opened: Open) -> None:
    page = opened(url + _ADDRESS).page
    _rows(page)
    search, count = page.get_by_role("searchbox"), page.locator(".listing .count")
    search.fill("TRIAL-2718 user")
    expect(count).to_have_text("1 of 3,400 trials")
    assert _rows(page) == ["sweep-0000/trial-2718"]
    # What is typed is not lost to a choice that is made at once after it.
    search.fill("trial-33")
    page.get_by_label("Show").select_option("behind")
    expect(count).to_have_text(re.compile(r"^\d+ of 3,400 trials$"))
    assert page.url.endswith("?q=trial-33&show=behind")
    search.fill("no such trial")
    expect(page.get_by_text("No trial is like that.")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(count).to_have_text("3,400 trials")
    head = page.get_by_role("columnheader", name="Trial")
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "ascending")
    assert _rows(page)[0] == "sweep-0000/trial-000"
    head.get_by_role("button").click()
    expect(head).to_have_attribute("aria-sort", "descending")
    assert _rows(page)[0] == "sweep-0000/trial-999"
    assert page.url.endswith("?sort=trial&dir=desc")


def test_the_trials_to_stop_are_ten_and_then_a_table(url: str, opened: Open) -> None:
    page = opened(url + _ADDRESS).page
    stops = page.get_by_role("region", name="Stop these")
    expect(stops.locator("li")).to_have_count(10)
    stops.get_by_role("link", name=re.compile("^All .* in the table below$")).click()
    behind = re.search(r"these ([\d,]+) trials", stops.inner_text())
    assert behind is not None
    expect(page.locator(".listing .count")).to_have_text(f"{behind[1]} of 3,400 trials")


def test_rows_and_pages_are_gone_through_by_keys(url: str, opened: Open) -> None:
    page = opened(url + _ADDRESS).page
    rows = _rows(page)
    follow(page, page.get_by_role("navigation", name="Pages: Trials").get_by_role("link", name="Next"))
    expect(page.get_by_text("Rows 51 to 100 of 3,400")).to_be_visible()
    links = page.locator(".listing tbody tr a")
    links.first.focus()
    page.keyboard.press("ArrowDown")
    expect(links.nth(1)).to_be_focused()
    page.keyboard.press("ArrowUp")
    page.keyboard.press("ArrowUp")
    expect(page.get_by_text("Rows 1 to 50 of 3,400")).to_be_visible()
    expect(links.last).to_be_focused()
    expect(links.last).to_have_text(rows[-1])
    page.keyboard.press("ArrowDown")
    expect(links.first).to_be_focused()
    expect(page.get_by_text("Rows 51 to 100 of 3,400")).to_be_visible()
    page.keyboard.press("/")
    expect(page.get_by_role("searchbox")).to_be_focused()


@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1440, "light")])
def test_nothing_overflows_and_every_text_can_be_read(
    url: str, opened: Open, width: int, scheme: str
) -> None:
    page = opened(f"{url}{_ADDRESS}?page=3&sort=quality", width=width, scheme=scheme, calm=True).page
    _rows(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    assert violations(page) == []
