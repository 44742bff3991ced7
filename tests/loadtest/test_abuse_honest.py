"""Honest clients time each answer, count those that are none, and find snapshots wherever a piece of the stream ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress

import pytest

from loadtest import abuse_honest
from loadtest.abuse_honest import LISTENERS, Honest, Seen
from loadtest.abuse_wire import HOST, Target

STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\nretry: 2000\n\nevent: sna"
REST = b"pshot\ndata: {}\n\nevent: fault\ndata: {}\n\nevent: snapshot\ndata: {}\n\n"


async def seen_of(handler: Callable[[str], list[bytes]], until: Callable[[list[Seen]], bool]) -> list[Seen]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        with suppress(ConnectionError):
            for piece in handler(head):
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(0)
        writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    async with server:
        honest = Honest(Target(server.sockets[0].getsockname()[1], "right", 4))
        task = asyncio.ensure_future(honest.go())
        async with asyncio.timeout(20):
            while not until(honest.seen):
                assert not task.done(), task.result()
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return honest.seen


def answer(status: str) -> list[bytes]:
    return [f"HTTP/1.1 {status}\r\nContent-Length: 2\r\n\r\n{{}}".encode()]


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HEALTH_EVERY_S", "ASK_EVERY_S"):
        monkeypatch.setattr(abuse_honest, name, 0.0)


def test_each_question_is_counted_with_its_status() -> None:
    shown: set[bool] = set()

    def handler(head: str) -> list[bytes]:
        if head.startswith("GET /healthz"):
            return answer("200 OK")
        if head.startswith("GET /api/v1/jobs?limit="):
            return answer("503 Service Unavailable")
        if head.startswith("POST /api/v1/query"):
            shown.add("Authorization: Bearer right" in head)
            return []  # closed without a word
        return [STREAM, REST]

    def enough(seen: list[Seen]) -> bool:
        return {each.what for each in seen} == {"healthz", "jobs", "sql", "stream"}

    seen = asyncio.run(seen_of(handler, enough))
    outcomes = {(each.what, each.outcome) for each in seen if each.outcome != "unanswered"}
    assert ("healthz", "200") in outcomes
    assert ("jobs", "503") in outcomes
    assert ("sql", "ServerDisconnectedError") in outcomes
    assert shown == {True}
    assert all(each.ms >= 0 and each.at_s > 0 for each in seen)


def test_a_snapshot_counts_once_wherever_it_is_cut() -> None:
    def handler(head: str) -> list[bytes]:
        return [STREAM, REST] if "/api/v1/stream" in head else answer("200 OK")

    def enough(seen: list[Seen]) -> bool:
        return sum(each.what == "stream" and each.outcome == "closed" for each in seen) == LISTENERS

    seen = asyncio.run(seen_of(handler, enough))
    assert sum(each.what == "stream" and each.outcome == "200" for each in seen) == 2 * LISTENERS


def test_a_stream_that_is_refused_is_counted() -> None:
    def handler(head: str) -> list[bytes]:
        return answer("429 Too Many Requests") if "/api/v1/stream" in head else answer("200 OK")

    seen = asyncio.run(seen_of(handler, lambda seen: any(each.what == "stream" for each in seen)))
    assert next(each.outcome for each in seen if each.what == "stream") == "429"
