"""The first screen of a phone: controls fold into one line, so that what they choose from is on it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.page import fleet
from tests.page.accessibility import violations
from tests.page.conftest import Watched
from tests.page.server import NOW_MS, Script
from tests.page.test_layout import CONTRAST

Board = Callable[..., Watched]
WIDTH, HEIGHT = 360, 740
MINUTE_MS = 60_000


@pytest.fixture
def phone(board: Board, script: Script) -> Callable[..., Page]:
    """Open the list of alerts on a phone: three of one team that fire, and one that is over."""
    script.speed = 1
    script.alerts[:] = [
        fleet.alert(f"job-{number}", 0, NOW_MS - number * MINUTE_MS, alert_id=f"al_{number:024d}")
        for number in range(1, 4)
    ]
    over: dict[str, Any] = {"status": "resolved", "resolved_ms": NOW_MS - MINUTE_MS}
    script.alerts.append(fleet.alert("ended", 1, NOW_MS - 9 * MINUTE_MS, alert_id=f"al_{9:024d}", **over))

    def open_page(path: str, scheme: str = "light") -> Page:
        page = board(path, width=WIDTH, scheme=scheme, calm=True).page
        page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
        expect(page.locator(".alerts-table tbody tr").first).to_be_visible()
        return page

    return open_page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("query", ["", "?status=firing&owner=ada"])
def test_the_first_alert_is_on_the_first_screen(phone: Callable[..., Page], query: str, scheme: str) -> None:
    page = phone(f"/#/alerts{query}", scheme)
    box = page.locator(".alerts-table tbody tr").first.bounding_box()
    assert box is not None
    assert box["y"] < HEIGHT / 2
    assert box["y"] + box["height"] <= HEIGHT
    assert page.evaluate("document.documentElement.scrollWidth") <= WIDTH
    assert page.evaluate(CONTRAST) == []
    assert violations(page) == []


def test_filters_fold_out_by_keyboard_stay_and_say_what_is_set(phone: Callable[..., Page]) -> None:
    page = phone("/#/alerts?status=firing")
    line = page.locator(".choices > summary")
    form = page.get_by_role("search", name="Filter the alerts")
    expect(line).to_have_text("Filters (1 set): Status Firing")
    expect(form).to_be_hidden()
    line.focus()
    page.keyboard.press("Enter")
    expect(form).to_be_visible()
    form.get_by_label("Owner").select_option("ada")
    expect(line).to_have_text("Filters (2 set): Status Firing, Owner ada")
    assert "status=firing&owner=ada" in page.url
    expect(form).to_be_visible()
    form.get_by_role("button", name="Clear all filters").click()
    expect(line).to_have_text("Filters")
    assert page.url.endswith("#/alerts")
    line.click()
    expect(form).to_be_hidden()


def test_a_wide_screen_has_no_line_to_fold(phone: Callable[..., Page]) -> None:
    page = phone("/#/alerts")
    form = page.get_by_role("search", name="Filter the alerts")
    expect(form).to_be_hidden()
    page.set_viewport_size({"width": 1400, "height": 900})
    expect(form).to_be_visible()
    expect(page.locator(".choices > summary")).to_be_hidden()
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})
    expect(form).to_be_hidden()
