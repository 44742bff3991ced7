"""The rule `empty_group`: nodes that come up together and that no job uses; other rules about nodes leave them to it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import ALERTS, JOB_HOURS, JOB_MINUTES, JOBS
from streams.engine.rules.empty_group import EmptyNode, NodeGroup, margins
from streams.engine.rules.registry import LEDGER_RULES
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import GPU_MINUTE, holds, nodes, told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

RULE = "empty_group"
P5: dict[str, Any] = {"cluster": "c1", "instance_type": "p5", "gpu_type": "H100"}


def in_use(world: World, minutes: range, **about: str) -> None:
    """A node of the cluster that a job holds."""
    nodes(world, minutes, 8, "base", **{**P5, "instance_type": "base", **about})
    holds(world, "base-job", minutes, 8, "base")


def test_eight_empty_nodes_are_one_alert_that_names_their_group(world: World) -> None:
    in_use(world, range(480))
    for number in range(8):
        nodes(world, range(61 + number, 470), 8, f"x{number}", **P5)
    assert told(world.look(76 / 60), RULE) == []
    changes = world.look(8 - 76 / 60)
    assert told(changes, RULE) == [("c1/p5", "firing", 77), ("c1/p5", "resolved", 471)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.subject_kind, alert.ratio) == ("ticket", "node_group", 8)
    assert alert.summary == (
        "8 p5 nodes in cluster c1 came up since 11:01 UTC and no job uses them, $159/h; give them back and look at the autoscaler,"
        " else $1,230 more by 19:00 UTC"
    )
    works(world, alert)
    # Nothing else is said of them: each is forgotten for six hours, and most of what nodes cost is idle.
    assert [each.rule for each in changes if each.rule not in (RULE, "owner_coverage")] == []


def test_what_is_left_of_them_is_forgotten_only_later(world: World) -> None:
    in_use(world, range(16 * 60))
    for number in range(4):
        nodes(world, range(1, 16 * 60 if number < 2 else 300), 8, f"x{number}", **P5)
    changes = world.look(16)
    assert told(changes, RULE) == [("c1/p5", "firing", 15), ("c1/p5", "resolved", 301)]
    assert told(changes, "forgotten_node") == [("c1/p5", "firing", 12 * 60)]  # six hours after that hour


def test_nodes_that_get_their_jobs_within_a_quarter_of_an_hour_are_ordinary(world: World) -> None:
    in_use(world, range(120))
    for number in range(16):  # a job waits for all of its nodes
        nodes(world, range(10 + number // 2, 120), 8, f"x{number}", **P5)
        holds(world, "gang", range(22, 120), 8, f"x{number}")
    assert told(world.look(2), RULE) == []


def test_spare_nodes_and_cheap_ones_are_none(world: World) -> None:
    in_use(world, range(120))
    nodes(world, range(10, 120), 8, "x0", "x1", **P5)
    nodes(
        world,
        range(10, 120),
        1,
        *(f"t{number}" for number in range(8)),
        usd=0.01,
        **{**P5, "instance_type": "t4"},
    )
    for number in range(3):  # one each forty minutes is no group
        nodes(world, range(40 * number, 120), 8, f"y{number}", **{**P5, "instance_type": "y"})
    assert told(world.look(2), RULE) == []


def test_nodes_that_were_used_are_none(world: World) -> None:
    in_use(world, range(120))
    for number in range(4):
        nodes(world, range(10, 120), 8, f"x{number}", **P5)
        holds(world, f"short-{number}", range(15, 20), 8, f"x{number}")
    assert told(world.look(2), RULE) == []


def test_a_cluster_that_nobody_uses_yet_is_none(world: World) -> None:
    in_use(world, range(120), cluster="another")
    nodes(world, range(10, 120), 8, "x0", "x1", "x2", **P5)
    assert told(world.look(2), RULE) == []


def test_where_jobs_do_not_say_which_nodes_they_hold_nothing_is_known(world: World) -> None:
    in_use(world, range(120))
    nodes(world, range(10, 120), 8, "x0", "x1", "x2", **P5)
    world.put(JOBS, job_id="somewhere", state="running", started=at(T0), cluster="c1")
    for hour in range(2):
        world.put(JOB_HOURS, job_id="somewhere", hour=at(T0 + hour * HOUR_MS), wall_clock_ms=1)
    for minute in range(20):
        measure = {
            "component": "gpu",
            "unit": "gpu_milli_ms",
            "quantity": 24 * GPU_MINUTE,
            "cost_usd": Decimal(1),
        }
        world.put(JOB_MINUTES, job_id="somewhere", minute=at(T0 + minute * MINUTE_MS), **measure)
    # Until the last such minute is an hour ago, and then they are no new ones any more.
    assert told(world.look(2), RULE) == []


def test_it_is_over_when_jobs_come(world: World) -> None:
    in_use(world, range(120))
    for number in range(4):
        nodes(world, range(10, 120), 8, f"x{number}", **P5)
        holds(world, f"late-{number}", range(40 + number, 120), 8, f"x{number}")
    assert told(world.look(2), RULE) == [("c1/p5", "firing", 24), ("c1/p5", "resolved", 42)]


def test_without_an_instance_type_it_is_named_by_the_gpus(world: World) -> None:
    in_use(world, range(60))
    nodes(world, range(10, 60), 8, "x0", "x1", "x2", **{**P5, "instance_type": ""})
    assert told(world.look(1), RULE) == [("c1/H100", "firing", 24)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    node = EmptyNode("n", NodeGroup("c", "t"), 0, 1, 10 * 10**9)
    of = {"nodes": 4, "least_usd_per_hour": 10}
    assert [each.share for each in margins(of, [node, node])] == [0.5, 2.0]


@pytest.mark.parametrize("has_alert", [False, True])
def test_what_its_nodes_cost_is_told_once(world: World, has_alert: bool) -> None:
    """The rule itself is off, so that others tell of the nodes, unless an alert of it stood."""
    in_use(world, range(16 * 60))
    for number in range(12):
        nodes(world, range(180, 16 * 60), 8, f"x{number}", **P5)
    if has_alert:
        about = {"alert_id": "al_1", "rule": RULE, "subject_kind": "node_group", "subject_name": "c1/p5"}
        times = {"started": at(T0 + 3 * HOUR_MS), "resolved": at(T0 + 16 * HOUR_MS)}
        world.put(ALERTS, **about, **times, status="resolved")
    changes = world.look(16, ("rule", "off", {"rule": RULE, "enabled": False}))
    yielding = {name for name, rule in LEDGER_RULES.items() if RULE in rule.yields_to}
    assert {each.rule for each in changes} & yielding == (set() if has_alert else yielding)
