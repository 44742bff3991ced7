"""Answers are made once for all who ask at a time, and kept as long as they were dear."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from streams.clock import ManualClock
from streams.web.cache import TTL_MS, TTL_PER_COST, Cache, RowCache
from tests.web.serving import run


class Maker:
    """Counts how often it is asked; takes as long as it is told to."""

    def __init__(self, clock: ManualClock, takes_ms: int = 0) -> None:
        self.clock = clock
        self.takes_ms = takes_ms
        self.made = 0
        self.names: list[tuple[str, ...]] = []
        self.fault: Exception | None = None

    async def one(self) -> int:
        await asyncio.sleep(0)
        self.clock.advance(self.takes_ms)
        if self.fault is not None:
            raise self.fault
        self.made += 1
        return self.made

    async def rows(self, names: tuple[str, ...]) -> Mapping[str, int]:
        self.names.append(names)
        number = await self.one()
        return dict.fromkeys(names, number)


def test_all_who_ask_at_a_time_get_one_answer() -> None:
    async def work() -> None:
        clock = ManualClock()
        cache, maker = Cache(clock.monotonic_ms), Maker(clock)
        assert await asyncio.gather(*(cache.get("k", maker.one) for _ in range(5))) == [1] * 5
        assert await cache.get("other", maker.one) == 2
        clock.advance(TTL_MS)
        assert await cache.get("k", maker.one) == 1
        clock.advance(1)
        assert await cache.get("k", maker.one) == 3

    run(work())


def test_a_dear_answer_is_kept_longer() -> None:
    async def work() -> None:
        clock = ManualClock()
        cache, maker = Cache(clock.monotonic_ms), Maker(clock, takes_ms=500)
        await cache.get("k", maker.one)
        clock.advance(500 * TTL_PER_COST)
        assert await cache.get("k", maker.one) == 1
        clock.advance(1)
        assert await cache.get("k", maker.one) == 2

    run(work())


def test_who_leaves_does_not_take_the_answer_along() -> None:
    async def work() -> None:
        clock = ManualClock()
        cache, maker = Cache(clock.monotonic_ms), Maker(clock)
        leaving = asyncio.ensure_future(cache.get("k", maker.one))
        staying = asyncio.ensure_future(cache.get("k", maker.one))
        await asyncio.sleep(0)
        leaving.cancel()
        assert await staying == 1
        assert maker.made == 1

    run(work())


def test_a_fault_is_told_to_all_and_forgotten() -> None:
    async def work() -> None:
        clock = ManualClock()
        cache, maker = Cache(clock.monotonic_ms), Maker(clock)
        maker.fault = ZeroDivisionError()
        found = await asyncio.gather(*(cache.get("k", maker.one) for _ in range(2)), return_exceptions=True)
        assert [type(each) for each in found] == [ZeroDivisionError] * 2
        maker.fault = None
        assert await cache.get("k", maker.one) == 1

    run(work())


def test_old_entries_make_room() -> None:
    async def work() -> None:
        clock = ManualClock()
        cache, maker = Cache(clock.monotonic_ms), Maker(clock)
        for number in range(2_000):
            await cache.get(number, maker.one)
            clock.advance(100)
        assert len(cache._entries) <= 300

    run(work())


def test_only_missing_and_old_rows_are_made() -> None:
    async def work() -> None:
        clock = ManualClock()
        maker = Maker(clock)
        rows = RowCache(clock.monotonic_ms, maker.rows)
        assert await rows.get(["a", "b"]) == {"a": 1, "b": 1}
        assert await rows.get(["b", "c"]) == {"b": 1, "c": 2}
        clock.advance(TTL_MS + 1)
        assert await rows.get(["c"]) == {"c": 3}
        assert maker.names == [("a", "b"), ("c",), ("c",)]
        clock.advance(3 * TTL_MS)
        await rows.get(["d"])
        assert set(rows._rows) == {"d"}, "what nobody asks for is forgotten"
        maker.fault = ZeroDivisionError()
        with pytest.raises(ZeroDivisionError):
            await rows.get(["e"])

    run(work())


def test_a_row_that_was_dear_is_not_lost_when_the_next_one_is_cheap() -> None:
    async def work() -> None:
        clock = ManualClock(0)
        maker = Maker(clock, takes_ms=1_000)
        rows = RowCache(clock.monotonic_ms, maker.rows)
        await rows.get(["dear"])  # to be kept for five seconds
        clock.advance(4_000)
        maker.takes_ms = 0
        found = await rows.get(["dear", "new"])
        assert set(found) == {"dear", "new"}

    run(work())
