"""A control that would change nothing is refused; the same one is taken where it ends, resets or overrides another."""

from __future__ import annotations

from typing import Any

import pytest

from schemas.events import ControlEvent
from streams.engine.alerts.beside_others import fault_beside

NOW_MS = 1_780_308_000_000
HOUR_MS = 3_600_000


def control(kind: str, name: str = "n", **value: Any) -> ControlEvent:
    return ControlEvent("t", "1", NOW_MS, kind, name, value)


def fault(event: ControlEvent, *others: ControlEvent, replaced: ControlEvent | None = None) -> str | None:
    return fault_beside(event, replaced, others, NOW_MS)


def rule(name: str = "n", which: str = "burn_fast", **value: Any) -> ControlEvent:
    return control("rule", name, rule=which, **value)


PAST, COMING = NOW_MS - 1, NOW_MS + 1
LONG_PAST = NOW_MS - 6 * HOUR_MS


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            control("silence", until_ms=NOW_MS),
            "until_ms: it ended at 2026-06-01 10:00:00 UTC, and no silence of this name goes on",
        ),
        (
            control("planned", usd_per_hour=1, until_ms=LONG_PAST),
            "until_ms: it ended at 2026-06-01 04:00:00 UTC",
        ),
        (control("override", reason="x", until_ms=PAST), "until_ms: it ended at"),
        (control("ack", until_ms=PAST, alert_id="al_" + "0" * 24), "no ack of this name"),
        (control("override", reason="x", budget="sweep"), 'budget: got "sweep", and no budget'),
        (control("owner", comment="on leave"), "webhook: expected at least one of webhook, slack, email"),
        (rule(), "rule: it sets nothing"),
        (rule(severity="ticket"), 'severity: it sets the defaults of burn_fast (severity "ticket")'),
        (
            rule(thresholds={"long_ratio": 2.5}),
            "thresholds: it sets the defaults of burn_fast (long_ratio 2.5)",
        ),
        (rule(enabled=True, severity="ticket", match={"team": "v"}), "(enabled true, severity"),
        (
            rule(which="team_burn", thresholds={"usd_per_hour": 0}),
            "thresholds: it sets the defaults of team_burn",
        ),
    ],
)
def test_what_changes_nothing_is_refused_with_the_field(event: ControlEvent, words: str) -> None:
    assert words in (fault(event) or "")


@pytest.mark.parametrize(
    "event",
    [
        control("silence"),
        control("silence", until_ms=COMING),
        control("planned", usd_per_hour=1, until_ms=LONG_PAST + 1),
        control("override", reason="x"),
        control("owner", email="a@example.com"),
        control("budget", usd=1, team="a"),
        control("receipt", on=False),
        rule(enabled=False),
        rule(thresholds={"long_ratio": 2.5, "short_ratio": 7}),
        rule(which="unpriced", enabled=True),
        rule(which="team_burn", thresholds={"usd_per_hour": 1}),
    ],
)
def test_what_changes_something_by_itself_is_taken(event: ControlEvent) -> None:
    assert fault(event) is None


def test_an_end_in_the_past_ends_what_goes_on_and_nothing_else() -> None:
    ended = control("silence", until_ms=PAST)
    assert fault(ended, replaced=control("silence", until_ms=COMING)) is None
    assert fault(ended, replaced=control("silence")) is None
    assert fault(ended, replaced=control("silence", until_ms=PAST - 1)) is not None


def test_defaults_are_set_where_they_undo_another_record() -> None:
    narrow = rule("n", severity="ticket", match={"team": "v"})
    assert fault(narrow, rule("all", severity="page")) is None
    assert fault(narrow, rule("all", severity="page", match={"team": "other"})) is not None, "no common job"
    assert fault(narrow, rule("all", thresholds={"long_ratio": 3})) is not None, "another setting"
    assert fault(narrow, rule("all", "burn_drift", severity="page")) is not None, "another rule"
    two = {"team": "v", "owner": "a"}
    assert fault(narrow, rule("narrower", severity="page", match=two)) is not None, "it wins itself"
    # Of as many match fields the smallest name wins.
    assert fault(narrow, rule("z", severity="page", match={"owner": "a"})) is None
    assert fault(narrow, rule("a", severity="page", match={"owner": "a"})) is not None
    assert fault(narrow, rule("all", severity="loud")) is not None, "it has no effect itself"


def test_defaults_of_a_rule_across_jobs_undo_a_record_of_a_greater_name() -> None:
    reset = rule("b", "retry_overhead", thresholds={"least_usd": 10})
    assert fault(reset, rule("c", "retry_overhead", thresholds={"least_usd": 50})) is None
    assert fault(reset, rule("a", "retry_overhead", thresholds={"least_usd": 50})) is not None
    # Each record of this rule is a limit of its own.
    none = rule("b", "team_burn", thresholds={"usd_per_hour": 0})
    assert fault(none, rule("c", "team_burn", thresholds={"usd_per_hour": 9})) is not None


def test_a_record_is_reset_by_one_of_its_name() -> None:
    default = rule(severity="ticket")
    assert fault(default, replaced=rule(severity="page")) is None
    assert fault(default, replaced=rule(severity="ticket")) is not None
    assert fault(default, replaced=rule(severity="loud")) is not None


def test_an_owner_may_lose_all_addresses() -> None:
    assert fault(control("owner"), replaced=control("owner", slack="https://hooks.slack.com/x")) is None
    assert fault(control("owner"), replaced=control("owner")) is not None


def test_an_override_names_a_budget_that_there_is() -> None:
    override = control("override", reason="x", budget="swep-12")
    assert (fault(override, control("budget", "sweep-12", usd=1)) or "").endswith("did you mean sweep-12?")
    assert fault(override, control("budget", "swep-12", usd=1)) is None
