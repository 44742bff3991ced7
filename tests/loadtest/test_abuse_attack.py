"""The attackers do what they are named after, against a server that answers as it is told, and count how it ended."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import pytest

from loadtest import abuse_attack, abuse_bombs
from loadtest.abuse_attack import Met, status_of
from loadtest.abuse_bombs import BOMBS, Reading
from loadtest.abuse_wire import HOST, Target
from sinks.query.limits import TEXT_MAX_BYTES

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="whole loopback net")

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
REFUSED = b'HTTP/1.1 400 Bad Request\r\n\r\n{"error": "too much"}'
BUSY = b"HTTP/1.1 503 Service Unavailable\r\n\r\n{}"


async def attacked(
    handler: Handler,
    attack: Callable[[Target, Met], Awaitable[None]],
    done: Callable[[Met], bool],
    addresses: int = 4,
) -> Met:
    """Attack a server until something is met."""
    met = Met()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            await handler(reader, writer)
        writer.close()

    server = await asyncio.start_server(handle, HOST, 0)
    async with server:
        task = asyncio.ensure_future(
            attack(Target(server.sockets[0].getsockname()[1], "right", addresses), met)
        )
        async with asyncio.timeout(20):
            while not done(met):
                assert not task.done(), task.result()
                await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    return met


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_AGAIN_S", "_BYTE_EVERY_S", "_SLOW_READ_EVERY_S", "_GUESS_EVERY_S"):
        monkeypatch.setattr(abuse_attack, name, 0.0)


@pytest.mark.parametrize(
    ("number", "first"), [(0, b"GET /healthz HTTP/1.1\r\n"), (1, b"POST /api/v1/query HTTP/1.1\r\n")]
)
def test_slow_clients_never_come_to_an_end(number: int, first: bytes) -> None:
    heard: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        rest = await reader.readexactly(400)
        if number:
            assert b"Authorization: Bearer right\r\n" in rest
            assert b"Content-Length: 16000\r\n" in rest
        else:
            assert b"\r\n\r\n" not in rest

    met = asyncio.run(
        attacked(
            handler, lambda target, met: abuse_attack.slow(target, number, met), lambda met: bool(met.counts)
        )
    )
    assert heard[0] == first
    assert list(met.counts) == ["slow body" if number else "slow header"]


def test_idle_clients_come_again_from_their_own_address() -> None:
    peers: set[str] = set()

    async def handler(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peers.add(writer.get_extra_info("peername")[0])

    met = asyncio.run(
        attacked(
            handler,
            lambda target, met: abuse_attack.idle(target, 6, met),
            lambda met: met.counts["idle"]["closed"] >= 2,
        )
    )
    assert met.counts["idle"]["closed"] >= 2
    assert peers == {"127.1.0.3"}


def test_without_addresses_attackers_have_that_of_honest_clients() -> None:
    assert Target(1, "", 0).source(7) == HOST
    assert len({Target(1, "", 300).source(number) for number in range(600)}) == 300


def test_deaf_listeners_read_nothing_and_notice_their_end() -> None:
    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert b"GET /api/v1/stream" in await reader.readuntil(b"\r\n\r\n")
        writer.write(OK)
        await writer.drain()
        writer.transport.abort()

    met = asyncio.run(
        attacked(
            handler,
            lambda target, met: abuse_attack.deaf(target, 0, met),
            lambda met: bool(met.counts["deaf"]),
        )
    )
    assert met.counts["deaf"]["closed"] >= 1


def test_a_guesser_shows_another_token_each_time() -> None:
    shown: list[bytes] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        shown.extend(line for line in head.split(b"\r\n") if line.startswith(b"Authorization"))
        writer.write(BUSY.replace(b"503", b"401"))

    met = asyncio.run(
        attacked(
            handler,
            lambda target, met: abuse_attack.guesser(target, 0, met),
            lambda met: met.counts["guess"]["401"] >= 3,
        )
    )
    assert met.counts["guess"]["401"] >= 3
    assert len(set(shown)) == len(shown) >= 3
    assert b"Authorization: Bearer right" not in shown


def test_a_bomb_is_thrown_again_while_all_turns_are_taken_and_its_answer_is_kept() -> None:
    asked: list[str] = []

    async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].split()[0])
        asked.append(json.loads(await reader.readexactly(size))["sql"])
        writer.write(BUSY if len(asked) == 1 else REFUSED)

    first = BOMBS[0]
    met = asyncio.run(
        attacked(
            handler, lambda target, met: abuse_attack.bomber(target, 0, 8, met), lambda met: len(met.said) > 1
        )
    )
    assert asked[:2] == [first.sql, first.sql]
    assert asked[2] == BOMBS[1].sql
    assert met.counts[f"bomb {first.name}"] == {"503": 1, "400": 1}
    assert met.said[first.name] == '{"error": "too much"}'
    assert first.name in met.longest_s


def test_every_client_throws_all_bombs_and_begins_elsewhere() -> None:
    orders = [abuse_bombs.of_client(number, 8) for number in range(8)]
    assert all(set(order) == set(BOMBS) for order in orders)
    assert len({order[0].name for order in orders}) == 8
    assert {each.reading for each in BOMBS} == set(Reading)
    assert len({each.name for each in BOMBS}) == len(BOMBS)


def test_one_bomb_alone_is_too_long_to_be_taken() -> None:
    assert [each.name for each in BOMBS if len(each.sql) > TEXT_MAX_BYTES] == ["100 kB of blanks"]


def test_what_is_no_answer_has_no_status() -> None:
    assert [status_of(answer) for answer in (OK, BUSY, b"", b"nonsense")] == [
        "200",
        "503",
        "closed",
        "closed",
    ]


def test_a_worker_that_has_stopped_is_told_from_one_that_is_full() -> None:
    async def go() -> Met:
        met = Met()
        server = await asyncio.start_server(lambda *_: None, HOST, 0)
        port = server.sockets[0].getsockname()[1]
        server.close()
        await server.wait_closed()
        tasks = [
            asyncio.ensure_future(abuse_attack.idle(Target(port, "", 0), 0, met)),
            asyncio.ensure_future(abuse_attack.bomber(Target(port, "", 0), 0, 8, met)),
        ]
        async with asyncio.timeout(20):
            while True:
                await asyncio.sleep(0)
                if len(met.counts) == len(tasks):
                    break
        for task in tasks:
            task.cancel()
        return met

    met = asyncio.run(go())
    assert set(met.counts["idle"]) == {"nobody listens"}
    assert set(met.counts[f"bomb {BOMBS[0].name}"]) == {"nobody listens"}
    assert met.longest_s == {}
