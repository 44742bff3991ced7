"""What a page asks for when it is opened, and in which order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Route, expect

from tests.page.conftest import Open
from tests.page.real import serving_data
from tests.web import log

_SENT = """() => performance.getEntriesByType("resource").map((each) => [new URL(each.name).pathname, each.transferSize])"""

_WITHIN_MS = 60_000
#: However slow the machine is, the live figures wait for the page.
_NEVER = """const real = setTimeout; globalThis.setTimeout = (work, ms, ...more) => real(work, ms === 2000 ? 3_600_000 : ms, ...more);"""


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A small replay, served in a thread of its own."""
    with serving_data(log.replayed(tmp_path_factory.mktemp("opening")), wall_ms=log.AS_OF_MS) as found:
        yield found


def test_the_chart_of_costs_comes_before_the_live_figures(url: str, opened: Open) -> None:
    watched = opened("about:blank")
    watched.page.add_init_script(_NEVER)
    watched.page.goto(f"{url}/#/costs")
    expect(watched.page.locator("#link")).not_to_have_attribute("data-state", "waiting", timeout=_WITHIN_MS)
    asked = [
        each.partition("/api/v1/")[2].partition("?")[0] for each in watched.requests if "/api/v1/" in each
    ]
    assert asked.index("clock") < asked.index("costs") < asked.index("stream")
    assert "budgets" not in asked, "those are the board's"
    watched.page.get_by_role("link", name="Live").click()
    watched.page.wait_for_function(
        "() => performance.getEntriesByType('resource').some((each) => each.name.endsWith('/budgets'))",
        timeout=_WITHIN_MS,
    )


def test_the_live_figures_come_though_the_store_does_not_answer_the_page(url: str, opened: Open) -> None:
    watched = opened("about:blank")
    held: list[Route] = []
    watched.page.route("**/api/v1/costs/span", lambda route: held.append(route))
    watched.page.goto(f"{url}/#/costs")
    expect(watched.page.locator("#link")).not_to_have_attribute("data-state", "waiting", timeout=_WITHIN_MS)
    assert len(held) == 1
    held.pop().fulfill(json={"first_hour": None, "end_hour": None, "as_of": None, "billed_until": None})
    expect(watched.page.get_by_text("Nothing has cost anything yet")).to_be_visible(timeout=_WITHIN_MS)


def test_a_page_asks_at_once_for_its_own_modules(url: str, opened: Open) -> None:
    page = opened(f"{url}/#/idle").page
    page.locator("#link[data-state=live], #link[data-state=rest]").wait_for(timeout=_WITHIN_MS)
    asked = page.evaluate(
        """() => [...document.querySelectorAll("link[data-pages][rel=modulepreload]")].map((each) => each.dataset.pages)"""
    )
    assert asked
    assert all("idle" in pages.split() for pages in asked)
    paths = [path for path, *_ in page.evaluate(_SENT)]
    assert any(path.endswith("/pages/idle.js") for path in paths)
    assert not any(path.endswith("/pages/costs.js") for path in paths)


def test_a_page_that_was_open_before_asks_for_no_file_again(url: str, opened: Open) -> None:
    opened(f"{url}/#/costs").page.locator(".costs-chart").wait_for(timeout=_WITHIN_MS)
    page = opened(f"{url}/#/costs").page
    page.locator(".costs-chart").wait_for(timeout=_WITHIN_MS)
    files = [(path, size) for path, size in page.evaluate(_SENT) if path.startswith("/static/")]
    assert len(files) > 4
    assert [path for path, size in files if size] == []


@pytest.mark.parametrize(
    ("address", "early"),
    [
        ("costs", ["clock", "costs/span"]),
        ("idle?range=24h", ["clock"]),
        ("dashboards/executive?range=24h", ["dashboards/executive?range=24h", "clock", "dashboards"]),
        ("dashboards/debug?job=a&range=1h", ["dashboards/debug?range=1h&job=a", "clock", "dashboards"]),
        ("dashboards/debug", ["clock", "dashboards"]),
        ("budgets", []),
    ],
)
def test_what_is_asked_for_before_the_modules_is_what_the_page_shows(
    url: str, opened: Open, address: str, early: list[str]
) -> None:
    watched = opened(f"{url}/#/{address}")
    watched.page.locator("#link[data-state=live], #link[data-state=rest]").wait_for(timeout=_WITHIN_MS)
    expect(watched.page.locator("#page h1")).to_be_visible(timeout=_WITHIN_MS)
    asked = [each.partition("/api/v1/")[2] for each in watched.requests if "/api/v1/" in each]
    assert asked[: len(early)] == early
    assert [each for each in early if asked.count(each) != 1] == []
    assert not [each for each in asked if each.startswith("panels/")]


def test_an_answer_for_a_page_that_was_left_is_not_taken(url: str, opened: Open) -> None:
    watched = opened("about:blank")
    page = watched.page
    held: list[Route] = []
    page.route("**/pages/dashboards.js", lambda route: held.append(route))
    page.goto(f"{url}/#/dashboards/executive?range=24h")
    page.wait_for_function("() => globalThis.earlyAnswers?.size > 0 && document.querySelector('#pages a')")
    page.evaluate("location.hash = '#/budgets'")
    expect(page.locator("#page h1")).to_have_text("Budgets", timeout=_WITHIN_MS)
    assert page.evaluate("globalThis.earlyAnswers.size") == 0
    page.evaluate("location.hash = '#/dashboards/executive?range=24h'")
    for route in held:
        route.continue_()
    page.unroute_all(behavior="ignoreErrors")
    expect(page.locator("#page .panel canvas").first).to_be_visible(timeout=_WITHIN_MS)
    asked = [each for each in watched.requests if "/dashboards/executive?" in each]
    assert len(asked) >= 2, "the first one was for a page that was left"
