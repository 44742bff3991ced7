"""One attempt over real HTTP: what is sent, and what each answer means."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web

from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.sender import BODY_BYTES_READ, Sender, SendResult
from tests.notify.webhooks.conftest import Listener
from tests.notify.webhooks.names import Names
from tests.notify.webhooks.server import Handler, answering, serving

SECRET_PATH = "/services/hunter2?token=hunter2"


def post(handler: Handler, *, timeout_ms: int = 5_000, headers: dict[str, str] | None = None) -> SendResult:
    async def go() -> SendResult:
        async with serving(handler) as host_port:
            sender = Sender(ReceiverGuard(host_port), timeout_ms=timeout_ms)
            return await sender.post(f"http://{host_port}{SECRET_PATH}", b'{"a": 1}', headers or {})

    return asyncio.run(go())


def test_the_bytes_arrive_as_they_are_with_the_headers() -> None:
    seen: list[tuple[str, str, bytes, Any]] = []

    async def record(request: web.Request) -> web.Response:
        seen.append((request.method, request.path_qs, await request.read(), request.headers.copy()))
        return web.Response(status=202)

    assert post(record, headers={"webhook-id": "msg_1"}) == SendResult("delivered", 202, "")
    method, path, body, headers = seen[0]
    assert (method, path, body) == ("POST", SECRET_PATH, b'{"a": 1}')
    assert headers["content-type"] == "application/json"
    assert headers["webhook-id"] == "msg_1"
    assert "cookie" not in headers


@pytest.mark.parametrize("status", [200, 201, 202, 204, 299])
def test_any_2xx_is_delivered(status: int) -> None:
    assert post(answering(status)) == SendResult("delivered", status, "")


@pytest.mark.parametrize("status", [400, 401, 403, 404, 405, 410, 413, 422, 451])
def test_what_the_receiver_does_not_accept_is_final(status: int) -> None:
    answer = post(answering(status))
    assert answer[:2] == ("failed", status)
    assert "hunter2" not in answer.detail


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504, 529])
def test_what_may_pass_is_tried_again(status: int) -> None:
    answer = post(answering(status, {"retry-after": "7"}))
    assert answer == SendResult("retry", status, f"answered {status}", "7")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(status: int, listener: Listener) -> None:
    answer = post(answering(status, {"location": f"https://127.0.0.1:{listener.port}/"}))
    assert answer[:2] == ("failed", status)
    assert "redirects are not followed" in answer.detail
    assert listener.connections == 0


def test_no_proxy_of_the_environment_is_used(listener: Listener, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{listener.port}")
    assert post(answering(200)).verdict == "delivered"
    assert listener.connections == 0


def test_a_long_answer_is_not_read_to_its_end() -> None:
    written: list[int] = []

    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-encoding": "gzip"})  # which is not unpacked
        await response.prepare(request)
        try:
            while len(written) < 10_000:
                await response.write(b"x" * 16_384)
                written.append(16_384)
        except ConnectionError:
            pass
        return response

    assert post(flood) == SendResult("delivered", 200, "")
    # Beyond what is read there is only what the sockets' buffers hold.
    assert sum(written) < BODY_BYTES_READ + 32 * 2**20


def test_a_status_counts_though_the_answer_never_ends() -> None:
    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=200)
        await response.prepare(request)
        await response.write(b"x")
        await asyncio.sleep(30)
        return response

    assert post(drip) == SendResult("delivered", 200, "")


def test_a_receiver_that_does_not_answer() -> None:
    async def hang(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    assert post(hang, timeout_ms=200) == SendResult("retry", 0, "no answer within 200 ms")


def test_a_receiver_that_hangs_up(listener: Listener) -> None:
    url = f"http://127.0.0.1:{listener.port}{SECRET_PATH}"
    answer = asyncio.run(Sender(ReceiverGuard("127.0.0.1"), timeout_ms=2_000).post(url, b"{}", {}))
    assert answer.verdict == "retry"
    assert answer.detail in (
        "the receiver closed the connection without an answer",
        "no connection: Connection reset by peer",
        "no usable answer (ClientOSError)",
    )
    assert listener.connections == 1


def _closed_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _nonsense() -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"SSH-2.0-hunter2\r\n\r\n")
        await writer.drain()
        writer.close()

    return talk


def test_other_faults_are_told_in_our_own_words() -> None:
    async def go() -> list[SendResult]:
        sender = Sender(ReceiverGuard("127.0.0.1,gone"), timeout_ms=2_000, resolver=Names({}))
        closed = await sender.post(f"http://127.0.0.1:{_closed_port()}{SECRET_PATH}", b"{}", {})
        unknown = await sender.post(f"http://gone{SECRET_PATH}", b"{}", {})
        server = await asyncio.start_server(_nonsense(), "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        nonsense = await sender.post(f"http://127.0.0.1:{port}{SECRET_PATH}", b"{}", {})
        no_tls = await sender.post(f"https://127.0.0.1:{port}{SECRET_PATH}", b"{}", {})
        server.close()
        return [closed, unknown, nonsense, no_tls]

    closed, unknown, nonsense, no_tls = asyncio.run(go())
    assert closed == SendResult("retry", 0, "no connection: Connection refused")
    assert unknown == SendResult("retry", 0, "the host name could not be resolved")
    assert nonsense == SendResult("retry", 0, "no usable answer (ClientResponseError)")
    assert no_tls == SendResult("retry", 0, "no TLS connection could be made")
