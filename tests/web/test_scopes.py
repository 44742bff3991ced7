"""Tokens and what each may do: every path by its scope, over HTTP, and guesses that are slowed without shutting anybody out."""

from __future__ import annotations

import logging
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from streams.config.live import WebSettings
from streams.web.middleware import add_headers, middleware
from streams.web.routes import ANY, CONTROLS, OPEN, Route, Routes
from streams.web.scopes import ALL, Scope, Tokens, session_of
from streams.web.security import COOKIE, RequestGuard, is_data
from tests.logged import logged
from tests.web.serving import LOCAL_TOKEN, TOKEN, Client, run, served

#: Those of the settings; of the others `trainfare tokens` issues some.
SETTINGS = (Scope.METRICS, Scope.READ, Scope.QUERY)
ONE_EACH = {f"{name}_token": f"for-{name}-and-nothing-else" for name in (*SETTINGS, "write")}
#: A path of each scope, and what it answers to whoever has the scope while there is no store.
PATHS = {
    Scope.METRICS: ("GET", "/metrics", 200),
    Scope.READ: ("GET", "/api/v1/jobs", 503),
    Scope.QUERY: ("POST", "/api/v1/query", 503),
}
ONE = {"sql": "SELECT 1"}


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


async def asked(client: Client, scope: Scope, headers: dict[str, str]) -> tuple[int, Any]:
    method, path, _ = PATHS[scope]
    body = ONE if method == "POST" else None
    url = client.server.url + path
    async with client.session.request(method, url, headers=headers, json=body) as answer:
        return answer.status, await answer.json() if answer.content_type == "application/json" else {}


# -- which path needs what -----------------------------------------------------------------------------------


def table() -> tuple[Route, ...]:
    return Routes(None).table()  # type: ignore[arg-type]  # nothing is answered here


def test_what_is_not_for_readers_is_listed_here() -> None:
    """Whoever adds a path that is open, or that does more than read, says so in this list, too."""
    others = {route.path: route.scope for route in table() if route.scope is not Scope.READ}
    assert others == {
        "/healthz": OPEN,
        "/readyz": OPEN,
        "/": OPEN,
        "/act": OPEN,
        "/api/v1/act": OPEN,
        "/api/v1/sign_in": OPEN,
        "/api/v1/sign_out": OPEN,
        "/sign_in": OPEN,
        "/sign_in/callback": OPEN,
        "/static/{path:.+}": OPEN,
        "/metrics": Scope.METRICS,
        "/api/v1/query": Scope.QUERY,
        "/api/v1/controls": CONTROLS,
        "/api/v1/receivers/test": Scope.LIMIT,
        "/api/v1/prices": Scope.LIMIT,
        "/api/v1/changes": Scope.ADMIN,
        "/api/v1/events": Scope.INGEST,
        "/api/v1/bills": Scope.LIMIT,
        "/api/v1/bills/pieces": Scope.LIMIT,
        "/api/v1/bills/allocations": Scope.LIMIT,
        "/api/v1/bills/withdrawals": Scope.LIMIT,
        "/api/v1/closings": Scope.LIMIT,
        "/api/v1/sources": Scope.INGEST,
        "/api/v1/whoami": ANY,
        "/api/v1/approvals": CONTROLS,
        "/api/v1/tokens": Scope.ADMIN,
        "/api/v1/closings/{month:[^/]+}": Scope.QUERY,
        "/v1/traces": Scope.INGEST,
        "/v1/metrics": Scope.INGEST,
        "/api/v1/hooks/github": OPEN,
        "/api/v1/hooks/gitlab": OPEN,
    }


def test_a_reader_only_reads() -> None:
    readers = [route for route in table() if route.scope is Scope.READ]
    assert {route.path for route in readers if route.method != "GET"} == {"/api/v1/session"}
    assert all(is_data(route.path) for route in readers), "the guard of other sites' requests covers them"


def test_the_scopes_of_a_server_are_those_of_all_its_paths() -> None:
    app = web.Application()
    scopes = Routes(None).add_to(app)  # type: ignore[arg-type]  # nothing is answered here
    assert set(scopes) == {resource.canonical for resource in app.router.resources()}
    assert len(scopes) == len({route.path for route in table()})
    assert len({(route.method, route.path) for route in table()}) == len(table())


def test_a_path_without_a_scope_is_answered_to_nobody() -> None:
    async def secret(_: web.Request) -> web.Response:
        raise AssertionError("it was asked")

    async def go() -> tuple[int, Any]:
        guard = RequestGuard(WebSettings(), LOCAL_TOKEN, lambda: 0)
        app = web.Application(middlewares=[middleware(guard, {}, lambda: 0)])
        app.on_response_prepare.append(add_headers)
        app.router.add_get("/forgotten", secret)
        runner = web.AppRunner(app)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/forgotten"
            async with (
                aiohttp.ClientSession() as session,
                session.get(url, headers=bearer(LOCAL_TOKEN)) as answer,
            ):
                return answer.status, await answer.json()
        finally:
            await runner.cleanup()

    status, body = run(go())
    assert (status, body["error"]["code"]) == (403, "forbidden")


# -- what each token may do ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shown", [*SETTINGS, "write"])
@pytest.mark.parametrize("scope", PATHS)
def test_a_token_of_one_scope_does_that_and_nothing_else(scope: Scope, shown: Scope) -> None:
    async def work(client: Client) -> None:
        status, body = await asked(client, scope, bearer(ONE_EACH[f"{shown}_token"]))
        if shown is scope:
            assert status == PATHS[scope][2]
        else:
            assert (status, body["error"]["code"]) == (403, "forbidden")
            assert f"`{scope}`" in body["error"]["message"]

    served(None, work, **ONE_EACH)


@pytest.mark.parametrize("scope", PATHS)
def test_web_token_and_the_local_one_do_everything(scope: Scope) -> None:
    async def work(client: Client) -> None:
        for token in (TOKEN, LOCAL_TOKEN):
            assert (await asked(client, scope, bearer(token)))[0] == PATHS[scope][2]
        assert (await asked(client, scope, {}))[0] == 401

    served(None, work, token=TOKEN)


@pytest.mark.parametrize("local_token", [LOCAL_TOKEN, None])
def test_on_loopback_without_tokens_sql_alone_needs_one(local_token: str | None) -> None:
    async def work(client: Client) -> None:
        for scope, (_, _, status) in PATHS.items():
            assert (await asked(client, scope, {}))[0] == (401 if scope is Scope.QUERY else status)
        for scope in (Scope.METRICS, Scope.READ):
            assert (await asked(client, scope, bearer("of-another-worker-16")))[0] == PATHS[scope][2]

    served(None, work, local_token=local_token)


def test_any_token_that_is_set_closes_the_rest() -> None:
    async def work(client: Client) -> None:
        for scope in PATHS:
            assert (await asked(client, scope, {}))[0] == 401

    served(None, work, write_token=ONE_EACH["write_token"], local_token=None)


@pytest.mark.parametrize("shown", [*SETTINGS, "write"])
def test_the_pages_session_may_read_if_its_token_may_and_nothing_else(shown: Scope) -> None:
    async def work(client: Client) -> None:
        page = f"{client.server.url}/?token={ONE_EACH[f'{shown}_token']}"
        async with client.session.get(page, allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
            for scope in PATHS:
                status, _ = await asked(Client(client.server, bare), scope, {"Cookie": cookie})
                assert status == (PATHS[scope][2] if shown is scope is Scope.READ else 403)

    served(None, work, **ONE_EACH)


def test_the_pages_session_of_a_token_of_all_scopes_may_only_read() -> None:
    async def work(client: Client) -> None:
        async with client.session.get(f"{client.server.url}/?token={TOKEN}", allow_redirects=False) as answer:
            cookie = answer.headers["Set-Cookie"].partition(";")[0]
            assert "Max-Age=43200" in answer.headers["Set-Cookie"]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
            for scope in PATHS:
                status, _ = await asked(Client(client.server, bare), scope, {"Cookie": cookie})
                assert status == (PATHS[scope][2] if scope is Scope.READ else 403)

    served(None, work, token=TOKEN)


def test_digests_alone_are_in_memory() -> None:
    tokens = Tokens(WebSettings.model_validate({"token": TOKEN, **ONE_EACH}), LOCAL_TOKEN)
    inside = repr(vars(tokens))
    for token in (TOKEN, LOCAL_TOKEN, *ONE_EACH.values()):
        assert token not in inside
        assert session_of(token, 10**12).cookie not in inside
    found = tokens.of_token(LOCAL_TOKEN, "a")
    assert found is not None
    assert found.scopes == ALL


# -- guesses -------------------------------------------------------------------------------------------------


def test_guesses_are_slowed_logged_and_counted_and_a_right_token_passes_all_the_while(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work(client: Client) -> None:
        found = []
        for at in range(8):
            wrong = bearer(f"a-guess-of-sixteen-{at}")
            async with client.session.get(f"{client.server.url}/api/v1/jobs", headers=wrong) as answer:
                found.append((answer.status, answer.headers.get("Retry-After")))
            assert (await asked(client, Scope.METRICS, bearer(TOKEN)))[0] == 200
        assert found == [(401, None)] * 5 + [(429, "1"), (429, "2"), (429, "4")]
        page = (await client.get("/metrics", headers=bearer(TOKEN))).decode()
        assert "trainfare_web_tokens_refused_total 8.0" in page

    with caplog.at_level(logging.WARNING):
        served(None, work, token=TOKEN)
    assert "address=127.0.0.1\nguesses=1" in logged(caplog)
    assert "a-guess" not in logged(caplog)


@pytest.mark.parametrize("way", ["page", "cookie", "readyz"])
def test_no_other_way_to_guess_is_free(way: str) -> None:
    async def work(client: Client) -> None:
        found = []
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
            for at in range(7):
                guess = f"a-guess-of-sixteen-{at}"
                path, headers = {
                    "page": (f"/?token={guess}", {}),
                    "cookie": ("/api/v1/jobs", {"Cookie": f"{COOKIE}={session_of(guess, 10**13).cookie}"}),
                    "readyz": ("/readyz", bearer(guess)),
                }[way]
                url = client.server.url + path
                async with bare.get(url, headers=headers, allow_redirects=False) as answer:
                    found.append(answer.headers.get("Location", answer.status))
        # What is open to all stays open, for probes that show an old token; it is counted all the same.
        refused: dict[str, list[str | int]] = {
            "page": ["/#token-unauthorized", "/#token-too_many_requests"],
            "cookie": [401, 429],
            "readyz": [200, 200],
        }
        first, then = refused[way]
        assert found == [first] * 5 + [then] * 2
        page = (await client.get("/metrics", headers=bearer(TOKEN))).decode()
        assert "trainfare_web_tokens_refused_total 7.0" in page

    served(None, work, token=TOKEN)


def test_a_cookie_of_yesterday_is_no_guess_where_nobody_asks_for_one() -> None:
    async def work(client: Client) -> None:
        headers = {"Cookie": f"{COOKIE}={session_of('of-another-worker-16', 10**13).cookie}"}
        for _ in range(9):
            await client.get("/healthz", headers=headers)
            assert (await asked(client, Scope.READ, headers))[0] == 503
        assert "trainfare_web_tokens_refused_total 0.0" in (await client.get("/metrics")).decode()

    served(None, work)
