"""What sacct has of the past makes the events that the collector made of it, with their ids."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from streams.collect.slurm.command import asking
from streams.collect.slurm.events import END_TYPES
from streams.collect.slurm.history import history
from streams.errors import WrongUseError
from tests.collect.slurm.test_recorded import collect, cost_nano, of_sacct, tables_of
from tests.collect.slurm.world import VERSIONS, SlurmWorld
from tests.collect.world import Log

#: squeue and sacct write names with control characters in two ways.
SAME = ("time_ms", "type", "attempt", "job_id", "gpu_count", "gpu_type", "owner", "team", "source")


def past(world: SlurmWorld, since_s: int, until_s: int, **options: Any) -> tuple[Log, list[str]]:
    given = world.options(**options)
    log, faults = Log(), list[str]()
    for part in history(given, asking(given), since_s, until_s):
        log.publish(part.events)
        faults += part.account.said
    return log, faults


def span_s(world: SlurmWorld) -> tuple[int, int]:
    """From before the first look until after the last one, whose answers it leaves."""
    first_ms, last_ms = world.turn(0), world.turn(world.states - 1)
    return first_ms // 1000 - 3_600, last_ms // 1000 + 60


def at(instant_s: int) -> datetime:
    return datetime.fromtimestamp(instant_s, UTC)


@pytest.mark.parametrize("version", VERSIONS)
def test_costs_are_what_sacct_says(version: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, version)
    log, faults = past(world, *span_s(world))
    assert faults == []
    assert cost_nano(tables_of(log, world)) == of_sacct(version)


@pytest.mark.parametrize("version", VERSIONS)
def test_events_of_both_have_one_id_and_say_the_same(version: str, tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path, version)
    begin_s, end_s = span_s(world)
    live, found = (
        {value["id"]: {name: value.get(name) for name in SAME} for _, value in log.events}
        for log in (
            collect(world, range(world.states), since=at(begin_s)),
            past(world, begin_s, end_s, since=at(begin_s))[0],
        )
    )
    common = found.keys() & live.keys()
    assert {key: found[key] for key in common} == {key: live[key] for key in common}
    ran = of_sacct(version)  # one that never ran may be cancelled a second later by sacct
    ends = {key for key, value in live.items() if value["type"] in END_TYPES and value["job_id"] in ran}
    assert ends
    assert ends <= found.keys()


def test_a_job_that_ran_at_the_beginning_is_paid_from_then_on(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path)
    begin_s, end_s = span_s(world)
    middle_s = (begin_s + 3_600 + end_s) // 2
    log, _ = past(world, middle_s, end_s)
    assert log.events
    assert min(value["time_ms"] for _, value in log.events) >= middle_s * 1000
    assert cost_nano(tables_of(log, world)) == of_sacct("22.05", middle_s)


def test_windows_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world = SlurmWorld(tmp_path)
    begin_s, end_s = span_s(world)
    monkeypatch.setattr("streams.collect.slurm.history.WINDOW_S", 7)
    log, _ = past(world, end_s - 200, end_s)  # all of them ended in it
    assert cost_nano(tables_of(log, world)) == of_sacct("22.05", end_s - 200)
    assert begin_s < end_s - 200


def test_without_accounting_there_is_no_history(tmp_path: Path) -> None:
    world = SlurmWorld(tmp_path)
    with pytest.raises(WrongUseError, match="use_sacct = false"):
        past(world, 0, 1, use_sacct=False)
