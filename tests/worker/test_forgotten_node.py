"""The rule `forgotten_node`: nodes of a group that are paid and had no job for hours are one alert."""

from __future__ import annotations

import pytest

from schemas.tables import ALERTS, UNATTRIBUTED_MINUTES
from streams.worker.ledger_judges.known_alerts import KnownAlerts
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, at
from tests.worker.test_fleet_rules import World, said, shared, works, world

__all__ = ["shared", "world"]


def test_idle_nodes_and_forgotten_ones(world: World) -> None:
    for hour in range(8):
        world.node("used", hour, 20, used=20)
        world.node("empty", hour, 5)
    changes = world.look(8)
    # Not in the fleet's first hour.
    assert said(changes, "unallocated") == [("nodes", "firing", 2)]
    assert said(changes, "forgotten_node") == [("c1/empty", "firing", 6)]
    alert = next(each for each in changes if each.rule == "forgotten_node")
    assert (alert.team, alert.cost_nano) == ("infra", 30 * 10**9)
    for each in changes:
        works(world, each)
    world.node("empty", 8, 5, used=5)
    world.node("used", 8, 20, used=20)
    changes = world.look(1)
    assert said(changes, "forgotten_node") == [("c1/empty", "resolved", 9)]
    assert said(changes, "unallocated") == [("nodes", "resolved", 9)]


def test_nodes_that_were_idle_before_a_first_poll_are_told_before_the_next_hour(world: World) -> None:
    assert said(world.look(8.5), "forgotten_node") == []
    for hour in range(9):
        world.node("old", hour, 5)
        world.node("busy", hour, 5, used=5 if hour == 7 else None)
    for hour in range(5, 9):
        world.node("new", hour, 5)
    changes = world.look(4 / 60)
    assert said(changes, "forgotten_node") == []  # no five minutes are over
    changes = world.look(1 / 60)
    assert said(changes, "forgotten_node") == [("c1/old", "firing", 8)]
    works(world, next(each for each in changes if each.rule == "forgotten_node"))
    assert said(world.look(10 / 60), "forgotten_node") == []
    for node in ("old", "new", "busy"):
        world.node(node, 9, 5)
        world.node(node, 10, 5, used=5)
    assert said(world.look(1.25), "forgotten_node") == []
    world.node("new", 11, 5)
    world.node("busy", 11, 5)
    assert said(world.look(1), "forgotten_node") == [("c1/old", "resolved", 11)]


def test_a_takeover_after_a_first_poll_tells_of_a_node_once(world: World) -> None:
    world.look(8.5)
    for hour in range(9):
        world.node("old", hour, 5)
    (alert,) = [each for each in world.look(0.25) if each.rule == "forgotten_node"]
    stored = {
        "alert_id": alert.alert_id,
        "rule": "forgotten_node",
        "subject_kind": "node_group",
        "subject_name": "c1/old",
    }
    world.put(ALERTS, **stored, status="firing", started=at(T0 + 8 * HOUR_MS), changed=at(T0 + 8 * HOUR_MS))
    world.memory = KnownAlerts(world.store)
    assert said(world.look(0.25), "forgotten_node") == []
    off = ("rule", "off", {"rule": "forgotten_node", "enabled": False})
    world.memory, world.since_ms = KnownAlerts(world.store), T0 + round(8.5 * HOUR_MS)
    assert said(world.look(0.25, off), "forgotten_node") == []


def test_nodes_of_a_group_that_come_up_one_at_a_time_are_one_alert(world: World) -> None:
    for number in range(4):
        for hour in range(3 * number, 20):
            world.node(f"x{number}", hour, 5, kind="p5")
    changes = world.look(20)
    assert said(changes, "forgotten_node") == [("c1/p5", "firing", 6)]
    (alert,) = [each for each in changes if each.rule == "forgotten_node"]
    works(world, alert)
    assert alert.summary.startswith(
        "node x0 has been paid for 6 h and had no job, $5.00/h; terminate it or let jobs on it, else"
    )
    for number in range(4):
        world.node(f"x{number}", 20, 5, used=None if number == 3 else 5, kind="p5")
        world.node(f"x{number}", 21, 5, used=5, kind="p5")
    # A job on some of them leaves the last one.
    assert said(world.look(2), "forgotten_node") == [("c1/p5", "resolved", 22)]


def test_nodes_that_are_forgotten_in_one_hour_are_counted(world: World) -> None:
    for hour in range(7):
        for number in range(2):
            world.node(f"x{number}", hour, 5, kind="p5")
    (alert,) = [each for each in world.look(7) if each.rule == "forgotten_node"]
    assert (alert.ratio, alert.team) == (2, "infra")
    assert alert.summary.startswith(
        "2 p5 nodes in cluster c1 (x0, ...) have been paid for 6 h and had no job, $10.00/h; terminate them or let jobs on them"
    )


def _works(world: World, node: str, minutes: range, gpus: int = 8, productive_ms: int = 60_000) -> None:
    """GPUs of a node work in some minutes, and samples name no job."""
    for minute in minutes:
        for gpu in range(gpus):
            about = {"node": node, "gpu": str(gpu), "minute": at(T0 + minute * MINUTE_MS)}
            world.put(UNATTRIBUTED_MINUTES, **about, sampled_s=60, productive_ms=productive_ms)


def _node(world: World, hours: int, used: int = 1) -> None:
    """A node of 8 GPUs that a job held at the beginning of its first hours."""
    for hour in range(hours):
        gpu_milli_ms = 8_000 * HOUR_MS
        world.node("n0", hour, 16, used=5 if hour < used else None, kind="p5", gpu_milli_ms=gpu_milli_ms)


def test_what_works_on_when_its_job_has_ended_is_told_at_the_end_of_the_hour(world: World) -> None:
    _node(world, 4)
    _works(world, "n0", range(10, 150))
    changes = world.look(4)
    assert said(changes, "forgotten_node") == [("c1/p5", "firing", 1), ("c1/p5", "resolved", 4)]
    alert = next(each for each in changes if each.rule == "forgotten_node")
    works(world, alert)
    assert alert.summary.startswith(
        "8 GPUs of node n0 work for no job, $13.33 in an hour; user held it last: end what it left, or let the"
        " exporter name its job, else"
    )


@pytest.mark.parametrize(
    ("minutes", "gpus", "productive_ms", "hours"),
    [
        (range(60, 120), 8, 60_000, [("c1/p5", "firing", 2), ("c1/p5", "resolved", 3)]),
        (range(60, 120), 1, 60_000, [("c1/p5", "firing", 2), ("c1/p5", "resolved", 3)]),
        (range(60, 119), 1, 60_000, []),
        (range(60, 120), 8, 7_400, []),
    ],
    ids=["all of them", "one for $2", "for less", "hardly at all"],
)
def test_the_dollars_of_what_works_for_no_job_count(
    world: World, minutes: range, gpus: int, productive_ms: int, hours: list[tuple[str, str, int]]
) -> None:
    _node(world, 4)
    _works(world, "n0", minutes, gpus, productive_ms)
    assert said(world.look(4), "forgotten_node") == hours


def test_a_node_that_no_job_held_for_a_day_is_nobodys(world: World) -> None:
    """Whoever works there is not metered: it would be told each hour."""
    for hour in range(28):
        used = 5 if hour == 1 else None
        world.node("n0", hour, 16, used=used, kind="p5", gpu_milli_ms=8_000 * HOUR_MS)
    off = ("rule", "off", {"rule": "forgotten_node", "thresholds": {"hours": 168}})
    _works(world, "n0", range(25 * 60, 28 * 60))
    assert said(world.look(28, off), "forgotten_node") == [("c1/p5", "firing", 26), ("c1/p5", "resolved", 27)]
