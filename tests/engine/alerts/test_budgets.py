"""Budgets and overrides as records of `controls` and as a job's own: what they limit, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.calendar import Calendar
from streams.engine.alerts.budgets import Budget, EscalationStep, Limits, own_budget
from streams.engine.alerts.controls import Controls

HOUR_MS = 3_600_000


def controls(kind: str = "budget", **value: Any) -> Controls:
    event = ControlEvent(source="s", id="1", time_ms=1, kind=kind, name="b", value=value)
    return Controls.from_events([event])


def budget(**value: Any) -> Budget:
    found = controls(**value)
    assert found.faults == ()
    return found.budgets[0]


def fault(kind: str = "budget", **value: Any) -> str:
    found = controls(kind, **value)
    assert (found.budgets, found.overrides) == ((), ())
    return found.faults[0].detail


def test_a_budget_has_limits_match_fields_and_a_period() -> None:
    found = budget(team="vision", usd="10000.5", gpu_hours=2, wall_clock_hours=0.5, per="month")
    assert found.limits == Limits(10_000_500_000_000, 2 * HOUR_MS * 1000, HOUR_MS // 2)
    assert (found.name, found.match, found.per, found.escalation_steps) == (
        "b",
        {"team": "vision"},
        "month",
        (),
    )


def test_the_older_names_of_fields_are_taken() -> None:
    assert budget(usd=1, subject="team/vision", period="day") == budget(usd="1", team="vision", per="day")
    assert budget(usd=1, subject="job:run-7").match == {"job_id": "run-7"}
    assert budget(usd=1, subject={"kind": "owner", "name": "ada"}).match == {"owner": "ada"}
    assert budget(usd=1, match={"job": "run-7"}).match == {"job_id": "run-7"}
    assert budget(usd=1, action="stop").escalation_steps == (EscalationStep("stop"),)
    assert budget(usd=1).per == "total"


def test_a_budget_has_a_calendar_of_its_own() -> None:
    fiscal = {"time_zone": "Europe/London", "week_start": "sunday", "year_start": "04-06", "months": "4-4-5"}
    assert budget(usd=1, per="month", **fiscal).calendar == Calendar(
        "Europe/London", "sunday", "04-06", "4-4-5"
    )
    assert budget(usd=1, per="week", time_zone="Asia/Tokyo").calendar == Calendar("Asia/Tokyo")
    assert budget(usd=1, per="week").calendar.is_plain


def test_a_ladder_is_names_or_objects_with_shares() -> None:
    steps: list[Any] = ["notify", {"do": "checkpoint"}, {"do": "stop", "at": 1.05}]
    assert budget(usd=1, actions=steps).escalation_steps == (
        EscalationStep("notify"),
        EscalationStep("checkpoint"),
        EscalationStep("stop", 1.05),
    )
    assert budget(usd=1, actions=["stop"], grace_s=90).grace_ms == 90_000


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({}, "usd: expected at least one of"),
        ({"usd": 0}, "usd: got 0, expected a number above 0"),
        ({"usd": "much"}, "usd: got"),
        ({"usd": float("nan")}, "usd: got"),
        ({"usd": True}, "usd: got"),
        ({"gpu_hours": -1}, "gpu_hours: got -1"),
        ({"usd": 1, "per": "year"}, "per: got"),
        ({"usd": 1, "per": "day", "period": "month"}, "period: differs"),
        ({"usd": 1, "teem": "vision"}, "no such match field"),
        ({"usd": 1, "cluster": "c"}, "no such match field"),
        ({"usd": 1, "subject": "team/a", "team": "b"}, "and team is"),
        ({"usd": 1, "subject": "vision"}, "subject: expected KIND/NAME"),
        ({"usd": 1, "subject": "cluster/c"}, "subject: expected KIND/NAME"),
        ({"usd": 1, "actions": ["explode"]}, "actions: expected notify"),
        ({"usd": 1, "actions": ["stop", "stop"]}, "actions: one is named twice"),
        ({"usd": 1, "actions": [{"do": "stop", "at": 1}, {"do": "notify", "at": 0.5}]}, "smaller share"),
        ({"usd": 1, "actions": [{"do": "stop", "when": 1}]}, "`do` and `at`"),
        ({"usd": 1, "actions": [{"do": "stop", "at": 0}]}, "`at` must be above 0"),
        ({"usd": 1, "actions": 7}, "expected an array"),
        ({"usd": 1, "grace_s": -1}, "grace_s: got -1"),
        ({"usd": 1, "webhook": 5}, "webhook: expected a string"),
        ({"usd": 1, "per": "day", "time_zone": "../../etc/passwd"}, "time_zone: got"),
        ({"usd": 1, "per": "day", "time_zone": "Europe/Berlinn"}, "Europe/Berlin?"),
        ({"usd": 1, "per": "day", "time_zone": 7}, "time_zone: expected a string"),
        ({"usd": 1, "per": "day", "week_start": "someday"}, "week_start: got"),
        ({"usd": 1, "per": "month", "year_start": "02-30"}, "year_start: got"),
        ({"usd": 1, "per": "month", "months": "13"}, "months: got"),
        ({"usd": 1, "time_zone": "Europe/Berlin"}, "time_zone: it is that of a budget per day"),
    ],
)
def test_a_budget_that_cannot_be_meant_has_no_effect(fields: dict[str, Any], words: str) -> None:
    assert words in fault(**fields)


def test_the_address_of_a_receiver_is_not_shown() -> None:
    assert "secret" not in repr(budget(usd=1, webhook="https://hooks.example.com/secret"))


def test_an_override_needs_its_reason_and_covers_what_it_names() -> None:
    assert "reason: expected why" in fault("override", budget="b", until_ms=10)
    (found,) = controls("override", budget="b", reason="paper", job="run-7", until_ms=10).overrides
    assert found.covers("b", {"job_id": "run-7"}, 9)
    assert not found.covers("b", {"job_id": "run-7"}, 10)
    assert not found.covers("b", {"job_id": "run-8"}, 9)
    assert not found.covers("c", {"job_id": "run-7"}, 9)


def test_a_jobs_own_budget_is_per_run() -> None:
    found = own_budget({"usd": "5000", "action": "checkpoint"})
    assert found is not None
    assert (found.per, found.limits.usd_nano, found.escalation_steps) == (
        "run",
        5_000 * 10**9,
        (EscalationStep("checkpoint"),),
    )
    assert own_budget({}) is None
    assert own_budget({"action": "stop"}) is None


def test_a_step_without_a_share_comes_no_later_than_the_one_after_it() -> None:
    """The ladder of docs/budgets.md: `notify` at 98 %, with the checkpoint."""
    steps = [
        "notify",
        {"do": "checkpoint", "at": 0.98},
        {"do": "suspend", "at": 1},
        {"do": "stop", "at": 1.05},
    ]
    found = budget(usd=1, actions=steps).escalation_steps
    assert [step.at_ratio for step in found] == [0.98, 0.98, 1.0, 1.05]
