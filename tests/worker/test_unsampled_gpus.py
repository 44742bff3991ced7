"""The rule `unsampled_gpus`: a job's GPUs have no samples, though those of the others of its cluster do."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOBS
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, said, shared, works, world

__all__ = ["shared", "world"]


def held(world: World, job_id: str, sampled: float, *, hour: int = 0, gpus: int = 8, **fields: Any) -> None:
    """An hour in which a job held GPUs, of which samples cover a share."""
    world.put(JOBS, job_id=job_id, state="running", owner="ada", team="vision")
    time = {"gpu_milli_ms": gpus * 1000 * HOUR_MS, "sampled_gpu_ms": round(gpus * HOUR_MS * sampled)}
    row = {"cluster": "c1", "wall_clock_ms": HOUR_MS, "gpu_cost_usd": Decimal(2 * gpus), **time, **fields}
    world.put(JOB_HOURS, job_id=job_id, hour=at(T0 + hour * HOUR_MS), **row)


def found(world: World, hours: int = 1, *controls: Any) -> list[tuple[str, str, int]]:
    return said(world.look(hours, *controls), "unsampled_gpus")


def test_a_job_without_samples_is_told_where_the_others_have_some(world: World) -> None:
    for hour, sampled in enumerate((0, 0.5, 1)):
        held(world, "lost", sampled, hour=hour, gpus=16)
        held(world, "well", 0.98, hour=hour)
    changes = world.look(3)
    assert said(changes, "unsampled_gpus") == [("lost", "firing", 1), ("lost", "resolved", 3)]
    alert = next(each for each in changes if each.rule == "unsampled_gpus")
    assert alert.summary == (
        "lost: 16 of 16 GPUs had no samples for an hour, of cluster c1 98 % were sampled; find their process or give them"
        " back, else $256 more by 19:00 UTC"
    )
    assert (alert.owner, alert.team, alert.severity, alert.ratio) == ("ada", "vision", "ticket", 1.0)
    assert alert.usd_nano_per_hour == alert.cost_nano == 32 * 10**9
    works(world, alert)


def test_an_exporter_that_came_late_in_the_hour_is_none(world: World) -> None:
    """The samples of 40 of 60 minutes say that the GPUs are sampled."""
    held(world, "well", 1)
    held(world, "late", 40 / 60)
    assert found(world) == []


def test_unknown_is_not_zero(world: World) -> None:
    held(world, "one", 0)
    held(world, "two", 0)
    assert found(world) == []  # nothing of the cluster is sampled
    held(world, "one", 0, hour=1)
    held(world, "far", 1, hour=1, cluster="c2")
    assert found(world) == []  # another cluster is
    held(world, "one", 0, hour=2)
    held(world, "half", 0.79, hour=2)
    assert found(world) == []  # the others are sampled now and then only
    held(world, "one", 0, hour=3)
    held(world, "small", 1, hour=3, gpus=1, gpu_milli_ms=1000 * HOUR_MS - 1)
    assert found(world) == []  # less than a GPU-hour tells nothing


def test_late_samples_starts_and_parts_of_hours_are_none(world: World) -> None:
    held(world, "well", 1, gpus=128)
    held(world, "late", 0.51)
    held(world, "starts", 0, starting_ms=MINUTE_MS)
    held(world, "began", 0, wall_clock_ms=HOUR_MS - 1, gpu_milli_ms=HOUR_MS)
    held(world, "partly", 0.5)
    assert found(world) == [("partly", "firing", 1)]


@pytest.mark.parametrize("rule", ["silent_job", "held", "metered_twice", "double_held", "after_node"])
def test_what_another_rule_tells_of_is_told_once(world: World, rule: str) -> None:
    for hour in range(3):
        held(world, "well", 1, hour=hour)
        held(world, "lost", 0, hour=hour)
    silent = {"alert_id": "al_1", "rule": rule, "subject_kind": "job", "subject_name": "lost"}
    world.put(
        ALERTS, **silent, started=at(T0 + HOUR_MS - 1), resolved=at(T0 + HOUR_MS + 1), status="resolved"
    )
    assert found(world, 3) == [("lost", "firing", 3)]


@pytest.mark.parametrize("rule", ["silent_job", "held", "metered_twice", "double_held", "after_node"])
def test_what_another_rule_tells_of_at_the_end_of_the_hour_is_told_once(world: World, rule: str) -> None:
    """A job that was suspended half an hour before: its GPUs are held since then, and `held` opens at that instant."""
    held(world, "well", 1)
    held(world, "lost", 0.5)
    about = {"alert_id": "al_1", "rule": rule, "subject_kind": "job", "subject_name": "lost"}
    world.put(ALERTS, **about, started=at(T0 + HOUR_MS), status="firing")
    assert found(world) == []


def suspended(world: World, job_id: str, minutes: range, gpus: int = 8) -> None:
    for minute in minutes:
        row = {"job_id": job_id, "node": "n0", "minute": at(T0 + minute * MINUTE_MS), "phase": "suspended"}
        world.put(JOB_MINUTES, **row, component="gpu", unit="gpu_milli_ms", quantity=gpus * 1000 * MINUTE_MS)


def test_what_a_job_holds_while_it_is_suspended_is_not_expected_to_be_sampled(world: World) -> None:
    for hour in range(2):
        held(world, "well", 1, hour=hour, gpus=64)
        held(world, "rests", 0.2 if hour == 0 else 0, hour=hour)
        held(world, "lost", 0.2, hour=hour)
    suspended(world, "rests", range(12, 120))
    suspended(world, "lost", range(12, 25))
    assert found(world, 2) == [("lost", "firing", 1)]


def test_samples_of_two_attempts_count_as_what_is_held_at_most(world: World) -> None:
    held(world, "twice", 3)
    held(world, "not", 0, gpus=4)
    held(world, "lost", 0)
    assert found(world) == []  # of 12 other GPUs 8 are sampled, not 24
    of_less = ("rule", "less", {"rule": "unsampled_gpus", "thresholds": {"cluster_ratio": 0.6}})
    world.since_ms = T0
    assert found(world, 1, of_less) == [("lost", "firing", 1)]


def test_a_file_of_rules_switches_it_off(world: World) -> None:
    held(world, "well", 1)
    held(world, "lost", 0)
    off = ("rule", "unsampled_gpus", {"enabled": False})
    assert found(world, 1, off) == []
