"""The rule `unusual_length`: a job against the p99 of similar completed jobs, hour by hour."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.durations import HOUR_MS
from schemas.tables import JOB_HOURS, JOBS
from streams.engine.rules.unusual_length import Lengths, RunTime
from tests.worker.ledger_lab import MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, said, shared, works, world

__all__ = ["shared", "world"]


def completed(world: World, job_id: str, minutes: int, **fields: str) -> None:
    """A job that ended before T0."""
    clock = {"wall_clock_ms": minutes * MINUTE_MS, "ended": at(T0 - 1)}
    world.put(JOBS, job_id=job_id, state="completed", **clock, **{"team": "vision", **fields})


def running(world: World, job_id: str, hours: int, usd: float = 20, **fields: Any) -> None:
    """A job that began at T0."""
    names = {"team": "vision", "owner": "ada", "state": "running", **fields}
    world.put(JOBS, job_id=job_id, **names)
    for hour in range(hours):
        money = {"gpu_cost_usd": Decimal(str(usd)), "wall_clock_ms": HOUR_MS}
        world.put(JOB_HOURS, job_id=job_id, hour=at(T0 + hour * HOUR_MS), **money)


def test_a_job_is_told_once_it_ran_for_twice_the_p99_of_similar_jobs(world: World) -> None:
    for number in range(19):
        completed(world, f"test-{number}", 60)
    completed(world, "test-19", 75)
    for number in range(20):
        completed(world, f"train-{number}", 600)
    running(world, "test-20", 4)
    running(world, "train-20", 4)
    running(world, "cheap-1", 4, usd=1)  # of the team's jobs 99 % are 10 h or shorter
    changes = world.look(6)
    assert said(changes, "unusual_length") == [("test-20", "firing", 3)]
    alert = next(each for each in changes if each.rule == "unusual_length")
    assert alert.summary == (
        "test-20 has run for 3 h and $60, 99 % of jobs named test took 1 h 15 min at most; stop it if it no longer makes"
        " progress"
    )
    works(world, alert)
    # It has not run since the fourth hour: that says nothing against it for a day.
    assert said(world.look(24), "unusual_length") == [("test-20", "resolved", 28)]


def test_it_needs_twenty_jobs_ten_dollars_and_a_job_that_goes_on(world: World) -> None:
    for number in range(20):
        completed(world, f"test-{number}", 30, team="nlp" if number else "vision")
    running(world, "test-20", 4)
    running(world, "test-21", 4, usd=2, team="nlp")
    over: dict[str, Any] = {"state": "completed", "ended": at(T0 + 2 * HOUR_MS - 1), "team": "nlp"}
    running(world, "test-22", 2, **over)
    assert said(world.look(4), "unusual_length") == []
    few = ("rule", "few", {"rule": "unusual_length", "thresholds": {"jobs": 1, "least_usd": 8}})
    world.since_ms = T0
    told = said(world.look(4, few), "unusual_length")
    assert told == [("test-20", "firing", 2), ("test-21", "firing", 4)]


@pytest.mark.parametrize(
    ("jobs", "p99"), [(1, 1), (99, 99), (100, 99), (101, 100), (1000, 990), (1500, 1490)]
)
def test_the_p99_is_by_rank_of_the_last_thousand(jobs: int, p99: int) -> None:
    ran = [RunTime(f"test-{n}", "vision", "", n, T0 + n) for n in range(1, jobs + 1)]
    job = RunTime("test-x1", "vision", "", 10**9, 0)
    lengths = Lengths(ran, [T0 + 5000], 1)
    usual = lengths.usual(job, T0 + 5000)
    assert usual is not None
    assert (usual.similarity.by, usual.p99_ms) == ("name", p99)
    assert Lengths(ran, [T0], 1).usual(job, T0) is None  # none was completed before


def test_jobs_that_cannot_have_run_too_long_are_not_read() -> None:
    ran = [RunTime(f"test-{n}", "vision", "", 100 + n, T0 + n) for n in range(50)]
    lengths = Lengths(ran, [T0 + 10, T0 + 60], 20)
    assert lengths.may_exceed(RunTime("test-x1", "vision", "", 299, 0), 2)  # 149 is the p99
    assert not lengths.may_exceed(RunTime("test-x1", "vision", "", 298, 0), 2)
    assert not lengths.may_exceed(RunTime("test-x1", "nlp", "", 10**9, 0), 2)


def test_a_team_is_no_measure_for_a_job_of_another_size_or_kind() -> None:
    trials = [RunTime(chr(97 + n), "vision", "", 100, T0 + n, 1000) for n in range(20)]

    def found(*, gpus: int, own: int = 0) -> bool:
        mine = [RunTime(f"big-{n}", "vision", "", 100, T0 + n, 1000) for n in range(own)]
        job = RunTime("big-9", "vision", "", 10**6, 0, 1000 * gpus)
        return Lengths([*trials, *mine], [T0 + HOUR_MS], 20).usual(job, T0 + HOUR_MS) is not None

    assert found(gpus=4)
    assert not found(gpus=5)
    assert found(gpus=1, own=1)
    assert not found(gpus=1, own=2)
