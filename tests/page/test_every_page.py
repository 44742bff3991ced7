"""Every page over five thousand live jobs and a year of a hundred nodes: widths, schemes, accessibility, and eyes that see no colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from playwright.sync_api import Page, Request, expect

from loadtest import board_store
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.web import assets
from tests.page.accessibility import violations
from tests.page.conftest import Open
from tests.page.picture import decode
from tests.page.real import serving_page
from tests.panels import year

_LIVE: Final = 5_000
#: Of each page of the navigation, what is opened; all that is on it is drawn.
PAGES: Final = {
    "": "",
    "job": f"job/{year.LONG_JOB}",
    "costs": "costs?range=30d",
    "finance": "finance?range=30d&per=week",
    "idle": "idle?range=30d",
    "budgets": "budgets",
    "alerts": "alerts",
    "experiments": "experiments",
    "experiment": "experiments/lr-0001",
    "dashboards": "dashboards/executive?range=30d",
    "dashboards of on-call": "dashboards/oncall?range=24h",
    "dashboards to debug": f"dashboards/debug?range=24h&job={year.LONG_JOB}",
    "query": "query",
    "changes": "changes",
    "meter": "meter",
}
#: Nothing was asked for in so long, and nothing is waited for: the page has all that it asks for.
_QUIET_MS: Final = 1_200
_STEP_MS: Final = 200
_WITHIN_MS: Final = 240_000
#: Two swatches differ where a fifth of one's pixels does so by a quarter of what lies between black and white.
_PIXELS: Final = 0.05
_LEVELS: Final = 64


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    store = ClickHouseStore(Embedded(data_dir=Path(tmp_path_factory.mktemp("pages"))))
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(board_store, "AS_OF_MS", year.END_S * 1_000)
            year.load(store)
            board_store.fill(store, _LIVE)
        with serving_page(store, wall_ms=year.END_S * 1_000) as found:
            yield found
    finally:
        store.close()


class Asked:
    """The requests of a page that have no answer yet, but for the stream, which never ends."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._open: set[Request] = set()
        page.on("request", self._add)
        page.on("requestfinished", lambda request: self._open.discard(request))
        page.on("requestfailed", lambda request: self._open.discard(request))

    def _add(self, request: Request) -> None:
        if "/api/v1/stream" not in request.url:
            self._open.add(request)

    def show(self, address: str) -> None:
        """Open a page, and wait until it has drawn all that it asks for."""
        self._page.evaluate("address => { location.hash = `#/${address}`; }", address)
        quiet_ms = 0
        for _ in range(_WITHIN_MS // _STEP_MS):
            self._page.wait_for_timeout(_STEP_MS)
            quiet_ms = 0 if self._open else quiet_ms + _STEP_MS
            if quiet_ms >= _QUIET_MS:
                return
        pytest.fail(
            f"{address}: no answer within {_WITHIN_MS / 1_000:.0f} s of {[each.url for each in self._open]}"
        )


def test_no_page_is_left_out() -> None:
    script = assets.load()["pages.js"].body.decode()
    named = set(re.findall(r'^  (\w+): \{ title: "', script, re.MULTILINE))
    assert len(named) >= 8
    assert named <= {name.partition(" ")[0] for name in PAGES}


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [360, 768, 1440, 2560])
def test_nothing_overflows_and_axe_finds_nothing(url: str, opened: Open, width: int, scheme: str) -> None:
    page = opened(url, width=width, scheme=scheme, calm=True).page
    asked, wrong = Asked(page), {}
    page.wait_for_selector("#link[data-state=live]")
    for name, address in PAGES.items():
        asked.show(address)
        found = violations(page)
        spare = page.evaluate("innerWidth - document.documentElement.scrollWidth")
        if page.locator("#board").is_visible() != (name == ""):
            found.append("another page than its address names")
        if found or spare < 0:
            wrong[name] = [*found, f"{-spare} px too wide"]
    assert not wrong


@pytest.mark.parametrize("eyes", ["achromatopsia", "deuteranopia", "protanopia", "tritanopia"])
def test_series_differ_for_eyes_that_do_not_see_colours(url: str, opened: Open, eyes: str) -> None:
    page = opened(url, calm=True).page
    Asked(page).show("costs?range=30d&by=job")
    swatches = page.locator(".costs-legend .swatch")
    expect(swatches.first).to_be_visible()
    page.context.new_cdp_session(page).send("Emulation.setEmulatedVisionDeficiency", {"type": eyes})
    pictures = [decode(each.screenshot()).astype(int) for each in swatches.all()]
    assert len(pictures) >= 6
    height, width = (min(each.shape[side] for each in pictures) for side in (0, 1))
    for one, other in combinations(range(len(pictures)), 2):
        apart = np.abs(pictures[one][:height, :width] - pictures[other][:height, :width]).max(axis=2)
        assert (apart > _LEVELS).mean() > _PIXELS, f"{eyes}: series {one} and {other} look alike"
