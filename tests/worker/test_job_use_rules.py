"""Rules about what the GPUs of a job do: while another rule tells of it, or just after it did, none opens."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from schemas.tables import ALERTS
from streams.engine.rules.registry import BY_NAME
from tests.worker import test_inefficient, test_spinning, test_straggler
from tests.worker.ledger_lab import MINUTE_MS, T0, at
from tests.worker.test_double_held import told
from tests.worker.test_fleet_rules import World, shared, world

__all__ = ["shared", "world"]

M = MINUTE_MS


def spins(world: World, job_id: str) -> None:
    steps = test_spinning.phases((test_spinning.WORKS, 20), (test_spinning.SPINS, 160))
    test_spinning.drives(world, job_id, steps)


def has_a_slow_node(world: World, job_id: str) -> None:
    full, falls = test_straggler.full, test_straggler.falls
    test_straggler.uses(world, job_id, range(180), n0=falls(30, until=180), n1=full, n2=full, n3=full)


def does_little(world: World, job_id: str) -> None:
    test_inefficient.does(world, job_id, test_inefficient.phases((test_inefficient.LOW, 360)))


#: Each rule with a job for which it opens, and until when (hours) nothing has opened.
RULES: dict[str, tuple[Callable[[World, str], None], float]] = {
    "spinning": (spins, 0.5),
    "straggler": (has_a_slow_node, 0.9),
    "inefficient": (does_little, 1.9),
}


@pytest.mark.parametrize(
    ("rule", "other"), [(rule, other) for rule in RULES for other in BY_NAME[rule].yields_to]
)
def test_what_another_rule_tells_of_is_told_once(world: World, rule: str, other: str) -> None:
    """Of two jobs that do the same another rule told of one, until the minute before the first look at what follows."""
    job_of, quiet_h = RULES[rule]
    for job_id in ("first", "second"):
        job_of(world, job_id)
    assert told(world.look(quiet_h), rule) == []
    over_ms = T0 + round(quiet_h * 60) * M - M
    about = {"alert_id": "al_1", "rule": other, "subject_kind": "job", "subject_name": "second"}
    world.put(ALERTS, **about, started=at(T0 + 5 * M), resolved=at(over_ms), status="resolved")
    opened = {name: minute for name, status, minute in told(world.look(3), rule) if status == "firing"}
    assert "first" in opened
    assert opened.get("second", 10**6) > opened["first"]
