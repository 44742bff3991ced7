"""The log time of a replay follows the clocks that go with the others': one that runs ahead moves nothing, however the log is cut."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec
import pytest

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from schemas.events import Event, GpuEvent, JobEvent, JobType
from streams.replay.log_clock import AHEAD_MS, LogClock

T0 = 1_780_308_000_000


def sample(node: int, ms: int) -> Event:
    return GpuEvent("dcgm", f"{node}.{ms}", T0 + ms, f"n{node}", f"run-{node}", 1, 30_000, ["0"], [0.8])


def told(job_id: str, ms: int, type_: JobType = JobType.heartbeat) -> Event:
    return JobEvent(
        source="slurm", id=f"{job_id}.{ms}", time_ms=T0 + ms, job_id=job_id, attempt=1, type=type_
    )


def log_times(clock: LogClock, events: Sequence[Event]) -> list[int]:
    return [clock.read(event, events[place + 1 :]) - T0 for place, event in enumerate(events)]


def newest(events: Sequence[Event]) -> list[int]:
    found, newest_ms = [], 0
    for event in events:
        newest_ms = max(newest_ms, event.time_ms - T0)
        found.append(newest_ms)
    return found


def fleet(ahead: dict[int, int], minutes: int = 20, nodes: int = 20) -> list[Event]:
    """Samples of all nodes in the order in which they came, each 30 s, within a second or two."""
    return [
        sample(node, beat * 30_000 + node * 50 + ahead.get(node, 0))
        for beat in range(minutes * 2)
        for node in range(nodes)
    ]


@pytest.mark.parametrize("gap_ms", [1_000, 10 * MINUTE_MS, 15 * HOUR_MS])
def test_without_a_clock_that_is_ahead_it_is_the_newest_time(gap_ms: int) -> None:
    events = [told("a", 0), told("b", 1), told("a", gap_ms), told("c", gap_ms + 5), told("b", 3 * gap_ms)]
    assert log_times(LogClock(), events) == newest(events)
    # Some minutes late, as traffic and collectors that poll are, and after a gap of all.
    events = [
        *fleet({}),
        told("late", 16 * MINUTE_MS),
        sample(3, gap_ms + HOUR_MS),
        told("late", HOUR_MS + gap_ms),
    ]
    assert log_times(LogClock(), events) == newest(events)


@pytest.mark.parametrize(
    "ahead",
    [
        {7: 30 * MINUTE_MS},
        {0: 30 * MINUTE_MS},
        {0: DAY_MS, 1: 30 * MINUTE_MS, 2: 20 * HOUR_MS},
        {18: 20 * HOUR_MS, 19: 20 * HOUR_MS},
    ],
)
def test_a_clock_that_is_ahead_moves_nothing(ahead: dict[int, int]) -> None:
    true = newest(fleet({}))
    found = log_times(LogClock(), [told("first", 0), *fleet(ahead)])[1:]
    assert max(abs(got - want) for got, want in zip(found, true, strict=True)) <= 30_000
    assert found == sorted(found)


def test_it_is_named_with_what_mends_it() -> None:
    clock = LogClock()
    log_times(clock, [told("first", 0), *fleet({7: 30 * MINUTE_MS, 12: 20 * HOUR_MS})])
    first, second = clock.sentences()
    assert first.startswith("times of dcgm on node n12 are 20 h ahead of the others since 2026-06-01 10:00")
    assert second.startswith("times of dcgm on node n7 are ")
    assert second.endswith("; synchronise that host's clock (NTP, chrony)")
    assert not [*LogClock().sentences()]


def test_one_that_is_a_little_ahead_is_believed() -> None:
    found = log_times(LogClock(), [told("first", 0), *fleet({7: AHEAD_MS - 31_000})])
    assert found[-1] >= found[0] + 20 * MINUTE_MS + AHEAD_MS - 62_000


def test_any_cut_gives_the_same_log_times() -> None:
    events = [told("first", 0), *fleet({7: 30 * MINUTE_MS, 12: 20 * HOUR_MS}, minutes=12)]
    whole = log_times(LogClock(), events)
    known = next(place for place, ms in enumerate(whole) if ms >= 3 * MINUTE_MS)
    rng = random.Random(7)
    for _ in range(40):
        cuts = sorted(rng.sample(range(known, len(events)), 3))
        clock, found = LogClock(), list[int]()
        for begin, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
            found += log_times(clock, events[begin:end])
            kept = msgspec.json.decode(msgspec.json.encode([*clock.ahead.items()]), type=list)
            assert len(kept) == 2
        assert found == whole


def test_a_clock_that_is_put_right_is_believed_again() -> None:
    events = [told("first", 0), *fleet({7: 30 * MINUTE_MS}, minutes=10)]
    clock = LogClock()
    log_times(clock, events)
    assert [sender.node for sender in clock.ahead] == ["n7"]
    late = [sample(node, 10 * MINUTE_MS + node) for node in range(20)]
    assert log_times(clock, late) == newest(late)
    assert not clock.ahead


def test_if_it_alone_goes_on_the_log_goes_on_with_it() -> None:
    clock = LogClock()
    log_times(clock, [told("first", 0), *fleet({7: 30 * MINUTE_MS}, minutes=10)])
    alone = [sample(7, 40 * MINUTE_MS + beat * 30_000) for beat in range(60)]
    found = log_times(clock, alone)
    assert 38 * MINUTE_MS < found[-1] < 41 * MINUTE_MS
    assert found == sorted(found)


def test_who_speaks_first_after_a_pause_is_not_ahead() -> None:
    """The samples that were kept back meanwhile come behind it: the log goes through them, and believes it again."""
    clock = LogClock()
    log_times(clock, fleet({}, minutes=5))
    kept_back = [sample(3, 5 * MINUTE_MS + beat * 30_000) for beat in range(60)]
    found = log_times(
        clock, [told("job", 35 * MINUTE_MS, JobType.completed), *kept_back, told("job2", 36 * MINUTE_MS)]
    )
    assert found[-1] == 36 * MINUTE_MS
    assert found[1:-1] == newest(kept_back)
    assert not clock.ahead or next(iter(clock.ahead)).job_id == "job"
