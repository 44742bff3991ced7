"""Every page over five thousand live jobs and a year of a hundred nodes: widths, schemes, accessibility, and eyes that see no colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from loadtest import board_store
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.web import assets
from tests.page.conftest import Open
from tests.page.picture import decode
from tests.page.real import serving_page
from tests.panels import year

_LIVE: Final = 5_000
#: Of each page of the navigation, what is opened; all that is on it is drawn.
PAGES: Final = {
    "": "",
    "jobs": f"jobs/{year.LONG_JOB}",
    "costs": "costs?range=30d",
    "idle": "idle?range=30d",
    "budgets": "budgets",
    "alerts": "alerts",
    "experiments": "experiments",
    "dashboards": "dashboards/executive?range=30d",
    "dashboards of on-call": "dashboards/oncall?range=24h",
    "dashboards to debug": f"dashboards/debug?range=24h&job={year.LONG_JOB}",
    "query": "query",
    "meter": "meter",
}
_QUIET_MS: Final = 1_200
#: Whether nothing was asked for in a while, and nothing is said to be on its way.
_IS_SETTLED: Final = """
(quietMs) => {
  const ends = performance.getEntriesByType("resource").map((each) => each.responseEnd);
  return performance.now() - Math.max(...ends) > quietMs && !document.querySelector("main .dimmed, [aria-busy=true]");
}
"""
#: Two swatches differ where a fifth of one's pixels does so by a quarter of what lies between black and white.
_PIXELS: Final = 0.05
_STEP: Final = 64


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


def shown(page: Page, address: str) -> None:
    """Wait until the page has drawn all that it asks for."""
    page.evaluate(
        "address => { performance.clearResourceTimings(); location.hash = `#/${address}`; }", address
    )
    page.wait_for_timeout(_QUIET_MS)  # what it asks for is asked for by then
    page.wait_for_function(_IS_SETTLED, arg=_QUIET_MS, timeout=120_000)


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
    page.wait_for_selector("#link[data-state=live]")
    wrong = {}
    for name, address in PAGES.items():
        shown(page, address)
        violations = [
            f"{each['id']}: {[node['target'] for node in each['nodes'][:3]]}"
            for each in Axe().run(page).response["violations"]
        ]
        spare = page.evaluate("innerWidth - document.documentElement.scrollWidth")
        if violations or spare < 0:
            wrong[name] = [*violations, f"{-spare} px too wide"]
    assert not wrong


@pytest.mark.parametrize("eyes", ["achromatopsia", "deuteranopia", "protanopia", "tritanopia"])
def test_series_differ_for_eyes_that_do_not_see_colours(url: str, opened: Open, eyes: str) -> None:
    page = opened(f"{url}/#/costs?range=30d&by=job", calm=True).page
    swatches = page.locator(".costs-legend .swatch")
    expect(swatches.first).to_be_visible(timeout=60_000)
    shown(page, "costs?range=30d&by=job")
    page.context.new_cdp_session(page).send("Emulation.setEmulatedVisionDeficiency", {"type": eyes})
    pictures = [decode(each.screenshot()).astype(int) for each in swatches.all()]
    assert len(pictures) >= 6
    height, width = (min(each.shape[side] for each in pictures) for side in (0, 1))
    for one, other in combinations(range(len(pictures)), 2):
        apart = np.abs(pictures[one][:height, :width] - pictures[other][:height, :width]).max(axis=2)
        assert (apart > _STEP).mean() > _PIXELS, f"{eyes}: series {one} and {other} look alike"
