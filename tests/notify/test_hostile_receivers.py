"""Receivers of every kind that hang, redirect, flood or drip: what it costs, and that nobody else waits for them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import orjson
import pytest
from aiohttp import web

from streams.clock import SystemClock
from streams.engine.alerts.alert import Address
from streams.notify.links import Links
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.receiver import WebhookReceiver
from tests.logged import logged
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import SECRET, SHARD, an_alert, resolved
from tests.notify.test_http import PATIENCE_MS, outcomes
from tests.notify.test_slack import check
from tests.notify.webhooks.conftest import Listener, listener
from tests.notify.webhooks.server import serving

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
__all__ = ["listener"]  # a fixture
TIMEOUT_MS = 500
KINDS = ("webhook", "slack", "alertmanager")


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def slow_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    for number in range(1_000):
        writer.write(b"x-%d: hunter2\r\n" % number)
        await writer.drain()
        await asyncio.sleep(0.05)


async def long_headers(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\nx: ")
    for _ in range(16_384):  # 1 GiB
        writer.write(b"hunter2 " * 8_192)
        await writer.drain()


async def long_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 hunter2\r\ncontent-length: 1073741824\r\n\r\n")
    for _ in range(16_384):
        writer.write(b"hunter2 " * 8_192)
        await writer.drain()


async def chunks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"HTTP/1.1 500 x\r\ntransfer-encoding: chunked\r\n\r\n7fffffffffffffff\r\n")
    for _ in range(16_384):
        writer.write(b"hunter2 " * 8_192)
        await writer.drain()


async def no_http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.write(b"\x00\xffhunter2\r\n\r\n")
    await writer.drain()


@contextlib.asynccontextmanager
async def talking(talk: Talk) -> AsyncIterator[tuple[str, list[int]]]:
    """Yields host:port, and how many bytes each connection was sent."""
    sent: list[int] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        place = len(sent)
        sent.append(0)
        write = writer.write

        def counted(data: bytes) -> None:
            sent[place] += len(data)
            write(data)

        writer.write = counted  # type: ignore[method-assign,assignment] # it counts
        with contextlib.suppress(ConnectionError, asyncio.CancelledError):
            await talk(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}", sent
    finally:
        server.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("talk", [hang, slow_headers, long_headers, long_answer, chunks, no_http])
def test_what_a_receiver_does_costs_a_try_and_no_other_receiver_waits(
    kind: str, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    async def go() -> tuple[MemoryStore, list[int]]:
        store, got = MemoryStore(), asyncio.Event()
        receiver = WebhookReceiver(SECRET, lambda _: got.set())
        await receiver.start()
        async with talking(talk) as (host_port, sent):
            url = f"http://{host_port}"
            hostile: Any = [] if kind == "alertmanager" else [Address(kind, f"{url}/hunter2")]  # type: ignore[arg-type] # one of its words
            options = NotifierOptions(
                webhook_secret=SECRET,
                allow_hosts=f"{host_port},{receiver.host_port}",
                alertmanager_urls=(url,) if kind == "alertmanager" else (),
                timeout_ms=TIMEOUT_MS,
                max_attempts=2,
                group_wait_ms=0,
            )
            notifier = Notifier(
                store,
                lambda owner: hostile if owner == "eve" else [Address("webhook", receiver.url)],
                options,
                SystemClock(),
                jitter_ratio=lambda: 0.001,
            )
            running = asyncio.create_task(notifier.run())
            notifier.offer([an_alert(f"job-{number}", owner="eve") for number in range(6)], SHARD)
            notifier.offer([an_alert("other")], SHARD)
            async with asyncio.timeout(10):
                await got.wait()
            assert await notifier.drain(PATIENCE_MS) == 0
            await notifier.stop()
            await running
        await receiver.stop()
        return store, sent

    store, sent = asyncio.run(go())
    rows = store.select("deliveries").to_pylist()
    bad = [row for row in rows if row["receiver"] != "" and row["alert_id"] != an_alert("other").alert_id]
    last = {row["outcome"] for row in bad if row["attempt"] == 2}
    assert last == {"failed"}
    assert {row["outcome"] for row in bad} == {"failed", "retrying"}
    assert max(sent, default=0) < 64 * 2**20, "it was not read to its end"
    assert "hunter2" not in logged(caplog) + str(rows)


@pytest.mark.parametrize("kind", KINDS)
def test_no_kind_of_receiver_redirects_us(kind: str, listener: Listener) -> None:
    async def go() -> MemoryStore:
        async def away(request: web.Request) -> web.Response:
            return web.Response(status=307, headers={"location": f"https://127.0.0.1:{listener.port}/"})

        store = MemoryStore()
        async with serving(away) as host_port:
            url = f"http://{host_port}"
            peers = (url,) if kind == "alertmanager" else ()
            own: Any = [] if peers else [Address(kind, url)]  # type: ignore[arg-type] # one of its words
            options = NotifierOptions(
                webhook_secret=SECRET, allow_hosts=host_port, alertmanager_urls=peers, group_wait_ms=0
            )
            notifier = Notifier(store, lambda _: own, options, SystemClock())
            running = asyncio.create_task(notifier.run())
            notifier.offer([an_alert()], SHARD)
            assert await notifier.drain(PATIENCE_MS) == 0
            await notifier.stop()
            await running
        return store

    assert outcomes(asyncio.run(go())) == [("firing", 1, "failed", 307)]
    assert listener.connections == 0


def test_slack_takes_what_is_sent_over_real_http() -> None:
    got: list[dict[str, Any]] = []

    async def slack(request: web.Request) -> web.Response:
        assert request.content_type == "application/json"
        assert "webhook-signature" not in request.headers
        got.append(orjson.loads(await request.read()))
        if len(got) == 1:
            return web.Response(status=429, headers={"retry-after": "0"}, text="rate_limited")
        return web.Response(text="ok")

    async def go() -> MemoryStore:
        store = MemoryStore()
        async with serving(slack) as host_port:
            options = NotifierOptions(
                webhook_secret=SECRET,
                allow_hosts=host_port,
                links=Links("https://fare.example.com", "https://docs.example.com"),
            )
            notifier = Notifier(
                store,
                lambda owner: [Address("slack", f"http://{host_port}/services/{len(owner)}")],
                options,
                SystemClock(),
                jitter_ratio=lambda: 0.001,
            )
            running = asyncio.create_task(notifier.run())
            hostile = an_alert("<!channel>\n*x*", owner="eve\n<!here>", summary="<!channel> " * 1_000)
            for batch in ([an_alert("a"), an_alert("b"), hostile], [resolved("a")]):
                notifier.offer(batch, SHARD)
                assert await notifier.drain(PATIENCE_MS) == 0
            await notifier.stop()
            await running
        return store

    store = asyncio.run(go())
    for message in got:
        check(message)
    titles = sorted(message["blocks"][0]["text"]["text"] for message in got[1:])
    assert "\u2705 a: Runaway burn resolved" in titles
    assert "\U0001f6a8 2 firing: owner ada, project p" in titles
    assert [row[2] for row in outcomes(store)].count("delivered") == 4
