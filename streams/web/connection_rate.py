"""Limits the rate at which one address may open connections: a token bucket per address.

It must not read a clock. It remembers only addresses of the last seconds.
"""

from __future__ import annotations

from typing import Final

#: An address may stand for all that are behind a proxy: so many that idle ones which come again leave room for others, and
#: few enough that admitting them, of 0.2 ms each, leaves the event loop its time.
BURST: Final = 250
PER_S: Final = 125


class ArrivalRate:
    """The token buckets of all addresses; an unknown address has a full one."""

    def __init__(self, burst: int = BURST, per_s: int = PER_S) -> None:
        self._full = burst * 1_000
        self._per_s = per_s
        self._buckets: dict[str, tuple[int, int]] = {}  # (tokens in thousandths, when they were counted)

    def allow(self, address: str, now_ms: int) -> bool:
        """Take a token of this address; return False if there is none."""
        tokens = self._tokens(address, now_ms)
        allowed = tokens >= 1_000
        self._buckets[address] = (tokens - 1_000 if allowed else tokens, now_ms)
        return allowed

    def forget(self, now_ms: int) -> None:
        """Drop addresses whose bucket is full again."""
        full = [address for address in self._buckets if self._tokens(address, now_ms) >= self._full]
        for address in full:
            del self._buckets[address]

    def _tokens(self, address: str, now_ms: int) -> int:
        tokens, at_ms = self._buckets.get(address, (self._full, now_ms))
        return min(tokens + (now_ms - at_ms) * self._per_s, self._full)

    def __len__(self) -> int:
        return len(self._buckets)
