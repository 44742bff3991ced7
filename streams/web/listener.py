"""Opens the listening sockets, admits connections, and closes slow ones at an interval."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from aiohttp import web

from streams.web import descriptors
from streams.web.accept_filter import awaited_bytes
from streams.web.address import group_of
from streams.web.connections import PATIENCE, ConnectionTable, RefusalReason, Timeouts
from streams.web.http_protocol import HttpProtocol, WriteGate, last_words

logger = logging.getLogger(__name__)

#: Connections wait here while the event loop is busy; if it is full, an honest client retries a second later.
_BACKLOG: Final = 1_024
#: Connections accepted per event of a listening socket; other work of the loop comes in between.
_ACCEPTS_PER_TURN: Final = 64
_SWEEP_S: Final = 0.25
_PAUSE_S: Final = 0.25
_LOGGED_EVERY_MS: Final = 10_000
_EXHAUSTED: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})
_FULL: Final = last_words(503, "too_many_connections", "too many connections")


@dataclass(frozen=True)
class ListenerOptions:
    """Limits of connections and the sweep interval."""

    connections_max: int
    connections_max_per_address: int
    patience: Timeouts = PATIENCE
    sweep_s: float = _SWEEP_S
    pause_s: float = _PAUSE_S


class Listener:
    """Listens from `open` to `close`; `server` is aiohttp's, which handles the requests."""

    def __init__(self, options: ListenerOptions, now_ms: Callable[[], int]) -> None:
        self._options = options
        self._now_ms = now_ms
        self._server: web.Server | None = None
        self._listening: list[socket.socket] = []
        self._opening: set[asyncio.Task[Any]] = set()
        self._timers: dict[object, asyncio.TimerHandle] = {}
        self._logged_ms = -_LOGGED_EVERY_MS
        self.connections = ConnectionTable(
            options.connections_max, options.connections_max_per_address, options.patience
        )
        self.pauses = 0  # pauses for lack of descriptors

    async def open(self, server: web.Server, host: str, port: int) -> int:
        """Listen on every address of the host; return the port.

        Raises:
            OSError: An address is not available.
        """
        self._server = server
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, kind, protocol, _, address in dict.fromkeys(found):
                self._listening.append(_listening(family, kind, protocol, address))
        except OSError:
            self.stop_listening()
            raise
        for each in self._listening:
            loop.add_reader(each.fileno(), self._ready, each)
        self._close_stalled()
        bound: int = self._listening[0].getsockname()[1]
        return bound

    def stop_listening(self) -> None:
        """Accept no new connections."""
        loop = asyncio.get_running_loop()
        for each in self._listening:
            loop.remove_reader(each.fileno())
            each.close()
        self._listening.clear()

    async def close(self) -> None:
        """Close the remaining connections."""
        self.stop_listening()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self.connections.cut_all()
        for task in self._opening:
            task.cancel()
        await asyncio.gather(*self._opening, return_exceptions=True)

    def _ready(self, listening: socket.socket) -> None:
        for _ in range(_ACCEPTS_PER_TURN):
            try:
                client, peer = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as fault:
                if fault.errno not in _EXHAUSTED:
                    raise
                self._pause(listening, fault)
                return
            client.setblocking(False)
            self._admit(client, group_of(str(peer[0])))

    def _pause(self, listening: socket.socket, fault: OSError) -> None:
        """Pause accepting: the socket stays readable, so the event loop would retry immediately and forever."""
        loop = asyncio.get_running_loop()
        self.pauses += 1
        now_ms = self._now_ms()
        if now_ms - self._logged_ms >= _LOGGED_EVERY_MS:
            self._logged_ms = now_ms
            logger.warning(
                "no connection can be taken, retrying",
                extra={
                    "reason": fault.strerror,
                    "limit": descriptors.limit(),
                    "runbook": "docs/access.md#limits-of-clients",
                },
            )
        loop.remove_reader(listening.fileno())
        self._timers[listening] = loop.call_later(self._options.pause_s, self._resume, listening)

    def _resume(self, listening: socket.socket) -> None:
        self._timers.pop(listening, None)
        if listening in self._listening:
            asyncio.get_running_loop().add_reader(listening.fileno(), self._ready, listening)

    def _admit(self, client: socket.socket, address: str) -> None:
        gate = WriteGate(client)
        connections, server = self.connections, self._server
        admitted = connections.admit(address, gate, self._now_ms())
        if isinstance(admitted, RefusalReason) or server is None:
            with suppress(OSError):  # best effort: a refused client need not learn why
                client.send(_FULL)
            client.close()
            return

        loop = asyncio.get_running_loop()

        def lost() -> None:
            connections.leave(admitted)

        async def open_line() -> None:
            try:
                await loop.connect_accepted_socket(
                    lambda: HttpProtocol(server, gate, admitted, lost, self._now_ms), client
                )
            except OSError:  # the client has left already
                client.close()
                lost()

        def received(data: bytes, is_early: bool) -> int:
            awaited = awaited_bytes(data)
            admitted.arriving(is_whole=not awaited, now_ms=self._now_ms())
            if awaited and not is_early and connections.is_pressed(address):
                return awaited
            task = loop.create_task(open_line())
            self._opening.add(task)
            task.add_done_callback(self._opening.discard)
            return 0

        gate.wait(received, lost)

    def _close_stalled(self) -> None:
        # Scheduled first, so that a fault in one sweep does not end all.
        self._timers[self] = asyncio.get_running_loop().call_later(self._options.sweep_s, self._close_stalled)
        self.connections.close_stalled(self._now_ms())


def _listening(family: int, kind: int, protocol: int, address: Any) -> socket.socket:
    made = socket.socket(family, kind, protocol)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        made.setblocking(False)
        made.bind(address)
        made.listen(_BACKLOG)
    except OSError:
        made.close()
        raise
    return made
