"""Every page over five thousand live jobs and a year of a hundred nodes: widths, schemes, accessibility, and eyes that see no colour."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from playwright.sync_api import expect

from loadtest import board_store
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.web import assets
from tests.page.accessibility import violations
from tests.page.asked import Asked
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
#: What controls take of the first screen of a phone of 360 x 740, in px; a form is counted once.
CONTROLS: Final = """
() => {
  scrollTo(0, 0);
  const kinds = ".choices, .costs-controls, .controls, .filters, .query-form";
  return [...document.querySelectorAll(kinds)]
    .filter(each => each.checkVisibility() && !each.parentElement.closest(kinds))
    .map(each => each.getBoundingClientRect())
    .reduce((sum, box) => sum + Math.max(0, Math.min(box.bottom, 740) - box.top), 0);
}
"""
_PHONE_PX: Final = 360
_HALF_A_PHONE_PX: Final = 370
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


def test_no_page_is_left_out() -> None:
    script = assets.load()["pages.js"].body.decode()
    named = set(re.findall(r'^  (\w+): \{ title: "', script, re.MULTILINE))
    assert len(named) >= 8
    assert named <= {name.partition(" ")[0] for name in PAGES}


@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("scheme", ["dark", "light"])
@pytest.mark.parametrize("width", [_PHONE_PX, 768, 1440, 2560])
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
        if width == _PHONE_PX and (taken := page.evaluate(CONTROLS)) > _HALF_A_PHONE_PX:
            found.append(f"controls take {taken:.0f} px of the first screen")
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
