"""Server-sent events: one snapshot a second while anyone listens, computed once for all listeners.

A slow listener gets the newest snapshot when it is ready, never the ones in between.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final
from weakref import WeakSet

from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.places import Client, PlaceHolder, Places

logger = logging.getLogger(__name__)

LISTENERS_MAX: Final = 64
PER_CLIENT_MAX: Final = 8
#: Of all listeners, those of one token, from any addresses; and those of one address.
_OF_ONE_PERCENT: Final = 75
INTERVAL_S: Final = 1.0
KEEP_ALIVE_S: Final = 15.0
_FIRST: Final = b"retry: 2000\n\n"
_KEEP_ALIVE: Final = b": still here\n\n"
#: A snapshot is written in pieces of this size, which all listeners share without copies.
PIECE_BYTES: Final = 32 * 1024


class Broadcaster:
    """Starts with the first listener and stops after the last."""

    def __init__(
        self,
        make: Callable[[], Awaitable[object]],
        *,
        interval_s: float = INTERVAL_S,
        keep_alive_s: float = KEEP_ALIVE_S,
        listeners_max: int = LISTENERS_MAX,
        per_client_max: int = PER_CLIENT_MAX,
    ) -> None:
        self._make = make
        self._interval_s = interval_s
        self._keep_alive_s = keep_alive_s
        self._listeners_max = listeners_max
        self._per_client_max = per_client_max
        of_one = max(1, listeners_max * _OF_ONE_PERCENT // 100)
        self._places = Places(listeners_max, of_one, of_one)
        self._seats: Counter[Client] = Counter()
        self._news: set[asyncio.Event] = set()
        self._task: asyncio.Task[None] | None = None
        self._newest = b""
        self._closed = False
        self.computed = 0
        self._beside: WeakSet[Broadcaster] = WeakSet()

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._news) + sum(each.listeners for each in self._beside)

    def beside(self, make: Callable[[], Awaitable[object]]) -> Broadcaster:
        """Another one with what `make` makes: places are shared, and it is closed with this one."""
        other = Broadcaster(
            make,
            interval_s=self._interval_s,
            keep_alive_s=self._keep_alive_s,
            listeners_max=self._listeners_max,
            per_client_max=self._per_client_max,
        )
        other._places, other._seats = self._places, self._seats
        other._closed = self._closed
        self._beside.add(other)
        return other

    @contextmanager
    def seat(self, client: Client) -> Iterator[None]:
        """Reserve a place for one listener.

        Raises:
            ApiError: There are too many listeners, in total or of this client.
        """
        if self._closed:
            raise ApiError(503, "the worker is stopping")
        holder = self._places.full(client)
        if holder is PlaceHolder.ALL:
            message = f"{self._listeners_max} listen already; ask /api/v1/jobs and /api/v1/burn instead"
            raise ApiError(503, message, "too_many_listeners")
        if self._seats[client] >= self._per_client_max:
            message = f"{self._per_client_max} listen already with this token and from this address; end one of them"
            raise ApiError(429, message, "too_many_listeners", retry_after_s=5)
        if holder is not None:
            message = f"too many listen already with this {holder}; ask /api/v1/jobs and /api/v1/burn instead"
            raise ApiError(429, message, "too_many_listeners", retry_after_s=5)
        self._seats[client] += 1
        try:
            with self._places.held(client):
                yield
        finally:
            self._seats[client] -= 1
            if not self._seats[client]:
                del self._seats[client]

    async def serve(self, write: Callable[[memoryview], Awaitable[None]]) -> None:
        """Write events until the listener leaves (`write` raises) or the server stops.

        The server's connection limits close a listener that does not read.
        """
        news = asyncio.Event()
        self._news.add(news)
        try:
            if self._task is None:
                self._newest = b""
                self._task = asyncio.create_task(self._run())
            elif self._newest:
                news.set()
            await self._write(write, _FIRST)
            while not self._closed:
                try:
                    async with asyncio.timeout(self._keep_alive_s):
                        await news.wait()
                except TimeoutError:
                    await self._write(write, _KEEP_ALIVE)
                    continue
                news.clear()
                if self._newest and not self._closed:
                    await self._write(write, self._newest)
        finally:
            self._news.discard(news)
            if not self._news and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _write(self, write: Callable[[memoryview], Awaitable[None]], event: bytes) -> None:
        whole = memoryview(event)
        for start in range(0, len(whole), PIECE_BYTES):
            await write(whole[start : start + PIECE_BYTES])

    def close(self) -> None:
        """Disconnect every listener."""
        self._closed = True
        for each in self._beside:
            each.close()
        for news in self._news:
            news.set()

    async def _run(self) -> None:
        while True:
            self._newest = await self._event()
            self.computed += 1
            for news in self._news:
                news.set()
            await asyncio.sleep(self._interval_s)

    async def _event(self) -> bytes:
        try:
            return _framed("snapshot", await self._make())
        except ApiError as fault:
            return _framed("fault", {"error": {"code": fault.code, "message": fault.message}})
        except Exception:
            # Listeners stay: a temporary fault is over at the next snapshot.
            logger.exception(
                "snapshot for the live page failed", extra={"runbook": "docs/trouble.md#internal-fault"}
            )
            return _framed("fault", {"error": {"code": "internal", "message": "the worker's log says why"}})


def _framed(event: str, value: object) -> bytes:
    return b"event: " + event.encode() + b"\ndata: " + to_json(value) + b"\n\n"
