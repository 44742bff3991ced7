"""Who may ask, what is refused, and that every refusal is JSON with the right status."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from typing import Any

import aiohttp
import pytest
from yarl import URL

from sinks.clickhouse import ClickHouseStore
from streams.clock import SystemClock
from streams.config.live import WebSettings
from streams.errors import TrainfareError, WrongUseError
from streams.web.security import COOKIE, RequestGuard
from streams.web.server import WebServer
from streams.worker.health.worker_status import WorkerStatus
from tests.web.serving import BEARER, TOKEN, Client, run, served, serving


@pytest.mark.parametrize(
    ("method", "path", "status", "code", "said"),
    [
        ("GET", "/nowhere", 404, "not_found", "/nowhere"),
        ("GET", "/api/v2/jobs", 404, "not_found", "/api/v2/jobs"),
        ("GET", "/api/v1/jobs/nobody", 404, "not_found", "job 'nobody': not in this store"),
        ("GET", "/api/v1/jobs/nobody/explain", 404, "not_found", "'nobody'"),
        ("POST", "/api/v1/jobs", 405, "method_not_allowed", "GET"),
        ("GET", "/api/v1/query", 405, "method_not_allowed", "POST"),
        ("GET", "/api/v1/jobs?limit=0", 400, "bad_request", "limit: got '0', expected 1 to 1000"),
        ("GET", "/api/v1/jobs?limit=9999999999999999999999", 400, "bad_request", "limit"),
        ("GET", "/api/v1/jobs?limit=%D9%A3", 400, "bad_request", "limit"),
        ("GET", "/api/v1/jobs?order=cost;drop", 400, "bad_request", "expected one of burn, job, name"),
        ("GET", "/api/v1/jobs?ordr=cost", 400, "bad_request", "'ordr' is unknown"),
        ("GET", "/api/v1/jobs?limit=1&limit=2", 400, "bad_request", "given twice"),
        ("GET", "/api/v1/alerts?status=open", 400, "bad_request", "firing, resolved"),
        ("GET", "/static/../server.py", 404, "not_found", ""),
        ("GET", "/static/%2e%2e/server.py", 404, "not_found", ""),
        ("GET", "/static/none.js", 404, "not_found", "/static/none.js"),
    ],
)
def test_refusals(store: ClickHouseStore, method: str, path: str, status: int, code: str, said: str) -> None:
    async def work(client: Client) -> tuple[int, Any]:
        url = URL(client.server.url + path, encoded=True)
        async with client.session.request(method, url) as answer:
            return answer.status, await answer.json()

    found, body = served(store, work)
    assert found == status
    assert body["error"]["code"] == code
    assert said in body["error"]["message"]


def test_before_the_store_is_open_the_answer_is_503() -> None:
    async def work(client: Client) -> Any:
        return await client.get("/api/v1/jobs", 503)

    assert served(None, work)["error"] == {
        "code": "starting",
        "message": "the store is not open yet; /readyz says what it waits for",
    }


def test_a_fault_of_ours_shows_only_its_request_id(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise ZeroDivisionError("the inside story")

    monkeypatch.setattr(store, "ask", broken)

    async def work(client: Client) -> Any:
        return await client.get("/api/v1/jobs", 500, headers={"X-Request-Id": "r-1"})

    message = served(store, work)["error"]["message"]
    assert "r-1" in message
    assert "story" not in message
    assert "the inside story" in caplog.text


# -- the token -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": TOKEN}])
@pytest.mark.parametrize("path", ["/api/v1/jobs", "/api/v1/stream", "/metrics", "/api/v1/jobs/a/explain"])
def test_with_a_token_figures_need_it(store: ClickHouseStore, path: str, headers: Mapping[str, str]) -> None:
    async def work(client: Client) -> Any:
        async with client.session.get(client.server.url + path, headers=headers) as answer:
            return answer.status, answer.headers, await answer.json()

    status, answered, body = served(store, work, token=TOKEN)
    assert status == 401
    assert answered["WWW-Authenticate"].startswith("Bearer")
    assert body["error"]["code"] == "unauthorized"
    assert TOKEN not in str(body)


def test_health_and_the_page_need_no_token(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        assert await client.get("/healthz") == {"status": "ok"}
        assert (await client.get("/readyz"))["ready"] is True
        assert b"<" in await client.get("/")
        await client.get("/api/v1/burn", headers=BEARER)
        await client.get("/metrics", headers={"Authorization": f"bearer  {TOKEN}"})

    served(store, work, token=TOKEN)


def test_the_page_takes_the_token_once_into_a_cookie(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        page = f"{client.server.url}/?token={TOKEN}"
        async with client.session.get(page, allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/")
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert TOKEN not in cookie
        value = cookie.partition("=")[2].partition(";")[0]
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as bare:
            for given, status in ((value, 200), (value[:-1] + "x", 401), (TOKEN, 401)):
                headers = {"Cookie": f"{COOKIE}={given}"}
                async with bare.get(f"{client.server.url}/api/v1/burn", headers=headers) as answer:
                    assert answer.status == status
        async with client.session.get(f"{client.server.url}/?token=wrong", allow_redirects=False) as answer:
            assert (answer.status, answer.headers["Location"]) == (303, "/#token-unauthorized")
            assert "Set-Cookie" not in answer.headers

    served(store, work, token=TOKEN)


def test_a_token_nobody_asks_for_leaves_the_address_too(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        async with client.session.get(f"{client.server.url}/?token=x", allow_redirects=False) as answer:
            assert (answer.status, "Set-Cookie" in answer.headers) == (303, False)

    served(store, work, local_token=None)


# -- addresses -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:1234", 200),
        ("127.0.0.1:8787", 200),
        ("[::1]:8787", 200),
        ("evil.example.com", 403),
        ("127.0.0.1.evil.example.com", 403),
        ("localhost.evil.example.com:8787", 403),
        ("[::2]", 403),
        ("", 403),
    ],
)
def test_on_loopback_other_names_are_refused(store: ClickHouseStore, host: str, status: int) -> None:
    async def work(client: Client) -> None:
        await client.get("/api/v1/burn", status, headers={"Host": host})
        await client.get("/healthz", status, headers={"Host": host})

    served(store, work)


def test_where_others_reach_the_worker_any_name_is_taken() -> None:
    settings = WebSettings(bind="0.0.0.0", token=TOKEN)  # type: ignore[arg-type]  # pydantic takes a str
    RequestGuard(settings, None, lambda: 0).check_host("meter.example.com")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "https://evil.example.com"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "none"}, 200),
    ],
)
def test_pages_of_other_sites_cannot_ask(
    store: ClickHouseStore, headers: dict[str, str], status: int
) -> None:
    async def work(client: Client) -> None:
        await client.get("/api/v1/burn", status, headers=headers)
        await client.ask({"sql": "SELECT 1"}, status, headers=headers)

    served(store, work)


def test_our_own_page_may_ask(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        await client.get("/api/v1/burn", headers={"Origin": client.server.url})

    served(store, work)


@pytest.mark.parametrize("bind", ["0.0.0.0", "::", "192.0.2.7", "meter.example.com"])
def test_a_bind_that_others_reach_needs_a_token(bind: str) -> None:
    with pytest.raises(WrongUseError, match=r"web\.token"):
        WebServer(WebSettings(bind=bind), lambda: None, WorkerStatus, SystemClock().monotonic_ms)


def test_a_port_that_is_taken_is_said_in_one_line() -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]

        async def start() -> None:
            async with serving(None, port=port):
                pass

        with pytest.raises(TrainfareError, match=f"web.port {port} on 127.0.0.1 is taken") as caught:
            run(start())
    assert "\n" not in str(caught.value)


# -- headers -------------------------------------------------------------------------------------------------


def test_headers_of_every_answer(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for path in ("/", "/healthz", "/api/v1/burn", "/nowhere", "/metrics"):
            async with client.session.get(client.server.url + path) as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert "default-src 'none'" in policy
                assert "unsafe" not in policy
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Server"] == "trainfare"
                assert len(answer.headers["X-Request-Id"]) == 16
                kept = "no-cache" if path == "/" else "no-store"
                assert answer.headers["Cache-Control"] == kept, path

    served(store, work)


def test_a_request_keeps_the_id_it_came_with(store: ClickHouseStore) -> None:
    async def work(client: Client) -> None:
        for given, kept in (("abc-1.2_3", True), ("x" * 65, False), ("a b", False)):
            async with client.session.get(
                f"{client.server.url}/healthz", headers={"X-Request-Id": given}
            ) as answer:
                assert (answer.headers["X-Request-Id"] == given) is kept

    served(store, work)
