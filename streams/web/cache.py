"""Caches responses that many clients request: each is computed once, and concurrent requests share it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, Generic, NamedTuple, TypeVar

T = TypeVar("T")

#: Shorter than the stream's interval of a second, so that each snapshot is new.
TTL_MS = 900
#: A response is cached for this multiple of the time it took: whatever the store's size, it costs the store at most a
#: fifth of the time.
TTL_PER_COST = 5
_ENTRIES_MAX = 256


class _Entry(NamedTuple):
    task: asyncio.Task[Any]
    until_ms: Callable[[], float]


class Cache:
    """Single flight by key. `now_ms` is monotonic."""

    def __init__(
        self, now_ms: Callable[[], int], ttl_ms: int = TTL_MS, ttl_per_cost: int = TTL_PER_COST
    ) -> None:
        self._now_ms = now_ms
        self._ttl_ms = ttl_ms
        self._ttl_per_cost = ttl_per_cost
        self._entries: dict[Hashable, _Entry] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        """The value, computed again if it is too old."""
        entry = self._entries.get(key)
        if entry is None or entry.until_ms() < self._now_ms():
            entry = self._start(key, make)
        # A cancelled request must not cancel the computation for the others.
        found: T = await asyncio.shield(entry.task)
        return found

    def _start(self, key: Hashable, make: Callable[[], Awaitable[T]]) -> _Entry:
        until_ms = float("inf")  # while it is being computed
        began_ms = self._now_ms()

        async def run() -> T:
            nonlocal until_ms
            found = await make()
            now_ms = self._now_ms()
            until_ms = now_ms + max(self._ttl_ms, self._ttl_per_cost * (now_ms - began_ms))
            return found

        def done(task: asyncio.Task[T]) -> None:
            if task.cancelled() or task.exception() is not None:
                self._entries.pop(key, None)

        self._prune()
        task = asyncio.ensure_future(run())
        task.add_done_callback(done)
        entry = self._entries[key] = _Entry(task, lambda: until_ms)
        return entry

    def _prune(self) -> None:
        if len(self._entries) >= _ENTRIES_MAX:
            now_ms = self._now_ms()
            self._entries = {key: each for key, each in self._entries.items() if each.until_ms() >= now_ms}


class _CachedRow(NamedTuple, Generic[T]):
    value: T
    made_ms: int


class RowCache(Generic[T]):
    """Rows by name, several requested at a time: only those missing or too old are computed again."""

    def __init__(
        self,
        now_ms: Callable[[], int],
        make: Callable[[tuple[str, ...]], Awaitable[Mapping[str, T]]],
        ttl_ms: int = TTL_MS,
    ) -> None:
        self._now_ms = now_ms
        self._make = make
        self._least_ms = self._ttl_ms = ttl_ms
        self._rows: dict[str, _CachedRow[T]] = {}
        self._lock = asyncio.Lock()

    async def get(self, names: Iterable[str]) -> dict[str, T]:
        """The rows that exist for those names."""
        wanted = list(names)
        async with self._lock:
            old_ms = self._now_ms() - self._ttl_ms
            due = [name for name in wanted if name not in self._rows or self._rows[name].made_ms < old_ms]
            if due:
                began_ms = self._now_ms()
                made = await self._make(tuple(due))
                now_ms = self._now_ms()
                self._ttl_ms = max(self._least_ms, TTL_PER_COST * (now_ms - began_ms))
                forget_ms = now_ms - 2 * self._ttl_ms
                # Rows wanted now are kept even if a later request has a shorter lifetime.
                asked = set(wanted)
                kept = {
                    name: row for name, row in self._rows.items() if row.made_ms >= forget_ms or name in asked
                }
                self._rows = kept | {name: _CachedRow(value, now_ms) for name, value in made.items()}
            return {name: self._rows[name].value for name in wanted if name in self._rows}
