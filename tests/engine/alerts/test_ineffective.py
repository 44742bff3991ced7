"""What has no effect is said, by one function for all who write controls and for the meter that reads them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from streams.engine.alerts.ineffective import field_and_reason
from tests.control_faults import control_faults


def said(kind: str, **fields: Any) -> list[str]:
    value = {"source": "t", "id": "1", "time_ms": 1_780_308_000_000, "kind": kind, "name": "n", **fields}
    return control_faults(json.dumps(value).encode())


ACK = "al_" + "0" * 24


@pytest.mark.parametrize(
    ("kind", "fields", "words"),
    [
        # Unknown keys.
        ("budget", {"usd": 1, "tem": "vision"}, "budget/n: tem: no such match field"),
        ("budget", {"usd": 1, "currency": "EUR"}, "currency: controls are in US dollars"),
        ("budget", {"usd": 1, "eur": "1"}, "eur: controls are in US dollars"),
        ("planned", {"usd_per_hour": 1, "EUR_per_hour": 1}, "EUR_per_hour: controls are in US dollars"),
        ("silence", {"tem": "vision"}, "tem: no such match field"),
        ("silence", {"match": {"tem": "vision"}}, "tem: no such match field"),
        ("planned", {"usd_per_hour": 1, "tem": "vision"}, "tem: no such match field"),
        ("override", {"reason": "x", "tem": "vision"}, "tem: no such match field"),
        ("rule", {"rule": "burn_fast", "tem": "vision"}, "tem: no such match field"),
        ("owner", {"slak": "https://example.com/x"}, "slak: no such field, expected one of"),
        ("owner", {"webhook": "https://example.com/x", "tem": "v"}, "tem: no such field"),
        ("receipt", {"on": True, "tem": "vision"}, "tem: no such field"),
        ("ack", {"alert_id": ACK, "untill_ms": 1}, "untill_ms: no such field"),
        # Misspelt values.
        ("silence", {"rule": "burn_fsat"}, "rule: got"),
        ("silence", {"rule": "canary_wrong"}, "rule: got"),
        ("silence", {"severity": "pgae"}, "severity: got"),
        ("rule", {"rule": "burn_fsat"}, "rule: got"),
        ("rule", {}, "name (without a field `rule`): got"),
        ("rule", {"rule": "burn_fast", "severity": "loud"}, "severity"),
        ("budget", {"usd": 1, "per": "mnth"}, "per"),
        ("budget", {"usd": 1, "actions": ["chekpoint"]}, "actions: expected"),
        ("ack", {"alert_id": ACK, "until_ms": "tomorrow"}, "until_ms"),
        ("silnce", {}, "kind"),
        # Out of order or out of bounds.
        ("budget", {"usd": 1, "actions": [{"do": "stop", "at": 1}, {"do": "notify", "at": 0.5}]}, "smaller"),
        ("rule", {"rule": "burn_fast", "thresholds": {"long_ratio": -1}}, "long_ratio"),
        ("rule", {"rule": "unallocated", "thresholds": {"idle_ratio": 5}}, "idle_ratio"),
        ("rule", {"rule": "unallocated", "thresholds": {"idle": 0.5}}, "idle"),
        # What nothing can have.
        ("silence", {"rule": "budget_used", "gpu_type": "H100"}, "gpu_type: alerts of budget_used have none"),
        (
            "silence",
            {"rule": "unallocated", "experiment": "lr"},
            "experiment: alerts of unallocated have none",
        ),
        ("silence", {"rule": "burn_fast", "job_id": ""}, "job_id: it is empty"),
        ("planned", {"usd_per_hour": 1, "job": ""}, "job_id: it is empty"),
        ("budget", {"usd": 1, "job": ""}, "job_id: it is empty"),
        ("budget", {"usd": 1, "team": "a", "match": {"team": "b"}}, "asks for both"),
        ("rule", {"rule": "price_jump", "team": "a"}, "takes no match fields"),
        (
            "silence",
            {"rule": "unallocated", "team": "a"},
            "team: alerts of unallocated have none, expected `rule`",
        ),
        ("silence", {"rule": "team_burn", "job_id": "j"}, "job_id: alerts of team_burn have none"),
        ("rule", {"rule": "team_burn", "cluster": "a"}, "cluster: team_burn matches on team"),
        # What is meant.
        ("budget", {"usd": 1, "tem": "vision"}, "did you mean team?"),
        ("budget", {"usd": 1, "team": "v", "grace": 60}, "did you mean grace_s?"),
        ("planned", {"usd_per_hour": 1, "from": 1}, "did you mean from_ms?"),
        ("owner", {"slak": "https://example.com/x"}, "did you mean slack?"),
        ("ack", {"alert_id": ACK, "untill_ms": 1}, "did you mean until_ms?"),
        ("receipt", {"on": True, "ownr": "ada"}, "did you mean owner?"),
        ("silence", {"rule": "burn_fsat"}, "did you mean burn_fast?"),
        ("silence", {"severity": "pgae"}, "did you mean page?"),
        ("rule", {"rule": "burn_fsat"}, "did you mean burn_fast?"),
        ("rule", {"rule": "burn_fast", "thresholds": {"long_rato": 3}}, "did you mean long_ratio?"),
        ("budget", {"usd": 1, "actions": ["chekpoint"]}, "did you mean checkpoint?"),
        # An end before the beginning.
        ("silence", {"from_ms": 2, "until_ms": 1}, "until_ms: got 1"),
        ("planned", {"usd_per_hour": 1, "from_ms": 2, "until_ms": 2}, "until_ms: got 2"),
        ("override", {"reason": "x", "from_ms": 2, "until_ms": 1}, "until_ms: got 1"),
    ],
)
def test_it_is_said_what_has_no_effect_and_why(kind: str, fields: dict[str, Any], words: str) -> None:
    (line,) = said(kind, **fields)
    assert words in line


@pytest.mark.parametrize(
    ("kind", "fields", "named"),
    [
        (
            "rule",
            {"rule": "burn_fast", "thresholds": {"long_ratio": 0.5, "log_ratio": 3}, "severity": "loud", "tem": "a"},
            ["tem", "severity", "thresholds.long_ratio", 'thresholds."log_ratio"'],
        ),
        ("rule", {"rule": "burn_fsat", "tem": "a"}, ["tem", "rule"]),
        ("rule", {"rule": "price_jump", "team": "a", "enabled": 1}, ["match", "enabled"]),
        ("rule", {"rule": "team_burn", "cluster": "a", "project": 3}, ["project"]),
        ("rule", {"sql": "SELECT 1", "every": "7m", "severity": "loud", "teem": 1}, ["sql", "sql", "every", "teem", "severity"]),
        (
            "silence",
            {"weekdays": ["mon", "tus", "wen"], "hours": "25:00-26:00", "time_zone": "Berlin", "rule": "burn_fsat", "severity": "loud"},
            ["severity", "rule", "weekdays", "weekdays", "hours", "time_zone"],
        ),
        ("silence", {"from_ms": 2, "until_ms": 1, "tem": "a", "hours": "x"}, ["tem", "until_ms", "hours"]),
        ("planned", {"time_zone": "UTC", "job": ""}, ["job_id", "usd_per_hour", "time_zone"]),
        ("budget", {"grace_s": 1e9, "actions": ["stop", "stop"], "tem": "a"}, ["tem", "usd", "actions", "grace_s"]),
        ("override", {"from_ms": 2, "until_ms": 1, "budget": 3, "tem": "a"}, ["tem", "until_ms", "budget", "reason"]),
        ("ack", {"alert_id": ACK, "tem": "a", "untill_ms": 1}, ["tem", "untill_ms"]),
        ("receipt", {"on": 1, "ownr": "ada", "team": ""}, ["ownr", "on", "team"]),
        ("owner", {"slak": "x", "escalate": [1], "escalate_after_min": 0}, ["slak", "escalate", "escalate_after_min"]),
    ],
)  # fmt: skip
def test_every_fault_of_one_record_is_said(kind: str, fields: dict[str, Any], named: list[str]) -> None:
    details = [line.removeprefix(f"{kind}/n: ") for line in said(kind, **fields)]
    assert [field_and_reason(detail)[0] for detail in details] == named


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("silence", {}),
        ("silence", {"rule": "burn_fast", "gpu_type": "H100", "severity": "page"}),
        ("silence", {"rule": "budget_used", "experiment": "lr"}),
        ("silence", {"rule": "team_burn", "team": ""}),
        ("silence", {"rule": "retry_overhead", "job_id": "j", "team": "a"}),
        ("silence", {"rule": "unallocated", "team": ""}),
        ("silence", {"until_ms": 1}),  # ends the one of that name
        ("owner", {"email": "a@example.com", "comment": "on leave"}),
        ("owner", {}),  # has no address any more
        ("ack", {"alert_id": ACK}),
        ("rule", {"rule": "team_burn", "team": "a", "thresholds": {"usd_per_hour": 4}}),
        ("budget", {"usd": 1, "actions": ["notify", {"do": "checkpoint", "at": 0.98}, "stop"]}),
    ],
)
def test_nothing_is_said_of_what_has_an_effect(kind: str, fields: dict[str, Any]) -> None:
    assert said(kind, **fields) == []


def test_a_record_that_removes_a_control_is_none_that_has_no_effect() -> None:
    assert control_faults(None) == []


def test_an_address_in_the_wrong_place_is_not_shown() -> None:
    assert "secret" not in said("owner", webhok="https://hooks.example.com/secret")[0]


def test_the_field_of_a_refusal_is_what_it_begins_with() -> None:
    assert field_and_reason("field `per`: got ***, expected one") == ("per", "got ***, expected one")
    assert field_and_reason("thresholds.x: y: z") == ("thresholds.x", "y: z")
    assert field_and_reason("no such thing: at all") == ("", "no such thing: at all")
