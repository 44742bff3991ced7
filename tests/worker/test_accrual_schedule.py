"""Each shard is paid once an interval, a quarter of them at a time."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import cast

from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.storing.accrual_schedule import AccrualSchedule


def due(accrual_schedule: AccrualSchedule, now_ms: int, *numbers: int) -> list[int]:
    shards = cast("list[OwnedShard]", [SimpleNamespace(number=number) for number in numbers])
    return [owned.number for owned in accrual_schedule.due(shards, now_ms)]


def test_each_is_due_once_an_interval_and_they_take_turns() -> None:
    accrual_schedule = AccrualSchedule(10_000)
    times = Counter[int]()
    at_once = []
    for second in range(101):
        now = due(accrual_schedule, 5_000_123 + second * 1000, *range(8))
        times.update(now)
        at_once.append(len(now))
    assert set(times.values()) == {10}
    assert Counter(at_once) == {0: 61, 2: 40}


def test_a_late_look_is_one_turn_and_a_new_shard_waits_for_its_own() -> None:
    accrual_schedule = AccrualSchedule(10_000)
    assert due(accrual_schedule, 50_000, 3) == []
    assert due(accrual_schedule, 98_000, 3) == [3]
    assert due(accrual_schedule, 98_100, 3) == []
    assert due(accrual_schedule, 98_100, 4) == []
    assert due(accrual_schedule, 108_100, 4) == [4]


def test_without_an_interval_nobody_is_due() -> None:
    accrual_schedule = AccrualSchedule(None)
    assert not any(due(accrual_schedule, ms, 0) for ms in range(0, 100_000, 1000))
