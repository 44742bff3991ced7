"""Reads the body of a request into memory that its sender is charged for as it arrives.

It must not believe a Content-Length, except to refuse at once what would be too large.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from aiohttp import web

from streams.memory_budget import HeldBytes, MemoryBudget
from streams.web.errors import ApiError

_RETRY_AFTER_S: Final = 1


class ReceivedBody:
    """A whole body, and the memory that is charged for it while its request is judged and written."""

    def __init__(self, data: bytes, budget: MemoryBudget, held: HeldBytes, now_ms: Callable[[], int]) -> None:
        self.data = data
        self._budget = budget
        self._held = held
        self._now_ms = now_ms

    def reserve(self, size_bytes: int) -> None:
        """Charge for what will be made of the body.

        Raises:
            ApiError: There is no room.
        """
        if not self._budget.charge(self._held, size_bytes, self._now_ms()):
            raise busy()

    def replace(self, data: bytes) -> None:
        """Hold other bytes instead, and be charged for these alone."""
        self.data = data
        self._budget.refund(self._held, self._held.size_bytes - len(data))


@asynccontextmanager
async def received_body(
    request: web.Request, most_bytes: int, budget: MemoryBudget, owner: str, now_ms: Callable[[], int]
) -> AsyncIterator[ReceivedBody]:
    """Read the body, and be charged for it until the end of the block.

    Args:
        request: Of which nothing was read yet.
        most_bytes: Limit of its body.
        budget: What is charged.
        owner: Who is charged.
        now_ms: A monotonic clock.

    Raises:
        ApiError: The body is too large, or there is no room for it: 503, as it is the slowest of those that arrive.
    """
    if (request.content_length or 0) > most_bytes:
        raise _too_large(most_bytes)
    loop = asyncio.get_running_loop()
    ending = asyncio.timeout(None)
    held = budget.open(owner, lambda: ending.reschedule(loop.time()), now_ms())
    try:
        data = bytearray()
        try:
            async with ending:
                async for piece in request.content.iter_any():
                    if len(data) + len(piece) > most_bytes:
                        raise _too_large(most_bytes)
                    if not budget.charge(held, len(piece), now_ms()):
                        raise busy()
                    data += piece
        except TimeoutError:
            raise busy() from None
        if held.is_evicted:
            raise busy()
        budget.settle(held)
        body = ReceivedBody(bytes(data), budget, held, now_ms)
        del data
        yield body
    finally:
        budget.release(held)


def busy() -> ApiError:
    """What answers a request for whose body there is no room."""
    return ApiError(503, "too many bodies wait, send the same again", "busy", retry_after_s=_RETRY_AFTER_S)


def _too_large(most_bytes: int) -> ApiError:
    return ApiError(413, f"the body is larger than {most_bytes} bytes; send less at once")
