"""The pace of the demonstration: time goes as fast as asked for, never reaches now, and waits for nobody."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from schemas.durations import DAY_MS
from streams.clock import ManualClock
from streams.demo.pacer import LONGEST_S, Pacer, start_before
from streams.demo.records import DemoRecord
from streams.topics import Topic

START_MS = 1_750_000_000_000
NOW_MS = 1_763_730_000_000


@dataclass
class Script:
    """Tells one record at each instant it is asked for."""

    asked_ms: list[int] = field(default_factory=list)

    def advance(self, to_ms: int) -> list[DemoRecord]:
        self.asked_ms.append(to_ms)
        return [DemoRecord(Topic.JOBS, to_ms, b"{}")]


class Run:
    """A pacer whose rounds take `round_ms` of a clock that only moves when somebody waits."""

    def __init__(self, speed: float, round_ms: int = 0) -> None:
        self.clock = ManualClock()
        self.script = Script()
        self.stop = asyncio.Event()
        self.fed: list[int] = []
        self.slept_s: list[float] = []
        self.round_ms = round_ms
        self.stop_after: int | None = None
        self.pacer = Pacer(self.script, self.feed, START_MS, speed, self.clock, self.sleep)

    async def feed(self, records: list[DemoRecord], to_ms: int) -> None:
        assert [record.time_ms for record in records] == [to_ms]
        assert self.pacer.now_ms() <= records[0].time_ms  # the clock is not ahead of the log
        self.clock.advance(self.round_ms)
        self.fed += [record.time_ms for record in records]
        if self.stop_after == len(self.fed):
            self.stop.set()

    async def sleep(self, seconds: float) -> None:
        self.slept_s.append(seconds)
        self.clock.advance(round(seconds * 1_000))

    def play(self, seconds: float | None) -> None:
        asyncio.run(self.pacer.play(self.stop, seconds))


def test_ten_rounds_a_second_and_the_end_on_the_dot() -> None:
    run = Run(speed=60)
    run.play(seconds=1)
    assert run.fed == [START_MS + tenth * 6_000 for tenth in range(11)]
    assert run.pacer.now_ms() == START_MS + 60_000


def test_a_slow_round_shortens_the_wait_after_it() -> None:
    run = Run(speed=60, round_ms=30)
    run.play(seconds=1)
    assert set(run.slept_s) == {0.07}
    assert run.pacer.now_ms() == START_MS + 60_000


def test_rounds_slower_than_the_beat_bring_more_each() -> None:
    run = Run(speed=60, round_ms=250)
    run.play(seconds=1)
    assert run.fed == [START_MS, START_MS + 15_000, START_MS + 30_000, START_MS + 45_000, START_MS + 60_000]


def test_asked_to_stop_it_ends_after_the_round() -> None:
    run = Run(speed=1)
    run.stop_after = 3
    run.play(seconds=None)
    assert run.fed == [START_MS, START_MS + 100, START_MS + 200]


def test_nobody_ends_it_but_time() -> None:
    run = Run(speed=1, round_ms=3_600_000)
    run.play(seconds=None)
    assert run.pacer.now_ms() == START_MS + LONGEST_S * 1_000


@pytest.mark.parametrize("speed", [1, 60, 600])
@pytest.mark.parametrize("seconds", [None, 1, 90, 40_000])
def test_event_time_never_reaches_now(speed: float, seconds: float | None) -> None:
    for now_ms in (NOW_MS, NOW_MS // DAY_MS * DAY_MS, NOW_MS // DAY_MS * DAY_MS + DAY_MS - 1):
        start_ms = start_before(now_ms, speed, seconds)
        longest_ms = (LONGEST_S if seconds is None else seconds) * 1_000 * speed
        assert start_ms + longest_ms <= now_ms
        assert start_ms + longest_ms > now_ms - 3 * DAY_MS  # and is no older than it must be
        assert start_ms % DAY_MS == (9 * 60 + 50) * 60_000
