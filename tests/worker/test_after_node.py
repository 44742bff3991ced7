"""The rule `after_node`: jobs that are billed on nodes that are gone."""

from __future__ import annotations

from schemas.tables import ALERTS, BOOKS
from streams.engine.rules.after_node import margins
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_double_held import holds, nodes, told
from tests.worker.test_fleet_rules import World, shared, works, world

__all__ = ["shared", "world"]

RULE = "after_node"


def test_a_job_on_nodes_that_are_gone_is_one_alert_until_it_is_not_paid(world: World) -> None:
    nodes(world, range(32), 8, "n0")
    nodes(world, range(30), 8, "n1")
    holds(world, "old", range(120), 8, "n0", "n1")
    changes = world.look(3)
    assert told(changes, RULE) == [("old", "firing", 40), ("old", "resolved", 125)]
    (alert, _) = [each for each in changes if each.rule == RULE]
    assert (alert.severity, alert.owner, alert.usd_nano_per_hour) == ("ticket", "of-old", 39_840_000_000)
    assert alert.summary == (
        "old is billed for $40/h on node n1 and 1 more, terminated at 10:30 UTC; publish its end, or the nodes that it still holds,"
        " else $292 more by 18:00 UTC"
    )
    works(world, alert)


def test_a_job_that_ends_minutes_after_its_node_is_none(world: World) -> None:
    nodes(world, range(30))
    holds(world, "late", range(37))
    assert told(world.look(1), RULE) == []


def test_a_node_that_comes_back_soon_is_none(world: World) -> None:
    nodes(world, range(30))
    nodes(world, range(37, 60))
    holds(world, "rebooted", range(60))
    assert told(world.look(1), RULE) == []


def test_nodes_that_nobody_told_of_are_not_judged(world: World) -> None:
    nodes(world, range(60), 8, "n1")
    holds(world, "known", range(60))
    assert told(world.look(1), RULE) == []


def test_a_job_that_began_after_the_end_runs_on_a_node_that_is_back(world: World) -> None:
    nodes(world, range(10))
    holds(world, "new", range(20, 60))
    assert told(world.look(1), RULE) == []


def test_a_job_that_was_there_before_the_node_was_known_is_none(world: World) -> None:
    holds(world, "first", range(60))
    nodes(world, range(30, 60))
    assert told(world.look(1), RULE) == []


def test_a_node_that_goes_to_another_job_after_a_pause_is_the_same_cause(world: World) -> None:
    nodes(world, range(10))
    nodes(world, range(30, 120))
    holds(world, "old", range(120))
    holds(world, "new", range(40, 90))
    changes = world.look(2)
    assert told(changes, RULE) == [("old", "firing", 20)]
    assert told(changes) == []


def test_a_job_whose_nodes_were_held_twice_is_told_once(world: World) -> None:
    nodes(world, range(60))
    holds(world, "old", range(120))
    holds(world, "new", range(10, 60))
    changes = world.look(2)
    assert told(changes) == [("old", "firing", 20)]
    assert told(changes, RULE) == []


def test_the_rule_that_is_on_tells_of_it(world: World) -> None:
    nodes(world, range(60))
    holds(world, "old", range(120))
    holds(world, "new", range(10, 60))
    off = ("rule", "off", {"rule": "double_held", "enabled": False})
    assert told(world.look(30 / 60)) == [("old", "firing", 20)]
    changes = world.look(1.5, off)
    assert told(changes) == [("old", "resolved", 35)]
    assert told(changes, RULE) == [("old", "firing", 70)]


def test_a_shard_that_lags_is_not_taken_for_the_end_of_its_nodes(world: World) -> None:
    nodes(world, range(30))
    late = at(T0 + 30 * MINUTE_MS)
    world.put(BOOKS, topic="nodes", partition=0, shard=0, time=late, read_to=late)
    holds(world, "running", range(60))
    assert told(world.look(1), RULE) == []
    stored = at(T0 + 2 * HOUR_MS)
    world.put(BOOKS, topic="nodes", partition=0, shard=0, time=stored, read_to=stored)
    holds(world, "running", range(60, 70), began=0)
    assert told(world.look(10 / 60), RULE) == [("running", "firing", 65)]


def test_a_job_that_is_sampled_again_runs_on_others(world: World) -> None:
    nodes(world, range(30))
    holds(world, "elastic", range(60))
    holds(world, "elastic", range(60, 120), 8, "n1", began=0, sampled=range(60, 120))
    assert told(world.look(2), RULE) == [("elastic", "firing", 40), ("elastic", "resolved", 75)]


def test_the_margins_are_those_of_the_thresholds() -> None:
    assert [each.share for each in margins({"minutes": 8}, 4)] == [0.5]


def test_of_a_job_that_was_heard_of_silent_job_comes_first(world: World) -> None:
    nodes(world, range(30))
    holds(world, "old", range(120), sampled=range(30))
    assert told(world.look(3), RULE)[0] == ("old", "firing", 45)


def test_what_silent_job_tells_of_is_told_once(world: World) -> None:
    nodes(world, range(30))
    holds(world, "old", range(120), sampled=range(30))
    silent = {
        "alert_id": "al_1",
        "rule": "silent_job",
        "subject_kind": "job",
        "subject_name": "old",
        "status": "firing",
    }
    world.put(ALERTS, **silent, started=at(T0 + 40 * MINUTE_MS))
    assert told(world.look(3), RULE) == []
