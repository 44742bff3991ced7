"""Attackers of the doors of `trainfare serve`: bodies that do not come or stop, and a log's port at which nothing is said."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

from loadtest.abuse_attack import Met, again, status_of
from loadtest.abuse_wire import HOST, Target, connect, line_from, receive, send

HOOK: Final = "/api/v1/hooks/github"
EVENTS: Final = "/api/v1/events?topic=jobs"
#: As much as a body may have.
_BODY_BYTES: Final = 4 * 2**20
_PIECE_BYTES: Final = 2**16
_DRIP_EVERY_S: Final = 0.5
_JSON: Final = "Content-Type: application/json"
_LENGTH: Final = f"Content-Length: {_BODY_BYTES}"


@dataclass(frozen=True)
class Silent:
    """How many come, by door; `log_port` is that of the log, 0: there is none."""

    hooks: int = 0
    events: int = 0
    stopping: int = 0  # bodies of webhooks that stop before their last byte
    log: int = 0
    log_port: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return self.hooks + self.events + self.stopping + self.log


async def silent_log(target: Target, number: int, port: int, met: Met) -> None:
    """Connect to the port of the log and say nothing."""

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await asyncio.get_running_loop().sock_connect(line, (HOST, port))
            while await receive(line):
                pass
            return "closed"

    await again("silent at the log", met, attack)


async def silent_hook(target: Target, number: int, met: Met) -> None:
    """Announce a body of a webhook, by its length or in chunks, or begin to drip it; without a signature."""
    length = "Transfer-Encoding: chunked" if number % 3 == 1 else _LENGTH

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await connect(line, target)
            await send(line, _head(target, HOOK, _JSON, length))
            while number % 3 == 2:
                await send(line, b" ")
                await asyncio.sleep(_DRIP_EVERY_S)
            return status_of(await receive(line))

    await again("silent hook", met, attack)


async def stopping_hook(target: Target, number: int, met: Met) -> None:
    """Send all of a body but its last byte."""

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await connect(line, target)
            await send(line, _head(target, HOOK, _JSON, _LENGTH))
            for _ in range(_BODY_BYTES // _PIECE_BYTES - 1):
                await send(line, b" " * _PIECE_BYTES)
            await send(line, b" " * (_PIECE_BYTES - 1))
            return status_of(await receive(line))

    await again("stopping hook", met, attack)


async def silent_events(target: Target, number: int, met: Met) -> None:
    """Announce a body of events, with a right token or, every second one, without."""
    shown = () if number % 2 else (f"Authorization: Bearer {target.token}",)

    async def attack() -> str:
        with line_from(target.source(number)) as line:
            await connect(line, target)
            await send(line, _head(target, EVENTS, _JSON, _LENGTH, *shown))
            return status_of(await receive(line))

    await again("silent events", met, attack)


def _head(target: Target, path: str, *headers: str) -> bytes:
    return target.request(path, *headers).replace(b"GET ", b"POST ", 1)
