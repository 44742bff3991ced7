"""Which controls cover an alert, by its subject, its job's fields and its id."""

from __future__ import annotations

import json
from typing import Any

from streams.explain.acts import ActIndex, facts_of

NOW_MS = 1_000


def control(kind: str, name: str, match: dict[str, str] | None = None, **changes: Any) -> dict[str, Any]:
    row = {
        "kind": kind,
        "name": name,
        "alert_id": "",
        "match": match or {},
        "begins_ms": None,
        "until_ms": NOW_MS + 1,
    }
    return {**row, "usd_per_hour": None, "by": "t", "comment": "", "removed": False, "fault": "", "recurring": "", **changes}  # fmt: skip


def alert(kind: str = "job", name: str = "j", **changes: str) -> dict[str, Any]:
    row = {
        "alert_id": "al_1",
        "rule": "burn_fast",
        "severity": "page",
        "owner": "ada",
        "team": "v",
        "project": "",
    }
    return {**row, "subject_kind": kind, "subject_name": name, **changes}


def found(row: dict[str, Any], *controls: dict[str, Any]) -> dict[str, str | None]:
    facts = facts_of(row, {"j": {"job_id": "j", "region": "eu", "zone": "a"}})
    acts = ActIndex(controls, NOW_MS).of(row, facts)
    return {field: None if act is None else act["name"] for field, act in acts.items()}


def test_all_match_fields_must_equal_and_an_empty_one_matches_what_is_not_known() -> None:
    assert (
        found(alert(), control("silence", "s", {"region": "eu", "rule": "burn_fast"}))["silenced_by"] == "s"
    )
    assert found(alert(), control("silence", "s", {"region": "eu", "rule": "other"}))["silenced_by"] is None
    assert found(alert(), control("silence", "s", {"project": "", "gpu_type": ""}))["silenced_by"] == "s"
    assert found(alert(), control("planned", "p", {"zone": "b"}))["planned_by"] is None
    assert found(alert(), control("silence", "all"))["silenced_by"] == "all"


def test_an_alert_about_a_team_is_matched_by_the_team_and_by_no_job() -> None:
    team = alert("team", "v")
    assert found(team, control("silence", "s", {"team": "v"}))["silenced_by"] == "s"
    assert found(team, control("silence", "s", {"job_id": "v"}))["silenced_by"] is None


def test_what_ended_was_removed_or_has_no_effect_is_not_shown_and_the_longest_is() -> None:
    rows = (
        control("silence", "ended", until_ms=NOW_MS),
        control("silence", "to come", begins_ms=NOW_MS + 1),
        control("silence", "removed", removed=True),
        control("silence", "faulty", fault="gpu: no such match field"),
        control("silence", "short"),
        control("silence", "for ever", until_ms=None),
        control("silence", "long", until_ms=NOW_MS + 9),
        control("ack", "mine", alert_id="al_1"),
        control("ack", "another's", alert_id="al_2", until_ms=None),
    )
    assert found(alert(), *rows) == {"acknowledged": "mine", "silenced_by": "for ever", "planned_by": None}


def test_ten_thousand_silences_of_other_jobs_are_not_looked_at() -> None:
    looked = []

    class Counted(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            looked.append(name)
            return super().__getitem__(name)

    many = [Counted(control("silence", f"s{at}", {"job_id": f"other{at}"})) for at in range(10_000)]
    index = ActIndex(many, NOW_MS)
    looked.clear()
    assert index.of(alert(), facts_of(alert(), {}))["silenced_by"] is None
    assert not looked


def test_one_that_recurs_is_shown_at_its_hours_with_them() -> None:
    """1970-01-01 is a Thursday."""
    nights = json.dumps({"weekdays": ["thu"], "hours": "00:00-06:00"})
    acts = ActIndex([control("silence", "s", recurring=nights)], NOW_MS)
    shown = acts.of(alert(), facts_of(alert(), {}))["silenced_by"]
    assert shown is not None
    assert shown["recurs"] == "thu 00:00-06:00 UTC"
    days = json.dumps({"weekdays": ["thu"], "hours": "06:00-24:00"})
    assert found(alert(), control("silence", "s", recurring=days))["silenced_by"] is None
