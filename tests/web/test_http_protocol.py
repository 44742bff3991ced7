"""Clients that are slow, silent, deaf, many or wrong, over real sockets: none holds the server for long."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

import pytest
from aiohttp import web

from streams.web.connections import Timeouts
from streams.web.figures import ApiFigures
from streams.web.http_protocol import LINE_MAX_BYTES
from streams.web.job_list import JobList
from streams.web.listener import Listener, ListenerOptions
from tests.web.raw import Raw, connected, parsed, request
from tests.web.serving import BEARER, LOCAL_TOKEN, TOKEN, Client, run, served

#: Nobody runs into it.
LONG = Timeouts(60_000, 60_000, 60_000, 60_000, 60_000)


async def dropped(client: Client, reason: str, count: int = 1) -> None:
    """Wait until so many connections were cut for a reason."""
    line = f'trainfare_web_connections_dropped_total{{reason="{reason}"}} {count}.0'
    async with asyncio.timeout(20):
        while line not in (await client.get("/metrics")).decode():  # noqa: ASYNC110  # counted by the server's sweep
            await asyncio.sleep(0.05)


# -- slow, silent, deaf --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [b"", b"G", b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n", b"\r\n\r\n", b"POST / HTTP/1.1\r\nA:"],
    ids=["nothing", "a byte", "half a header", "blank lines", "half a line"],
)
def test_a_header_that_does_not_come_ends_the_connection(sent: bytes) -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url)
        await raw.send(sent)
        assert await raw.rest() == b""
        await dropped(client, "header")

    served(None, work, patience=replace(LONG, header_ms=200))


def test_a_body_that_does_not_come_ends_the_connection() -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url)
        headers = (
            f"Authorization: Bearer {LOCAL_TOKEN}",
            "Content-Type: application/json",
            "Content-Length: 100",
        )
        await raw.send(request("/api/v1/query", *headers, method="POST", body=b'{"sql":'))
        assert await raw.rest() == b""
        await dropped(client, "body")

    served(None, work, patience=replace(LONG, body_ms=200))


def test_a_body_that_nobody_reads_holds_nothing_either() -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url)
        await raw.send(request("/healthz", "Content-Length: 1000000", body=b"x"))
        assert (await raw.rest()).startswith(b"HTTP/1.1 200")

    served(None, work, patience=LONG)


def test_a_large_body_that_comes_in_pieces_is_taken() -> None:
    async def measured(request: web.Request) -> web.Response:
        return web.json_response(len(await request.read()))

    async def go() -> None:
        app = web.Application()
        app.router.add_post("/", measured)
        runner, entrance = web.AppRunner(app), Listener(ListenerOptions(8, 8, LONG), lambda: 0)
        await runner.setup()
        assert runner.server is not None
        raw = await connected(f"http://127.0.0.1:{await entrance.open(runner.server, '127.0.0.1', 0)}")
        await raw.send(request("/", "Content-Length: 900000", "Connection: close", method="POST"))
        for _ in range(10):
            await raw.send(bytes(90_000))
        assert parsed(await raw.rest())[::2] == (200, 900_000)
        await runner.cleanup()
        await entrance.close()

    run(go())


def test_between_requests_silence_ends_the_connection() -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url)
        for _ in range(2):
            await raw.send(request("/healthz"))
            await raw.until(b'"ok"}')
        assert await raw.rest() == b""
        await dropped(client, "idle")

    served(None, work, patience=replace(LONG, idle_ms=300, crowded_idle_ms=300))


def test_who_does_not_read_its_answers_is_cut() -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url, receive_bytes=4096)
        pages = request("/static/jobs.js") * 32
        writing = asyncio.ensure_future(flood(raw, pages))
        await dropped(client, "not_reading")
        await asyncio.wait_for(writing, 20)
        assert "trainfare_web_connections 1.0" in (await client.get("/metrics")).decode(), "what asks this"

    served(None, work, patience=replace(LONG, write_ms=300))


async def flood(raw: Raw, data: bytes) -> None:
    """Ask and ask, and read nothing, until the server has had enough."""
    try:
        while True:
            await raw.send(data)
    except ConnectionError:
        raw.close()


def test_a_listener_that_takes_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    async def large(_: ApiFigures) -> dict[str, str]:
        return {"much": "x" * 1_000_000}

    async def none(*_: object, **__: object) -> dict[str, list[str]]:
        return {"jobs": [], "alerts": []}

    monkeypatch.setattr(ApiFigures, "burn", large)
    monkeypatch.setattr(JobList, "page", none)
    monkeypatch.setattr(ApiFigures, "alerts", none)

    async def work(client: Client) -> None:
        deaf = [await connected(client.server.url, receive_bytes=4096) for _ in range(4)]
        for raw in deaf:
            await raw.send(request("/api/v1/stream"))
        await dropped(client, "not_reading", 4)
        while client.server.broadcaster.listeners:  # noqa: ASYNC110  # the handlers end after their connections
            await asyncio.sleep(0.01)
        for raw in deaf:
            raw.close()

    served(None, work, patience=replace(LONG, write_ms=400))


# -- many ----------------------------------------------------------------------------------------------------


def test_silent_connections_make_room_for_one_that_asks() -> None:
    async def work(client: Client) -> None:
        silent = [await connected(client.server.url) for _ in range(200)]
        assert await client.get("/healthz") == {"status": "ok"}
        page = (await client.get("/metrics")).decode()
        (now,) = (line for line in page.splitlines() if line.startswith("trainfare_web_connections "))
        assert float(now.split()[1]) <= 20
        assert await silent[0].rest() == b"", "the one that was silent longest has gone"
        for raw in silent:
            raw.close()

    served(None, work, max_connections_per_address=20, patience=LONG)


def test_where_all_are_answered_one_too_many_is_told_so() -> None:
    async def work(client: Client) -> None:
        listeners = [await connected(client.server.url) for _ in range(4)]
        for raw in listeners:
            await raw.send(request("/api/v1/stream"))
            await raw.until(b"retry: 2000")
        late = await connected(client.server.url)
        status, headers, body = parsed(await late.rest())
        assert (status, body["error"]["code"]) == (503, "too_many_connections")
        assert headers["Retry-After"] == "1"
        listeners.pop().close()
        async with asyncio.timeout(20):
            while client.server.broadcaster.listeners > 3:  # noqa: ASYNC110  # until the server sees it
                await asyncio.sleep(0.01)
        assert 'refused_total{reason="address"} 1.0' in (await client.get("/metrics")).decode()
        for raw in listeners:
            raw.close()

    served(None, work, max_connections_per_address=4, patience=LONG)


def test_many_requests_at_once_on_one_connection_are_answered_in_order() -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url)
        await raw.send(request("/healthz") * 99 + request("/nowhere", "Connection: close"))
        answers = await raw.rest()
        assert answers.count(b"HTTP/1.1 200 OK") == 99
        assert answers.rpartition(b"HTTP/1.1")[2].startswith(b" 404")

    served(None, work, patience=LONG)


# -- gone ----------------------------------------------------------------------------------------------------


def test_what_is_under_way_for_one_that_leaves_is_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work(client: Client) -> None:
        began, ended = asyncio.Event(), asyncio.Event()

        async def burn(_: ApiFigures) -> None:
            began.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                ended.set()
                raise

        monkeypatch.setattr(ApiFigures, "burn", burn)
        raw = await connected(client.server.url)
        await raw.send(request("/api/v1/burn"))
        await asyncio.wait_for(began.wait(), 20)
        raw.close()
        await asyncio.wait_for(ended.wait(), 20)
        assert await client.get("/healthz") == {"status": "ok"}

    served(None, work, patience=LONG)


def test_a_server_that_stops_waits_for_nobody() -> None:
    async def work(client: Client) -> None:
        for sent in (b"", b"GET /", request("/api/v1/stream")):
            await (await connected(client.server.url)).send(sent)
        await client.get("/healthz")
        await asyncio.wait_for(client.server.stop(), 10)

    served(None, work, patience=LONG)


# -- wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), 400),
        (b"FOO /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz HTTP/9.9\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /healthz\r\n\r\n", 403),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
        (request("/" + "a" * (LINE_MAX_BYTES + 10)), 400),
        (request("/healthz", "A: " + "a" * (LINE_MAX_BYTES + 10)), 400),
        (request("/healthz", *(f"A{at}: a" for at in range(200))), 400),
        (request("/healthz", "Connection: close", *(f"A{at}: {'a' * 8_000}" for at in range(5))), 431),
        (request("/healthz", *(f"A{at}: {'a' * 8_000}" for at in range(5)))[:-4], 431),
        (request("/healthz", "Content-Length: -1"), 400),
        (request("/healthz", "Content-Length: 1", "Content-Length: 2"), 400),
        (request("/healthz", "Content-Length: 3", "Transfer-Encoding: chunked"), 400),
        (request("/healthz", "A\x00: b"), 400),
        (request("/healthz", " A: b"), 400),
        (request("/api/v1/jobs", "Transfer-Encoding: chunked", body=b"zz\r\n"), 400),
        (b"CONNECT localhost:22 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 404),
        (request("/healthz", "Connection: close", method="TRACE"), 405),
        (request("/api/v1/query", "Connection: close", "Content-Encoding: gzip", f"Authorization: Bearer {LOCAL_TOKEN}", "Content-Length: 2", method="POST", body=b"{}"), 415),
        (request("/api/v1/query", "Connection: close", "Content-Type: application/json", f"Authorization: Bearer {LOCAL_TOKEN}", f"Content-Length: {2**20 + 1}", method="POST", body=bytes(2**20 + 1)), 413),
    ],
)  # fmt: skip
def test_what_is_no_request_is_answered_in_our_form_and_not_logged(
    sent: bytes, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    async def work(client: Client) -> None:
        raw = await connected(client.server.url)
        await raw.send(sent)
        found, headers, body = parsed(await raw.rest())
        assert (found, set(body), set(body["error"])) == (status, {"error"}, {"code", "message"})
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Server"] == "trainfare"
        assert len(str(body)) < 400, "what was sent is not sent back"

    with caplog.at_level(logging.INFO):
        served(None, work, patience=LONG)
    lines = [record.getMessage() for record in caplog.records if record.levelno >= logging.INFO]
    assert [line for line in lines if not line.startswith("live page and API")] == []


def test_a_target_may_be_as_long_as_it_must_be() -> None:
    async def work(client: Client) -> None:
        await client.get("/api/v1/jobs/" + "a" * 8_000, 503, headers=BEARER)

    served(None, work, token=TOKEN, patience=LONG)


# -- aiohttp -------------------------------------------------------------------------------------------------


def test_what_is_private_to_aiohttp_is_where_it_was() -> None:
    assert {"_request_count", "_messages"} <= set(web.RequestHandler.__slots__)
    for name in ("finish_response", "handle_error", "data_received", "connection_made", "resume_writing"):
        assert callable(getattr(web.RequestHandler, name))
