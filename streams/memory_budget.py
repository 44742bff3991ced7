"""Shares a number of bytes among senders: charged as they arrive, and taken from the slowest sender when all are in use.

What a sender says that it will send holds nothing. Times are handed in, and the owner of a message ends it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

#: The pace of a message that is not slow; who is ahead of it has this much of credit at most.
PACE_BYTES_PER_MS: Final = 64
CREDIT_MS: Final = 1_000


class HeldBytes:
    """The bytes of one message, from its beginning until `MemoryBudget.release`."""

    __slots__ = ("due_ms", "evict", "is_evicted", "owner", "size_bytes")

    def __init__(self, owner: str, evict: Callable[[], None], now_ms: int) -> None:
        self.owner = owner
        self.evict = evict
        self.due_ms = now_ms + CREDIT_MS  # when more must have come, to keep pace
        self.size_bytes = 0
        self.is_evicted = False

    def progressed(self, size_bytes: int, now_ms: int) -> None:
        """Record bytes that came; a burst earns credit for a second at most, as what follows may never come."""
        earned_ms = max(self.due_ms, now_ms) + size_bytes // PACE_BYTES_PER_MS
        self.due_ms = min(earned_ms, now_ms + CREDIT_MS)


class MemoryBudget:
    """The bytes that all messages of one kind may hold.

    Args:
        most_bytes: Of all messages.
        share_bytes: Of all messages of one owner, which is whatever the caller tells senders apart by.
    """

    def __init__(self, most_bytes: int, share_bytes: int | None = None) -> None:
        self._most_bytes = most_bytes
        self._share_bytes = most_bytes if share_bytes is None else share_bytes
        self._arriving: dict[str, dict[HeldBytes, None]] = {}  # by owner; ordered sets
        self._held_bytes: dict[str, int] = {}  # by owner
        self.held_bytes = 0
        self.evicted = 0  # messages that lost their bytes to others

    def open(self, owner: str, evict: Callable[[], None], now_ms: int) -> HeldBytes:
        """A message that has no bytes yet; `evict` is called once if it must end, and nothing of it is held then."""
        held = HeldBytes(owner, evict, now_ms)
        self._arriving.setdefault(owner, {})[held] = None
        return held

    def charge(self, held: HeldBytes, size_bytes: int, now_ms: int) -> bool:
        """Hold more bytes of a message; False: there is no room, or it was evicted, and the caller must end it.

        Room is made by the slowest messages that are still arriving: of the same owner while that exceeds its share,
        otherwise of the owner that holds most. A message that is slower than all of those makes none.
        """
        if held.is_evicted:
            return False
        held.progressed(size_bytes, now_ms)
        while self._held_bytes.get(held.owner, 0) + size_bytes > self._share_bytes:
            if not self._evict_slowest(self._arriving.get(held.owner, ()), held, size_bytes):
                return False
        while self.held_bytes + size_bytes > self._most_bytes:
            greediest = sorted(self._arriving, key=lambda owner: self._held_bytes.get(owner, 0), reverse=True)
            if not any(self._evict_slowest(self._arriving[each], held, size_bytes) for each in greediest):
                return False
        self._add(held, size_bytes)
        return True

    def refund(self, held: HeldBytes, size_bytes: int) -> None:
        """Give back some bytes of a message."""
        self._add(held, -size_bytes)

    def settle(self, held: HeldBytes) -> None:
        """Keep a message, which has arrived: it waits for us now, and makes no room for others."""
        of_owner = self._arriving.get(held.owner, {})
        of_owner.pop(held, None)
        if not of_owner:
            self._arriving.pop(held.owner, None)

    def release(self, held: HeldBytes) -> None:
        """Give back all bytes of a message, which is over."""
        self.settle(held)
        self._add(held, -held.size_bytes)

    def _evict_slowest(self, among: Iterable[HeldBytes], asking: HeldBytes, size_bytes: int) -> bool:
        """Evict the slowest of some messages; of equally slow ones the largest. False: none is slower than the asking one."""
        others = [each for each in among if each is not asking and each.size_bytes]
        slowest = min(others, key=lambda each: (each.due_ms, -each.size_bytes), default=None)
        if slowest is None:
            return False
        own = (asking.due_ms, -(asking.size_bytes + size_bytes))
        if own < (slowest.due_ms, -slowest.size_bytes):
            return False
        slowest.is_evicted = True
        self.evicted += 1
        self.release(slowest)
        slowest.evict()
        return True

    def _add(self, held: HeldBytes, size_bytes: int) -> None:
        if not size_bytes:
            return
        held.size_bytes += size_bytes
        self.held_bytes += size_bytes
        of_owner = self._held_bytes.get(held.owner, 0) + size_bytes
        if of_owner:
            self._held_bytes[held.owner] = of_owner
        else:
            self._held_bytes.pop(held.owner, None)
