"""Limits the rate of requests: a token bucket for each client, by a name such as its address.

It remembers only those of the last seconds.
"""

from __future__ import annotations


class RequestRate:
    """The token buckets by name; an unknown name has a full one."""

    def __init__(self, burst: int, per_s: int) -> None:
        self._full = burst * 1_000
        self._per_s = per_s
        self._buckets: dict[str, tuple[int, int]] = {}  # (tokens in thousandths, when they were counted)

    def allow(self, name: str, now_ms: int) -> bool:
        """Take a token of this name; return False if there is none."""
        tokens = self._tokens(name, now_ms)
        allowed = tokens >= 1_000
        self._buckets[name] = (tokens - 1_000 if allowed else tokens, now_ms)
        return allowed

    def forget(self, now_ms: int) -> None:
        """Drop names whose bucket is full again."""
        full = [name for name in self._buckets if self._tokens(name, now_ms) >= self._full]
        for name in full:
            del self._buckets[name]

    def _tokens(self, name: str, now_ms: int) -> int:
        tokens, at_ms = self._buckets.get(name, (self._full, now_ms))
        return min(tokens + (now_ms - at_ms) * self._per_s, self._full)

    def __len__(self) -> int:
        return len(self._buckets)
