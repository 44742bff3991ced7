"""The rule `double_held`: jobs that hold more GPUs of a node than it has."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from schemas.tables import (
    ATTEMPTS,
    BOOKS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
)
from streams.engine.alerts.alert import Alert, is_change
from streams.engine.rules.double_held import DoubleHolding, NodeHeld, NodeHolding, doubly_held, margins
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

M = MINUTE_MS
GPU_MINUTE = 60_000_000


def nodes(world: World, minutes: range, gpus: int = 8, *names: str, usd: float = 0.332, **about: Any) -> None:
    """Nodes that are there in these minutes, for so many dollars a minute each, of a shard that has stored all."""
    stored = at(T0 + 48 * HOUR_MS)
    world.put(BOOKS, topic="nodes", partition=0, shard=0, time=stored, read_to=stored)
    for name in names or ("n0",):
        for hour in sorted({(T0 + minute * M) // HOUR_MS for minute in minutes}):
            paid = {
                "paid_ms": HOUR_MS,
                "gpu_milli_ms": gpus * 60 * GPU_MINUTE,
                "cost_usd": Decimal(str(usd)) * 60,
            }
            world.put(NODE_HOURS, node=name, hour=at(hour * HOUR_MS), **paid, **about)
        for minute in minutes:
            quantity = gpus * GPU_MINUTE
            measure = {
                "unit": "gpu_milli_ms",
                "sku": "p",
                "quantity": quantity,
                "cost_usd": Decimal(str(usd)),
            }
            world.put(NODE_MINUTES, node=name, minute=at(T0 + minute * M), **measure)


def holds(
    world: World,
    job_id: str,
    minutes: range,
    gpus: float = 8,
    *names: str,
    began: int | None = None,
    usd: float = 0.332,
    sampled: range = range(0),
    attempt: int = 1,
    team: str = "vision",
) -> None:
    """A job that holds GPUs of nodes in these minutes, for so many dollars a minute and node."""
    began_ms = T0 + (minutes.start if began is None else began) * M
    world.put(JOBS, job_id=job_id, state="running", started=at(began_ms), owner=f"of-{job_id}", team=team)
    world.put(ATTEMPTS, job_id=job_id, attempt=attempt, started=at(began_ms), state="running")
    for hour in sorted({(T0 + minute * M) // HOUR_MS for minute in minutes}):
        world.put(JOB_HOURS, job_id=job_id, attempt=attempt, hour=at(hour * HOUR_MS), wall_clock_ms=1)
    for name in names or ("n0",):
        for minute in minutes:
            row = {"job_id": job_id, "attempt": attempt, "node": name, "minute": at(T0 + minute * M)}
            if minute in sampled:
                world.put(JOB_USAGE_MINUTES, sampled_gpu_s=60, **row)
            measure = {"component": "gpu", "unit": "gpu_milli_ms", "quantity": round(gpus * GPU_MINUTE)}
            world.put(JOB_MINUTES, sku="h100", cost_usd=Decimal(str(usd)), **row, **measure)


def told(changes: list[Alert], rule: str = "double_held") -> list[tuple[str, str, int]]:
    found = (each for each in changes if each.rule == rule and is_change(each))
    return [(each.subject_name, each.status, (each.changed_ms - T0) // M) for each in found]


def test_a_lost_end_is_one_alert_until_the_end_is_published(world: World) -> None:
    nodes(world, range(90), 8, "n0", "n1")
    holds(world, "old", range(120), 8, "n0", "n1")
    holds(world, "new", range(33, 60), 8, "n0", "n1")
    assert told(world.look(40 / 60)) == []
    changes = world.look(1)
    assert told(changes) == [("old", "firing", 45)]
    (alert,) = [each for each in changes if each.rule == "double_held"]
    assert (alert.severity, alert.owner, alert.ratio, alert.usd_nano_per_hour) == (
        "ticket", "of-old", 2.0, 39_840_000_000,
    )  # fmt: skip
    assert alert.summary == (
        "old and new hold 32 GPUs of node n0 and 1 more, which have 16, $40/h too much; if old is over, publish its end, else"
        " $289 more by 18:00 UTC"
    )
    works(world, alert)
    # The other job has ended, and the nodes are gone: it is the same cause until the job is no longer paid.
    assert told(world.look(2)) == [("old", "resolved", 125)]


def test_jobs_of_other_teams_are_counted_and_not_named(world: World) -> None:
    nodes(world, range(60), 8)
    holds(world, "old", range(60), 4)
    holds(world, "near", range(20, 60), 4)
    holds(world, "far", range(30, 60), 8, team="speech")
    changes = [each for each in world.look(1) if each.rule == "double_held"]
    found = {each.subject_name: each for each in changes}
    assert found["old"].summary.startswith("old and near and 1 more hold 16 GPUs of node n0")
    assert found["near"].summary.startswith("near and old and 1 more hold 16 GPUs of node n0")
    for each in changes:
        assert "far" not in each.summary + each.evidence_sql + each.margins
        works(world, each)


def test_several_jobs_of_other_teams_are_counted_together(world: World) -> None:
    nodes(world, range(60), 8)
    holds(world, "old", range(60), 8)
    for number, team in enumerate(("speech", "nlp", "")):
        holds(world, f"far-{number}", range(20, 60), 2, team=team)
    (alert,) = [each for each in world.look(1) if each.rule == "double_held"]
    assert alert.summary.startswith("old and 3 jobs of other teams hold 14 GPUs of node n0, which has 8")
    assert "far" not in alert.summary + alert.evidence_sql


def test_a_hand_over_is_none(world: World) -> None:
    nodes(world, range(60))
    holds(world, "old", range(40))
    holds(world, "new", range(33, 60))  # seven whole minutes
    assert told(world.look(1)) == []


def test_jobs_that_follow_each_other_quickly_are_none(world: World) -> None:
    nodes(world, range(60))
    for number in range(18):  # each is seen to end three minutes late, and no two hold more throughout
        holds(world, f"trial-{number}", range(3 * number, 3 * number + 6))
    assert told(world.look(1)) == []


def test_shares_of_gpus_are_shared_on_purpose(world: World) -> None:
    nodes(world, range(60), 1)
    for number in range(4):
        holds(world, f"share-{number}", range(60), 0.5)
    holds(world, "whole", range(60), 1)
    nodes(world, range(60), 8, "n1")
    holds(world, "most", range(60), 7.5, "n1")
    holds(world, "rest", range(60), 1, "n1")
    assert told(world.look(1)) == []


def test_nodes_of_which_nobody_knows_the_size_are_not_judged(world: World) -> None:
    holds(world, "old", range(60))
    holds(world, "new", range(20, 60))
    assert told(world.look(1)) == []


def test_one_job_alone_that_names_too_many_has_lost_no_end(world: World) -> None:
    nodes(world, range(60))
    holds(world, "large", range(60), 16)
    assert told(world.look(1)) == []


def test_of_jobs_that_share_a_node_the_one_without_samples_is_named(world: World) -> None:
    nodes(world, range(60))
    holds(world, "oldest", range(60), 4, sampled=range(60))
    holds(world, "over", range(2, 60), 4)
    holds(world, "new", range(20, 60), 4)
    changes = world.look(1)
    assert told(changes) == [("over", "firing", 30)]
    assert changes[0].summary.startswith("over and new and 1 more hold 12 GPUs of node n0, which has 8, ")


def test_a_job_that_is_alone_and_sampled_again_was_not_over(world: World) -> None:
    nodes(world, range(120))
    holds(world, "old", range(120), sampled=range(62, 120))
    holds(world, "new", range(20, 60), sampled=range(20, 60))
    assert told(world.look(2)) == [("old", "firing", 30), ("old", "resolved", 75)]


def test_a_later_attempt_is_as_old_as_itself(world: World) -> None:
    nodes(world, range(60))
    holds(world, "old", range(10), began=0)
    holds(world, "other", range(5, 60))
    holds(world, "old", range(20, 60), attempt=2)
    assert told(world.look(1)) == [("other", "firing", 30)]


def test_it_is_off_where_a_record_says_so(world: World) -> None:
    nodes(world, range(60))
    holds(world, "old", range(60))
    holds(world, "new", range(20, 60))
    late = ("rule", "late", {"rule": "double_held", "thresholds": {"minutes": 20}})
    assert told(world.look(35 / 60, late)) == []
    assert told(world.look(5 / 60, late)) == [("old", "firing", 40)]
    off = ("rule", "off", {"rule": "double_held", "enabled": False})
    assert told(world.look(5 / 60, off)) == [("old", "resolved", 45)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    (double,) = doubly_held([NodeHolding("n", "a", 8, 1, 0), NodeHolding("n", "b", 4, 2, 0)], {"n": 8})
    assert double == DoubleHolding(
        "a", (NodeHeld("n", 12, 8, (NodeHolding("n", "a", 8, 1, 0), NodeHolding("n", "b", 4, 2, 0))),)
    )
    assert [(each.value, each.share) for each in margins({"minutes": 8}, double, 4)] == [
        (1.5, 1.5),
        (4.0, 0.5),
    ]
