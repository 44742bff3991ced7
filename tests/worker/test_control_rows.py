"""Rows of `controls`: what each record asked for, and nothing of an owner's address."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import orjson
import pytest

from schemas.control_table import CONTROLS
from schemas.events import ControlEvent
from streams.engine.pricing.book import PriceBook
from streams.worker.reference.reference_reader import ReferenceChanges
from streams.worker.storing.control_rows import control_table
from streams.worker.storing.unsharded_rows import reference_rows

ALERT = "al_8fe63f15d88e32e0d55fbafd"


def control(kind: str, name: str, **value: object) -> ControlEvent:
    return ControlEvent("web", "c1", 5, kind, name, value)


def row(event: ControlEvent | None, key: bytes = b"silence/night") -> dict[str, Any]:
    (found,) = control_table([(1_000, key, event)], [7]).to_pylist()
    return dict(found)


def test_a_silence_says_what_it_matches_and_until_when() -> None:
    found = row(
        control(
            "silence", "night", job="j", match={"team": "vision"}, until_ms=9_000, by="web.token", comment="x"
        )
    )
    assert dict(found["match"]) == {"job_id": "j", "team": "vision"}
    assert found["begins"] is None
    assert found["until"].timestamp() == 9
    assert (found["by"], found["comment"], found["fault"], found["offset"], found["version"]) == (
        "web.token",
        "x",
        "",
        7,
        8,
    )


def test_a_planned_rate_and_an_acknowledgement() -> None:
    planned = row(control("planned", "wide", job_id="j", until_ms=9, usd_per_hour=0.1))
    assert planned["planned_usd_per_hour"] == Decimal("0.1")
    ack = row(control("ack", ALERT, alert_id=ALERT, until_ms=9, by="web.write_token"))
    assert (ack["alert_id"], ack["by"], ack["planned_usd_per_hour"]) == (ALERT, "web.write_token", None)


def test_the_reason_of_an_override_is_its_comment() -> None:
    found = row(control("override", "paper", budget="b", until_ms=9, reason="due"))
    assert (found["comment"], dict(found["match"]), found["fault"]) == ("due", {"budget": "b"}, "")


def test_what_has_no_effect_says_why() -> None:
    found = row(control("silence", "night", gpu="H100"))
    assert found["fault"].startswith("gpu: no such match field")


def test_a_record_without_a_value_removes() -> None:
    found = row(None, b"silence/a/b")
    assert (found["kind"], found["name"], found["removed"]) == ("silence", "a/b", True)


def test_no_address_is_in_a_row() -> None:
    secret = "https://hooks.example.com/s3cr3t"
    budget = control("budget", "b", team="t", usd="1", webhook=secret)
    for event in (control("owner", "ada", webhook=secret, slack=secret, email="ada@s3cr3t"), budget):
        assert "s3cr3t" not in repr(row(event))


def test_rows_of_the_same_records_have_one_token() -> None:
    log = [(1_000, b"silence/n", control("silence", "n"))]
    news = ReferenceChanges(PriceBook.empty(), {}, [], [], 0, 0, {}, (), log, control_offsets=[41])
    for _ in range(2):
        extra, change = reference_rows(news)
        assert (extra.table, extra.token, extra.rows.num_rows) == (CONTROLS, "controls:41:41", 1)
        assert (change.table, change.token, change.rows.num_rows) == ("changes", "changes:41:41", 1)


def test_of_rules_and_plans_the_record_itself_is_stored_and_of_an_owners_addresses_nothing() -> None:
    rule = row(control("rule", "calm", rule="silent_job", thresholds={"minutes": 30}))
    assert orjson.loads(rule["value"]) == {"rule": "silent_job", "thresholds": {"minutes": 30}}
    plan = row(control("planned", "wide", job_id="j", until_ms=9, usd_per_hour=0.1))
    assert orjson.loads(plan["value"])["usd_per_hour"] == 0.1
    assert row(control("owner", "ada", slack="https://hooks.example/secret"))["value"] == ""
    assert row(None, b"rule/calm")["value"] == ""


@pytest.mark.parametrize("kind", ["owner", "team"])
def test_of_owners_and_teams_the_escalation_alone_is_stored(kind: str) -> None:
    settings = {"escalate": ["grace"], "escalate_after_min": 5}
    stored = row(control(kind, "ada", webhook="https://hooks.example/secret", **settings))
    assert orjson.loads(stored["value"]) == settings
