"""Sessions of the page: they end on the worker's side too, may only read, and their cookie is Secure where the browser speaks TLS."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from http.cookies import Morsel, SimpleCookie
from typing import Any

import aiohttp
import pytest

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.config.live import WebSettings
from streams.web.scopes import Scope, Tokens, session_of
from streams.web.security import COOKIE, RequestGuard
from streams.web.token_records import token_record
from tests.web.approvals import bearer as given
from tests.web.approvals import issued
from tests.web.serving import TOKEN, WALL_MS, Client, served
from tests.web.test_scopes import bearer

HOUR_MS = 3_600_000
READ = "/api/v1/jobs"


def begun(headers: dict[str, str] | None = None, **settings: Any) -> Morsel[str]:
    """The cookie of a session that was begun by the page."""
    headers = {**bearer(TOKEN), **(headers or {})}

    async def work(client: Client) -> Morsel[str]:
        async with client.session.post(f"{client.server.url}/api/v1/session", headers=headers) as answer:
            assert (answer.status, answer.headers["Cache-Control"]) == (200, "no-store")
            return SimpleCookie(answer.headers["Set-Cookie"])[COOKIE]

    return served(None, work, token=TOKEN, **settings)


def status_with(cookie: str, wall_ms: int, path: str = READ, method: str = "GET", **settings: object) -> int:
    """What another worker, with the same token, answers at an instant: 503 has no store, but lets in."""

    async def work(client: Client) -> int:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
            headers = {"Cookie": f"{COOKIE}={cookie}"}
            async with bare.request(method, client.server.url + path, headers=headers) as answer:
                return answer.status

    return served(None, work, wall_ms=wall_ms, **{"token": TOKEN, **settings})


def test_a_session_ends_on_every_worker() -> None:
    cookie = begun()
    assert int(cookie["max-age"]) * 1_000 == WebSettings().session_ms == 12 * HOUR_MS
    assert (cookie["httponly"], cookie["samesite"], cookie["path"], cookie["secure"]) == (
        True,
        "Strict",
        "/",
        "",
    )
    assert TOKEN not in cookie.value
    for after_ms, expected in ((0, 503), (12 * HOUR_MS - 1, 503), (12 * HOUR_MS, 401), (10**12, 401)):
        assert status_with(cookie.value, WALL_MS + after_ms) == expected


def test_nobody_can_prolong_one() -> None:
    value = begun().value
    until_s, _, mac = value.partition(".")
    for forged in (
        f"{int(until_s) + 1}.{mac}",
        f"0{until_s}.{mac[:-1]}x",
        f"{until_s}.{'0' * 64}",
        mac,
        until_s,
        f"-1.{mac}",
        "",
    ):
        assert status_with(forged, WALL_MS) == 401
    assert status_with(value, WALL_MS, token="another-token-of-sixteen") == 401


def test_a_shorter_setting_ends_those_that_go_on_for_longer() -> None:
    value = begun().value
    assert status_with(value, WALL_MS, session_ms=HOUR_MS) == 401
    assert int(begun(session_ms=HOUR_MS)["max-age"]) == 3_600


def test_it_may_only_read() -> None:
    value = begun().value
    for method, path in (("POST", "/api/v1/query"), ("POST", "/api/v1/controls"), ("GET", "/metrics")):
        assert status_with(value, WALL_MS, path, method) == 403


def test_one_that_has_ended_or_is_of_an_earlier_version_is_no_guess() -> None:
    guard = RequestGuard(WebSettings.model_validate({"token": TOKEN}), None, lambda: 0, lambda: WALL_MS)
    for value in (session_of(TOKEN, WALL_MS).cookie, "0" * 64):
        caller, is_wrong = guard._shown("a", {}, partial(dict, {COOKIE: value}), is_open=False)
        assert (caller.token, is_wrong) == ("", False)
    _, is_wrong = guard._shown("a", {}, lambda: {COOKIE: f"9999999999.{'0' * 64}"}, is_open=False)
    assert is_wrong
    found = Tokens(WebSettings.model_validate({"token": TOKEN}), None).of_session(
        session_of(TOKEN, WALL_MS + HOUR_MS).cookie, "a"
    )
    assert found is not None
    assert (found.until_ms, guard.left_ms(found), found.scopes) == (
        WALL_MS + HOUR_MS,
        HOUR_MS,
        frozenset({Scope.READ}),
    )


@pytest.mark.parametrize("token", ["a-wrong-token-of-sixteen", ""])
def test_a_wrong_token_begins_none(token: str) -> None:
    async def work(client: Client) -> None:
        headers = bearer(token) if token else {}
        async with client.session.post(f"{client.server.url}/api/v1/session", headers=headers) as answer:
            assert (answer.status, "Set-Cookie" in answer.headers) == (401, False)

    served(None, work, token=TOKEN)


@pytest.mark.parametrize(
    ("settings", "headers", "secure"),
    [
        ({}, {}, False),
        ({}, {"X-Forwarded-Proto": "https"}, False),
        ({"trusted_proxies": "10.0.0.0/8, ::2"}, {"X-Forwarded-Proto": "https"}, False),
        ({"trusted_proxies": "10.0.0.7,127.0.0.1"}, {"X-Forwarded-Proto": "https"}, True),
        ({"trusted_proxies": "127.0.0.0/8"}, {"X-Forwarded-Proto": "http, HTTPS"}, True),
        ({"trusted_proxies": "127.0.0.0/8"}, {"X-Forwarded-Proto": "https, http"}, False),
        ({"trusted_proxies": "127.0.0.0/8"}, {}, False),
        ({"public_url": "https://localhost", "bind": "127.0.0.1"}, {"Host": "localhost"}, True),
        ({"public_url": "https://localhost"}, {"Host": "127.0.0.1"}, False),
        ({"public_url": "http://localhost"}, {"Host": "localhost"}, False),
    ],
)
def test_the_cookie_is_secure_behind_tls(
    settings: dict[str, str], headers: dict[str, str], secure: bool
) -> None:
    assert bool(begun(**settings, headers=headers)["secure"]) == secure


def test_proxies_are_addresses() -> None:
    with pytest.raises(ValueError, match="expected addresses or networks"):
        WebSettings.model_validate({"trusted_proxies": "proxy.example.com"})


def test_a_stream_ends_with_its_session() -> None:
    """It is cut while somebody looks; the page asks again, and is refused."""
    cookie = session_of(TOKEN, WALL_MS + 2_000).cookie

    async def work(client: Client) -> None:
        headers = {"Cookie": f"{COOKIE}={cookie}"}
        async with (
            aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare,
            bare.get(f"{client.server.url}/api/v1/stream", headers=headers) as answer,
        ):
            assert answer.status == 200
            with suppress(aiohttp.ClientPayloadError):  # cut in the middle
                while await answer.content.readline():
                    pass

    served(None, work, token=TOKEN)


@pytest.mark.parametrize("how", ["revoked", "rotated", "expired"])
@pytest.mark.parametrize("by_cookie", [False, True])
def test_a_stream_ends_with_its_issued_token(how: str, by_cookie: bool) -> None:
    records, now = {**issued("ada", ("read",), expires_ms=WALL_MS + HOUR_MS)}, [WALL_MS]

    async def work(client: Client) -> None:
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
            headers = given("ada")
            if by_cookie:
                async with bare.post(f"{client.server.url}/api/v1/session", headers=headers) as begun:
                    headers = {
                        "Cookie": f"{COOKIE}={SimpleCookie(begun.headers['Set-Cookie'])[COOKIE].value}"
                    }
            async with bare.get(f"{client.server.url}/api/v1/stream", headers=headers) as answer:
                assert answer.status == 200
                await answer.content.readline()
                if how == "expired":
                    now[0] += HOUR_MS
                else:
                    changed = {
                        "name": "ada",
                        **({"revoked": True} if how == "revoked" else {"rotate": True, "hash": "0" * 64}),
                    }
                    record = token_record(changed, records, "test", WALL_MS)
                    event = decode("controls", record.value, (), WALL_MS)
                    assert isinstance(event, ControlEvent)
                    records[record.key] = event
                with suppress(aiohttp.ClientPayloadError):
                    while await answer.content.readline():
                        pass
            async with bare.get(client.server.url + READ, headers=headers) as answer:
                assert answer.status == 401

    served(None, work, token=TOKEN, issued=records, clock=lambda: now[0])
