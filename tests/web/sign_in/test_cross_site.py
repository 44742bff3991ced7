"""Requests that a page of another site has a browser send, with the cookie of whoever has signed in: each path that is no GET refuses them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, Final

import pytest
from aiohttp import web

from streams.web import security
from streams.web.routes import OPEN, Route, Routes
from streams.web.security import COOKIE
from streams.web.sign_in import endpoint, people
from streams.web.sign_in.people import PERSON_COOKIE
from tests.web.approvals import Kept
from tests.web.serving import LOCAL, LOCAL_TOKEN, Client
from tests.web.sign_in.identity import Browser, signing_in
from tests.web.test_text_of_no_utf8 import BODIES

#: What browsers say of a request that another page, or none, has caused; and those that say nothing.
FOREIGN: Final[tuple[dict[str, str], ...]] = (
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://localhost:1"},
    {"Origin": "http://localhost.evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"},
    {"Origin": "https://evil.example", "Sec-Fetch-Site": "same-origin"},
    {},
)
#: What a form can send without a question beforehand, and what it cannot.
TYPES: Final = (
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain",
    "application/json",
)
#: These do nothing for a cookie: what they do, they do for what is in the header or the body.
_NOTHING_DONE: Final = frozenset({"/api/v1/session"})


def writing() -> list[tuple[str, str]]:
    """Every route that is no GET, from the table that the server is made of."""
    return [(route.method, route.path) for route in Routes(None).table() if route.method != "GET"]  # type: ignore[arg-type]  # only the paths are looked at


async def let_in(browser: Browser, headers: dict[str, str], types: tuple[str, ...] = TYPES) -> set[str]:
    """The paths that took such a request."""
    found = set()
    for method, path in writing():
        for kind in types:
            body = json.dumps((BODIES.get(path) or [{}])[0])
            answer = await browser.ask(path, method, data=body, headers={**headers, "Content-Type": kind})
            is_nothing = path in _NOTHING_DONE and "Set-Cookie" not in answer.headers
            if answer.status < 400 and not is_nothing:
                found.add(path)
    return found


def tried(folder: Path, work: Any) -> Kept:
    log = Kept()

    async def go() -> None:
        async with signing_in(folder, log=log) as (browser, identity, client):
            identity.groups = ["sre"]
            await browser.sign_in()
            await work(browser, client)

    asyncio.run(go())
    return log


def test_no_route_takes_what_another_page_sends(tmp_path: Path) -> None:
    async def work(browser: Browser, _: Client) -> None:
        for headers in FOREIGN:
            assert await let_in(browser, headers) == set(), headers
        assert await browser.status() == 200, "signed in all the while"

    assert tried(tmp_path, work).records == []


def test_the_own_page_is_let_in(tmp_path: Path) -> None:
    """What is refused there is refused for who asks: the same bodies are taken from the worker's own page."""

    async def work(browser: Browser, _: Client) -> None:
        own = await let_in(browser, {"Origin": browser.url}, ("application/json",))
        assert own >= {
            "/api/v1/controls",
            "/api/v1/tokens",
            "/api/v1/events",
            "/api/v1/sources",
            "/api/v1/sign_out",
        }
        assert await browser.status() == 401

    assert tried(tmp_path, work).records


def test_no_route_takes_it_with_the_cookie_of_a_token(tmp_path: Path) -> None:
    async def work(browser: Browser, client: Client) -> None:
        browser.session.cookie_jar.clear()
        assert (await browser.ask("/api/v1/session", "POST", headers=LOCAL)).status == 200
        assert {each.key for each in browser.session.cookie_jar} == {COOKIE}
        for headers in (*FOREIGN, {"Origin": browser.url}):
            assert await let_in(browser, headers) <= {"/api/v1/sign_out"}, headers
        assert client.server.url == browser.url
        assert LOCAL_TOKEN not in str([each.value for each in browser.session.cookie_jar])

    assert tried(tmp_path, work).records == []


async def _unguarded(request: web.Request) -> web.Response:
    """Acts for a cookie, whoever has the browser send it."""
    return web.json_response({"done": bool(request.cookies.get(PERSON_COOKIE))})


@pytest.mark.parametrize("hole", ["route", "sign-out", "guard"])
def test_a_planted_hole_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hole: str) -> None:
    whole = Routes.table
    if hole == "route":
        monkeypatch.setattr(
            Routes, "table", lambda self: (*whole(self), Route("PUT", "/api/v1/hole", OPEN, _unguarded))
        )
    elif hole == "sign-out":
        monkeypatch.setattr(endpoint, "is_own_page", lambda _: True)
    else:
        monkeypatch.setattr(security, "is_data", lambda _: False)
        monkeypatch.setattr(people, "is_own_page", lambda _: True)

    async def work(browser: Browser, _: Client) -> None:
        found = [await let_in(browser, headers) for headers in ({"Sec-Fetch-Site": "none"}, FOREIGN[0], {})]
        if hole == "route":
            assert found == [{"/api/v1/hole"}, set(), {"/api/v1/hole"}]
        elif hole == "sign-out":
            assert "/api/v1/sign_out" in found[0]
        else:
            assert {"/api/v1/controls", "/api/v1/tokens"} <= set().union(*found)
            assert "/api/v1/events" in found[1]  # of controls there are few a second

    tried(tmp_path, work)
