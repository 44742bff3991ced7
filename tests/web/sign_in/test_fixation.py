"""What a browser brings to a sign-in is no session after it, and what it had before is none any more."""

from __future__ import annotations

import asyncio
from http.cookies import Morsel
from pathlib import Path
from typing import Any

import aiohttp
from yarl import URL

from streams.web.sign_in.people import PERSON_COOKIE
from tests.web.sign_in.identity import READ, Browser, signing_in

SET_BEFORE = "x" * 43


def cookie_of(browser: Browser) -> str:
    found: list[Morsel[str]] = [each for each in browser.session.cookie_jar if each.key == PERSON_COOKIE]
    assert len(found) <= 1
    return found[0].value if found else ""


async def status_with(browser: Browser, cookie: str) -> int:
    """What somebody else with this cookie is answered."""
    other = Browser.__new__(Browser)
    other.url = browser.url
    async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as other.session:
        return (await other.ask(READ, headers={"Cookie": f"{PERSON_COOKIE}={cookie}"})).status


def test_a_session_that_was_set_before_a_sign_in_is_none_after_it(tmp_path: Path) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, _, _):
            browser.session.cookie_jar.update_cookies({PERSON_COOKIE: SET_BEFORE}, URL(browser.url))
            assert await browser.status() == 401
            assert await browser.sign_in() == "/"
            assert cookie_of(browser) not in ("", SET_BEFORE)
            assert await browser.status() == 200
            assert await status_with(browser, SET_BEFORE) == 401

    asyncio.run(go())


def test_a_session_ends_where_its_browser_signs_in_again(tmp_path: Path) -> None:
    """As somebody else, or with other groups: whoever has the former cookie is out, and another browser of the person is not."""

    async def go(change: Any) -> None:
        async with signing_in(tmp_path) as (browser, identity, client):
            other = Browser(client, identity)
            async with other.session:
                await browser.sign_in()
                await other.sign_in()
                first = cookie_of(browser)
                change(identity)
                assert await browser.sign_in() == "/"
                assert first != cookie_of(browser)
                assert await status_with(browser, first) == 401
                assert (await browser.status(), await other.status()) == (200, 200)

    asyncio.run(go(lambda identity: setattr(identity, "groups", ["sre"])))
    asyncio.run(go(lambda identity: setattr(identity, "claims", {"sub": "bob-1"})))


def test_a_refused_sign_in_ends_no_session(tmp_path: Path) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, identity, _):
            await browser.sign_in()
            identity.groups = ["none-of-these"]
            assert await browser.sign_in() == "/#sign-in-no_role"
            assert await browser.status() == 200

    asyncio.run(go())


def test_a_session_that_is_signed_out_of_stays_ended(tmp_path: Path) -> None:
    async def go() -> None:
        async with signing_in(tmp_path) as (browser, _, _):
            await browser.sign_in()
            former = cookie_of(browser)
            assert await browser.sign_out() == 200
            assert cookie_of(browser) == ""
            await browser.sign_in()
            assert cookie_of(browser) != former
            assert await status_with(browser, former) == 401

    asyncio.run(go())
