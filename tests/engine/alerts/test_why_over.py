"""The row that an alert is over says so where a plan, an acknowledged rate or a rule that was switched off ended it."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.summary import AlertFigures, summary
from streams.engine.alerts.why_over import over_as_declared
from streams.engine.kernels.episode import ENDED, RECOVERED
from streams.engine.state.dimensions import AlertDimensions
from tests.engine.alerts.scene import FAST, START_MS, USUAL, Scene
from tests.notify.scripted_sender import NOW_MS, an_alert

HOUR_MS = 3_600_000
END_MS = NOW_MS + 600_000
NANO = 10**9


def sentence(kind: int = RECOVERED, rule: str = "burn_fast") -> str:
    figures = AlertFigures(
        rule, kind, NOW_MS, END_MS, 1, 160 * NANO, 20 * NANO, 40 * NANO, 5 * NANO, 900_000, 8.0, 8.0
    )
    return summary(figures, AlertDimensions("run-big", owner="ada"))


def control(kind: str, name: str, **value: object) -> ControlEvent:
    return ControlEvent("t", f"{kind} {name}", 0, kind, name, value)


def plan(**other: object) -> ControlEvent:
    whole = {"job_id": "run-big", "usd_per_hour": "160", "from_ms": NOW_MS, "until_ms": NOW_MS + 4 * HOUR_MS}
    return control("planned", "wide", **(whole | {"by": "ada"} | other))


def ended(said: str, *controls: ControlEvent, **other: Any) -> str:
    """The sentence of the row that the alert is over, while these controls are in force."""
    rates: dict[str, Any] = {"usd_nano_per_hour": 160 * NANO, "expected_nano_per_hour": 20 * NANO}
    row: Alert = an_alert("run-big", "resolved", END_MS, summary=said, **(rates | other))
    job = AlertDimensions("run-big", owner="ada", gpu_type="A100") if row.subject_kind == "job" else None
    return over_as_declared(row, Controls.from_events(controls), job).summary


def test_the_judge_stores_the_end_with_the_plan_that_it_is_over_by() -> None:
    scene = Scene()
    fires = scene.see((60_000, FAST))[0]
    assert fires.status == "firing"
    lasts = {"from_ms": START_MS, "until_ms": START_MS + 4 * HOUR_MS}
    scene.controls = Controls.from_events([plan(job_id="j", **lasts)])
    (over,) = [each for each in scene.see((60_000, USUAL)) if each.status == "resolved"]
    assert over.summary.startswith("j is planned at $160/h by ada until 07:00 UTC; it burnt ")


def test_a_plan_that_ended_a_burn_is_named_with_its_rate_and_its_end() -> None:
    said = sentence()
    assert "run-big is below " in said
    assert "its expected cost again; it burnt $160/h" in said
    assert ended(said) == said
    assert ended(said, plan()).startswith(
        "run-big is planned at $160/h by ada until 12:00 UTC; it burnt $160/h"
    )
    assert ended(said, plan(until_ms=None, by=None)).startswith("run-big is planned at $160/h by t; it burnt")


@pytest.mark.parametrize(
    "other",
    [
        {"job_id": "another"},
        {"until_ms": END_MS},
        {"from_ms": END_MS + 1},
        {"usd_per_hour": "20"},  # no more than was expected before
        {"gpu_type": "H100"},  # the job has another one
    ],
    ids=str,
)
def test_a_plan_that_does_not_explain_it_is_not_named(other: dict[str, object]) -> None:
    assert ended(sentence(), plan(**other)) == sentence()


def test_a_job_that_ended_while_it_was_planned_has_ended() -> None:
    assert ended(sentence(ENDED), plan()) == sentence(ENDED)


def test_an_acknowledged_rate_that_lifted_a_ceiling_is_named() -> None:
    alert: Alert = an_alert("run-big", rule="ceiling")
    ack = control(
        "ack",
        alert.alert_id,
        alert_id=alert.alert_id,
        job_id="run-big",
        usd_per_hour="160",
        until_ms=NOW_MS + 4 * HOUR_MS,
        by="grace",
    )
    said = ended(sentence(rule="ceiling"), ack, rule="ceiling")
    assert said.startswith("acknowledged at $160/h by grace until 12:00 UTC: run-big pays less")


def test_a_rule_across_jobs_that_was_switched_off_is_named_and_a_rule_that_goes_on_is_not() -> None:
    over = "over after 10 min: team vision burns"
    off = control("rule", "quiet", rule="team_burn", enabled=False)
    about: dict[str, object] = {"rule": "team_burn", "subject_kind": "team", "subject_name": "vision"}
    assert ended(over, off, **about) == f"switched off by t: {over}"
    assert ended(over, **about) == over
