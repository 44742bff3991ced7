"""The attackers: idle, slow, deaf, sending bombs, guessing; each goes on until it is cancelled, and counts what it met."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final

from loadtest import abuse_bombs
from loadtest.abuse_bombs import Bomb, Reading
from loadtest.abuse_wire import Target, connect, gone, line_from, receive, send

_AGAIN_S: Final = 1.0
_BYTE_EVERY_S: Final = 0.5
_DEAF_RECEIVE_BYTES: Final = 4_096
_SLOW_BODY_BYTES: Final = 16_000
_SLOW_READ_EVERY_S: Final = 0.25
_LEAVES_AFTER_S: Final = 1.5
_GUESS_EVERY_S: Final = 0.05
#: No query lasts longer: ten seconds for a turn, thirty to run, some to end; but an answer that is read slowly may.
_GIVES_UP_S: Final = 60.0
#: Not now: all turns are taken, or the worker has stopped.
BUSY: Final = frozenset({"429", "503", "nobody listens"})


class Met:
    """What attackers met: how often each attack ended how; of each bomb the longest time, and what was said last."""

    def __init__(self) -> None:
        self.counts: dict[str, Counter[str]] = defaultdict(Counter)
        self.longest_s: dict[str, float] = {}
        self.said: dict[str, str] = {}

    def bomb(self, name: str, outcome: str, for_s: float) -> None:
        """Remember one bomb; how long it took counts if it had its turn."""
        self.counts[f"bomb {name}"][outcome] += 1
        if outcome not in BUSY:
            self.longest_s[name] = max(self.longest_s.get(name, 0.0), for_s)


async def again(name: str, met: Met, attack: Callable[[], Awaitable[str]], pause_s: float = _AGAIN_S) -> None:
    """Attack, count how it ended, wait a little, for ever."""
    while True:
        try:
            outcome = await attack()
        except OSError as fault:
            outcome = _word(fault)
        met.counts[name][outcome] += 1
        await asyncio.sleep(pause_s * random.uniform(0.5, 1.5))


async def idle(target: Target, number: int, met: Met) -> None:
    """Say nothing, or ask once and then say nothing."""

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await connect(line, target)
            if number % 2:
                await send(line, target.request("/healthz"))
            while await receive(line):
                pass
            return "closed"

    await again("idle", met, attack)


async def slow(target: Target, number: int, met: Met) -> None:
    """Send a header, or a body that has the right token, a byte at a time."""

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await connect(line, target)
            if number % 2:
                head = target.request("/api/v1/query", body=b" " * _SLOW_BODY_BYTES)
                await send(line, head[:-_SLOW_BODY_BYTES])
            else:
                await send(line, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nX: ")
            while True:
                await send(line, b" ")
                await asyncio.sleep(_BYTE_EVERY_S)

    await again("slow body" if number % 2 else "slow header", met, attack)


async def deaf(target: Target, number: int, met: Met) -> None:
    """Listen to the stream and never read."""

    async def attack() -> str:
        with line_from(target.source(number), _DEAF_RECEIVE_BYTES) as line:
            await connect(line, target)
            await send(line, target.request("/api/v1/stream"))
            await gone(line)
            return "closed"

    await again("deaf", met, attack)


async def guesser(target: Target, number: int, met: Met) -> None:
    """Try tokens, whatever is said about waiting."""

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await connect(line, target)
            wrong = replace(target, token=f"{random.getrandbits(128):032x}")
            await send(line, wrong.query("SELECT 1"))
            return status_of(await receive(line))

    await again("guess", met, attack, _GUESS_EVERY_S)


async def bomber(target: Target, number: int, clients: int, met: Met) -> None:
    """Send bombs one after the other."""
    while True:
        for bomb in abuse_bombs.of_client(number, clients):
            while True:
                if await _thrown(target, number, bomb, met) not in BUSY:
                    break
                await asyncio.sleep(_AGAIN_S)


async def _thrown(target: Target, number: int, bomb: Bomb, met: Met) -> str:
    began_s = time.monotonic()
    try:
        async with asyncio.timeout(_GIVES_UP_S):
            outcome = await _throw(target, number, bomb, met)
    except TimeoutError:
        outcome = f"given up after {_GIVES_UP_S:g} s"
    except OSError as fault:
        outcome = _word(fault)
    met.bomb(bomb.name, outcome, time.monotonic() - began_s)
    return outcome


async def _throw(target: Target, number: int, bomb: Bomb, met: Met) -> str:
    is_whole = bomb.reading in (Reading.WHOLE, Reading.LEAVES)
    with line_from(target.source(number), None if is_whole else _DEAF_RECEIVE_BYTES) as line:
        await connect(line, target)
        await send(line, target.query(bomb.sql))
        if bomb.reading is Reading.LEAVES:
            try:
                async with asyncio.timeout(_LEAVES_AFTER_S):
                    return status_of(await receive(line))
            except TimeoutError:
                return "left"
        if bomb.reading is Reading.NEVER:
            await gone(line)
            return "closed"
        answer = await receive(line, 4_096)
        status = status_of(answer)
        if status != "200":
            met.said[bomb.name] = answer.rpartition(b"\r\n\r\n")[2].decode("utf-8", "replace")[:300]
        while await receive(line, 4_096 if bomb.reading is Reading.SLOWLY else 2**18):
            if bomb.reading is Reading.SLOWLY:
                await asyncio.sleep(_SLOW_READ_EVERY_S)
        return status


def _word(fault: OSError) -> str:
    """A worker that listens refuses nobody, however full it is: one that has stopped does."""
    return "nobody listens" if isinstance(fault, ConnectionRefusedError) else type(fault).__name__


def status_of(answer: bytes) -> str:
    """The status of an answer by its beginning."""
    return answer[9:12].decode("ascii", "replace") if answer.startswith(b"HTTP/1.1 ") else "closed"
