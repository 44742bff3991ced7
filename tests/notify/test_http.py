"""The notifier as it runs: the machine's clock, real HTTP, the receiver that ships."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

from aiohttp import web

from schemas.tables import DELIVERIES
from streams.clock import SystemClock
from streams.engine.alerts.alert import Address, Alert
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from tests.logged import logged
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import SECRET, SHARD, an_alert, resolved
from tests.notify.webhooks.server import serving

PATIENCE_MS = 20_000


async def delivered(
    store: MemoryStore, address: Address, alerts: Iterable[Alert], allow_hosts: str, **options: Any
) -> Notifier:
    """Run a notifier until it has nothing left to do."""
    notifier = Notifier(
        store,
        lambda _: [address],
        NotifierOptions(webhook_secret=SECRET, allow_hosts=allow_hosts, **options),
        SystemClock(),
        jitter_ratio=lambda: 0.001,
    )
    running = asyncio.create_task(notifier.run())
    notifier.offer(alerts, SHARD)
    assert await notifier.drain(PATIENCE_MS) == 0
    await notifier.stop()
    await running
    return notifier


def outcomes(store: MemoryStore) -> list[tuple[str, int, str, int]]:
    rows = store.select(DELIVERIES).to_pylist()
    rows.sort(key=lambda row: (row["status"], row["attempt"]))
    return [(row["status"], row["attempt"], row["outcome"], row["http_status"]) for row in rows]


def test_the_receiver_verifies_both_messages_in_their_order_at_once() -> None:
    async def go() -> tuple[list[Received], MemoryStore]:
        got: list[Received] = []
        receiver = WebhookReceiver(SECRET, got.append)
        await receiver.start()
        store = MemoryStore()
        address = Address("webhook", receiver.url)
        await delivered(store, address, [an_alert(), resolved()], receiver.host_port)
        await receiver.stop()
        assert (receiver.refused, receiver.repeated) == (0, 0)
        return got, store

    got, store = asyncio.run(go())
    assert [(each.type, each.data["subject"]["name"]) for each in got] == [
        ("alert.firing", "job-1"),
        ("alert.resolved", "job-1"),
    ]
    assert outcomes(store) == [("firing", 1, "delivered", 204), ("resolved", 1, "delivered", 204)]


def test_a_receiver_that_is_ill_for_a_while() -> None:
    async def go() -> tuple[list[str], MemoryStore]:
        ids: list[str] = []

        async def ill(request: web.Request) -> web.Response:
            ids.append(request.headers["webhook-id"])
            return web.Response(status=[500, 429, 204][len(ids) - 1])

        store = MemoryStore()
        async with serving(ill) as host_port:
            address = Address("webhook", f"http://{host_port}/hunter2")
            await delivered(store, address, [an_alert()], "127.0.0.1")
        return ids, store

    ids, store = asyncio.run(go())
    assert len(ids) == 3
    assert len(set(ids)) == 1
    assert outcomes(store) == [
        ("firing", 1, "retrying", 500),
        ("firing", 2, "retrying", 429),
        ("firing", 3, "delivered", 204),
    ]


def test_an_owner_cannot_make_us_call_this_machine(caplog: Any) -> None:
    async def go() -> tuple[int, MemoryStore]:
        calls: list[str] = []

        async def count(request: web.Request) -> web.Response:
            calls.append(request.path)
            return web.Response()

        store = MemoryStore()
        async with serving(count) as host_port:
            for kind in ("webhook", "slack"):
                address = Address(kind, f"https://{host_port}/hunter2")
                await delivered(store, address, [an_alert(kind)], "")
        return len(calls), store

    calls, store = asyncio.run(go())
    assert calls == 0
    assert outcomes(store) == [("firing", 1, "refused", 0)] * 2
    assert "hunter2" not in logged(caplog) + str(store.select(DELIVERIES).to_pylist())


def test_many_alerts_at_once() -> None:
    names = [f"job-{number}" for number in range(200)]

    async def go() -> tuple[list[Received], Notifier]:
        got: list[Received] = []
        receiver = WebhookReceiver(SECRET, got.append)
        await receiver.start()
        alerts = [make(name) for make in _both for name in names]
        address = Address("webhook", receiver.url)
        notifier = await delivered(MemoryStore(), address, alerts, receiver.host_port)
        await receiver.stop()
        return got, notifier

    got, notifier = asyncio.run(go())
    assert notifier.outcomes == {"delivered": 400}
    for name in names:
        told = [each.type for each in got if each.data["subject"]["name"] == name]
        assert told == ["alert.firing", "alert.resolved"]


_both: tuple[Callable[[str], Alert], Callable[[str], Alert]] = (an_alert, resolved)
