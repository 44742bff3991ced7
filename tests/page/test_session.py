"""The page's session in a browser, over the worker's own server: where the token is, what the cookie is, and how it ends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import BrowserContext, expect

from streams.web.scopes import session_of
from streams.web.security import COOKIE
from tests.page.conftest import Open
from tests.page.real import serving_page
from tests.web.serving import TOKEN, WALL_MS

FIGURES = "unlock"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving_page(None, token=TOKEN) as found:
        yield found


@pytest.mark.parametrize("way", ["#token=", "?token="])
def test_a_link_lets_in_and_its_token_leaves_the_address_bar(
    way: str, url: str, opened: Open, context: BrowserContext
) -> None:
    watched = opened(f"{url}/{way}{TOKEN}")
    watched.provoked = ("503",)  # there is no store
    page = watched.page
    expect(page.locator(f"#{FIGURES}")).to_be_hidden()
    page.wait_for_function("document.querySelector('#link').dataset.state !== 'live'")
    page.wait_for_url(f"{url}/")
    assert TOKEN not in page.url
    assert TOKEN not in page.evaluate(
        "JSON.stringify([localStorage, sessionStorage, document.cookie, history.state])"
    )
    sent = [each for each in watched.requests if TOKEN in each and "#" not in each]
    assert bool(sent) == (way == "?token="), "behind # it is in no request"
    (cookie,) = (each for each in context.cookies() if each["name"] == COOKIE)
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["secure"]) == (True, "Strict", False)
    assert 11 * 3_600 < cookie["expires"] - page.evaluate("Date.now() / 1000") <= 12 * 3_600
    page.reload()
    expect(page.locator(f"#{FIGURES}")).to_be_hidden()


def test_a_session_that_has_ended_is_asked_for_its_token_again(
    url: str, opened: Open, context: BrowserContext
) -> None:
    ended = session_of(TOKEN, WALL_MS - 1).cookie
    context.add_cookies([{"name": COOKIE, "value": ended, "url": url}])
    watched = opened(url)
    watched.provoked = ("401", "503")
    page = watched.page
    expect(page.locator(f"#{FIGURES}")).to_be_visible()
    page.get_by_label("token").fill(TOKEN)
    page.get_by_role("button", name="Show the figures").click()
    expect(page.locator(f"#{FIGURES}")).to_be_hidden()
    assert TOKEN not in page.url


@pytest.mark.parametrize("way", ["#token=", "?token="])
def test_a_link_with_a_wrong_token_is_an_error_on_the_page(way: str, url: str, opened: Open) -> None:
    watched = opened(f"{url}/{way}a-wrong-token-of-sixteen")
    watched.provoked = ("401", "503")
    page = watched.page
    expect(page.locator(f"#{FIGURES}").get_by_role("alert")).to_contain_text("The token in the link")
    page.wait_for_url(f"{url}/")
    assert "wrong" not in page.evaluate("JSON.stringify([location.href, history.state])")
    page.get_by_label("token").fill(TOKEN)
    page.get_by_role("button", name="Show the figures").click()
    expect(page.locator(f"#{FIGURES}")).to_be_hidden()
