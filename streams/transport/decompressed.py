"""Counts the decompressed bytes that are still in memory."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Final

from streams.engine.kernels.arrays import U8

_PAUSE_S: Final = 0.05
_PAUSES: Final = 20


class DecompressedBytes:
    """Counts bytes of one consumer; added in its thread, released in any."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._sizes: dict[int, int] = {}
        self._next = 0

    @property
    def bytes(self) -> int:
        """The bytes in memory."""
        return sum(list(self._sizes.values()))

    @property
    def is_full(self) -> bool:
        """Whether only the unavoidable should be added."""
        return self.bytes > self._limit_bytes

    def add(self, data: U8) -> None:
        """Count an array until it is garbage-collected."""
        self._next += 1
        self._sizes[self._next] = data.nbytes
        weakref.finalize(data, self._sizes.pop, self._next).atexit = False

    def watch(self, fetcher: Any) -> None:
        """Make each fetch from now on wait for room, for a limited time."""
        send: Callable[[Any, Any, Any], Awaitable[bool]] = fetcher._proc_fetch_request

        async def paced(assignment: Any, broker: Any, request: Any) -> bool:
            for _ in range(_PAUSES):
                if not self.is_full:
                    break
                await asyncio.sleep(_PAUSE_S)
            return await send(assignment, broker, request)

        fetcher._proc_fetch_request = paced
