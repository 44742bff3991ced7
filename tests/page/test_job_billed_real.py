"""A job's page over the worker's own server: what bills put on it, beside what was metered, and why the two differ."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.bills.bill import written
from tests.bills.test_variance import events, usage
from tests.cli.command import trainfare
from tests.page.conftest import Open
from tests.page.real import serving_data
from tests.page.test_layout import CONTRAST


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page of two jobs on one node, of which a bill has a part."""
    root = tmp_path_factory.mktemp("billed")
    data = root / "meter"
    assert trainfare("replay", events(root / "events.jsonl", "3", 2), "--data", data).code == 0
    lines = [usage("54", "60"), usage("-4", ChargeCategory="Credit")]
    assert trainfare("bills", "load", written(root / "may.csv", *lines), "--data", data).code == 0
    with serving_data(data) as found:
        yield found


@pytest.mark.parametrize("width", [360, 1440])
def test_a_job_shows_what_it_was_billed(url: str, opened: Open, width: int, tmp_path: Path) -> None:
    page = opened(f"{url}/#/job/j0", width=width).page
    card = page.locator("section[aria-labelledby=billed-title]")
    expect(card).to_contain_text("Reconciled: bills cover all that a provider charges for.", timeout=60_000)
    cells = card.locator("tbody tr").first.locator("td, th")
    expect(cells).to_have_text(
        ["2026-05", "$30.00", "$25.00", "$25.00", "\u2212$5.00", "discount \u2212$3.00, credit \u2212$2.00"]
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(CONTRAST) == []
    card.screenshot(path=tmp_path / f"billed-{width}.png")
