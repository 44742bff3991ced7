"""The body of a webhook is the one of the contract, field by field."""

from __future__ import annotations

import json

import orjson
import pytest

from schemas.escaping import visible
from streams.notify.channels.webhook import webhook_body
from streams.notify.json_forms import rfc3339, usd
from tests.notify.scripted_sender import NOW_MS, an_alert, resolved


def test_the_message_of_a_firing_alert() -> None:
    alert = an_alert()
    assert json.loads(webhook_body(alert)) == {
        "type": "alert.firing",
        "timestamp": "2027-01-15T08:00:00.000Z",
        "data": {
            "alert_id": alert.alert_id,
            "rule": "burn_fast",
            "severity": "page",
            "status": "firing",
            "subject": {"kind": "job", "name": "job-1"},
            "owner": "ada",
            "team": "vision",
            "project": "p",
            "summary": "job-1 burns $786.56/h",
            "usd_per_hour": "786.560000001",
            "expected_usd_per_hour": "98.32",
            "ratio": 8.25,
            "window_ms": 900_000,
            "cost_usd": "65.546666667",
            "budget_usd": None,
            "exhausted_in_s": None,
            "started_ms": NOW_MS,
            "evidence_sql": "SELECT 1",
        },
    }


def test_a_resolved_one_bears_the_instant_of_its_end() -> None:
    message = orjson.loads(webhook_body(resolved(after_ms=10_001)))
    assert (message["type"], message["data"]["status"]) == ("alert.resolved", "resolved")
    assert message["timestamp"] == "2027-01-15T08:00:10.001Z"


def test_the_same_alert_gives_the_same_bytes() -> None:
    assert webhook_body(an_alert()) == webhook_body(an_alert())


def test_a_lone_surrogate_stops_no_alert() -> None:
    alert = an_alert("job-\ud800", summary="\udfff")
    assert orjson.loads(webhook_body(alert))["data"]["subject"]["name"] == "job-?"


def test_names_are_exact_for_programs_and_escaped_in_the_sentence() -> None:
    name = "a\n:white_check_mark: resolved\u202e\x1b[2J"
    data = orjson.loads(webhook_body(an_alert(name, summary=f"{name} burns", owner="\u2066ada")))["data"]
    assert data["summary"] == visible(name) + " burns"
    assert (data["subject"]["name"], data["owner"]) == (name, "\u2066ada")


@pytest.mark.parametrize(
    ("nano", "text"),
    [
        (0, "0"),
        (1, "0.000000001"),
        (1_500_000_000, "1.5"),
        (100_000_000_000, "100"),
        (-1_000_000_001, "-1.000000001"),
        (2**63 - 1, "9223372036.854775807"),
    ],
)
def test_money_is_an_exact_decimal_string(nano: int, text: str) -> None:
    assert usd(nano) == text


@pytest.mark.parametrize(
    ("ms", "text"), [(0, "1970-01-01T00:00:00.000Z"), (951_782_400_007, "2000-02-29T00:00:00.007Z")]
)
def test_instants(ms: int, text: str) -> None:
    assert rfc3339(ms) == text
