"""The open loop: due times do not depend on who is slow, nothing is left out, lateness is told."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest

from loadtest import drive
from loadtest.drive import Drive, schedule
from loadtest.soak_load import Event
from streams.config.settings import KafkaSettings
from streams.topics import Topic


def events(count: int) -> list[Event]:
    return [Event(Topic.GPU, b"k", b"%d" % number) for number in range(count)]


class Nothing:
    """A source that is not asked."""

    def opening(self) -> Iterator[Event]:
        yield from ()

    def second(self, now_s: int) -> Iterator[Event]:
        yield from events(now_s % 3)

    def closing(self, now_s: int) -> Iterator[Event]:
        yield from events(1)


@pytest.mark.parametrize("count", [0, 1, 7, 50, 123])
@pytest.mark.parametrize("slices", [1, 10, 50])
def test_a_second_is_spread_evenly_and_whole(count: int, slices: int) -> None:
    parts = list(schedule(events(count), 1_000, slices))
    assert [event for _, part in parts for event in part] == events(count)
    assert [due_s for due_s, _ in parts] == [1_000 + number / slices for number in range(slices)]
    sizes = {len(part) for _, part in parts}
    assert max(sizes) - min(sizes) <= 1


class Clock:
    """Time passes by sleeping, and by sending where that is slow."""

    def __init__(self, now_s: float, slow_s: float) -> None:
        self.now_s = now_s
        self.slow_s = slow_s
        self.sent: list[tuple[float, int]] = []

    def time(self) -> float:
        return self.now_s

    def sleep(self, for_s: float) -> None:
        self.now_s += for_s

    def send(self, part: Sequence[Event]) -> None:
        self.sent.append((round(self.now_s, 3), len(part)))
        self.now_s += self.slow_s


def driven(monkeypatch: pytest.MonkeyPatch, slow_s: float) -> tuple[Drive, Clock]:
    clock = Clock(1_000.0, slow_s)
    monkeypatch.setattr(drive, "time", clock)
    one = Drive(KafkaSettings(), Nothing(), 999, slices=4)
    one._spread(events(8), 1_000, clock.send)
    return one, clock


def test_a_broker_that_keeps_up_is_sent_to_on_time(monkeypatch: pytest.MonkeyPatch) -> None:
    one, clock = driven(monkeypatch, slow_s=0.2)
    assert clock.sent == [(1_000.0, 2), (1_000.25, 2), (1_000.5, 2), (1_000.75, 2)]
    assert one.late_slices == 0


def test_a_slow_broker_moves_no_due_time_and_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    one, clock = driven(monkeypatch, slow_s=0.4)
    assert clock.sent == [(1_000.0, 2), (1_000.4, 2), (1_000.8, 2), (1_001.2, 2)]
    assert one.late_slices == 3
    assert one.latest_s == pytest.approx(0.45)
