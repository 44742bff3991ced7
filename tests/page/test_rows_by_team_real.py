"""The page of who is bound to a team, over the worker's own server and a store with a marker in all that is another team's."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.web.marked_store import MARKER, NUMBER, OWN, OWN_ALERT, OWN_JOB, fill
from tests.web.test_rows_by_team import RECORD, TOKEN

ASKING = re.compile("asking the|asking\u2026|loading", re.IGNORECASE)
PAGES = ("costs", "finance", "budgets", "alerts", "experiments", "dashboards", "query")
PLACES = (*PAGES, f"job/{OWN_JOB}", f"alerts/{OWN_ALERT}", "idle", "meter")


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A page of two teams."""
    store = ClickHouseStore(Embedded(data_dir=tmp_path_factory.mktemp("marked") / "meter"))
    try:
        fill(store)
        with serving_page(store, filed=RECORD) as found:
            yield found
    finally:
        store.close()


def test_it_shows_the_own_team_and_says_what_is_for_others(url: str, opened: Open, tmp_path: Path) -> None:
    watched = opened(f"{url}/#token={TOKEN}")
    # Of contracts it is told that they are not its to see; the own job has no receipt.
    watched.provoked = ("403", "404")
    page = watched.page
    expect(page.locator("#partial")).to_have_text(f"only team {OWN}", timeout=60_000)
    pages = page.get_by_role("navigation", name="Pages")
    expect(pages.get_by_role("link", name="Finance")).to_be_visible()
    for name in ("Idle", "Meter"):
        expect(pages.get_by_role("link", name=name)).to_be_hidden()
    for place in PLACES:
        # The last one that it asks for.
        asked = {
            "finance": "commitments",
            "costs": "costs?",
            "dashboards": "dashboards/",
            "query": "tables",
        }.get(place, "")
        with page.expect_response(re.compile(re.escape(asked)), timeout=60_000):
            page.goto(f"{url}/#/{place}")
        page.wait_for_load_state("networkidle")
        expect(page.locator("main")).not_to_contain_text(ASKING, timeout=60_000)
        shown = page.content()
        assert MARKER not in shown, place
        assert str(NUMBER) not in shown, place
        page.screenshot(path=tmp_path / f"{place.replace('/', '-')}.png", full_page=True)
        if place == "finance":
            expect(page.get_by_role("heading", name="Commitments")).to_be_hidden()
            expect(page.locator(".finance")).to_contain_text(f"All of team {OWN}")
            expect(page.locator(".finance")).to_contain_text(
                "Idle nodes are of all teams, and not yours to see."
            )
        if place in ("idle", "meter"):
            expect(page.locator("#page [role=status]")).to_contain_text(
                f"and you see team {OWN} alone. Somebody who sees all teams can look."
            )
    page.goto(f"{url}/#/costs")
    expect(page.get_by_role("button", name="Download CSV")).to_be_visible(timeout=60_000)


def test_top_shows_the_own_team(url: str) -> None:
    done = trainfare("top", "--url", url, env={"TRAINFARE_WEB_TOKEN": TOKEN})
    assert done.code == 0, done.err
    assert f"of team {OWN} alone" in done.out
    assert OWN_JOB in done.out
    for form in ("table", "json", "csv"):
        done = trainfare("top", "--url", url, "--format", form, env={"TRAINFARE_WEB_TOKEN": TOKEN})
        assert MARKER not in done.out + done.err
        assert str(NUMBER) not in done.out + done.err
