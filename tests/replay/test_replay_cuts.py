"""A log is replayed whole and in parts: what changes minutes that are over (a corrected price, another team) changes no alert of them."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare
from tests.replay.test_replay_budgets import MINUTE_MS, PRICE, T0, budget, ended, rows, started, write

Event = tuple[int, str, dict[str, Any]]

ALERTS = """
SELECT alert_id, rule, severity, status, subject_name, ratio, cost_usd, firings, started, resolved, changed, summary
FROM alerts FINAL ORDER BY started, alert_id"""


def at(minute: int) -> int:
    return T0 + minute * MINUTE_MS


def log() -> list[Event]:
    """$1 a minute; the price is corrected to a tenth after 100 minutes, for the hour before, too."""
    beats = [(at(each), "jobs", {"job_id": "one", "type": "heartbeat"}) for each in range(5, 180, 20)]
    limit = {"team": "vision", "per": "day", "contact": "ada"}
    events = [
        (T0, "prices", PRICE),
        budget("day", usd=60, **limit),
        started("one"),
        (at(65), "controls", {"kind": "budget", "name": "day", "usd": 90, **limit}),
        (at(100), "prices", {**PRICE, "usd": "0.6", "effective_ms": at(30)}),
        # Another team from now on, and its money of before as well.
        (at(140), "jobs", {"job_id": "one", "type": "heartbeat", "team": "nlp"}),
        (at(150), "controls", {"kind": "budget", "name": "nlp", "usd": 50, "team": "nlp"}),
        ended("one", at(170)),
        *beats,
    ]
    return sorted(events, key=lambda each: each[0])


def replayed(data: Path, *parts: list[Event]) -> list[dict[str, Any]]:
    count = 0
    for number, part in enumerate(parts):
        file = write(data.parent / f"{data.name}-{number}.jsonl", *part)
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        for line in lines:  # ids of the whole log, however it is cut
            line["value"]["id"], count = f"e{count}", count + 1
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = trainfare("replay", file, "--data", data, *(["--append"] if number else []))
        assert done.code == 0, done.err
    return rows(data, ALERTS)


@pytest.mark.timeout(900)
def test_a_replay_in_parts_tells_what_the_whole_one_tells(tmp_path: Path) -> None:
    events = log()
    whole = replayed(tmp_path / "whole", events)
    used = [
        (each["severity"], each["status"], each["summary"]) for each in whole if each["rule"] == "budget_used"
    ]
    # By the price that was known: $60 were used up after an hour, and $90 after an hour and a half.
    assert [severity for severity, _, _ in used].count("page") == 2
    corrected = next(n for n, each in enumerate(events) if each[0] == at(100))
    renamed = next(n for n, each in enumerate(events) if each[0] == at(140))
    for name, cuts in {"two": [7], "at": [corrected, renamed], "after": [corrected + 1, renamed + 1]}.items():
        places = [0, *cuts, len(events)]
        parts = [events[a:b] for a, b in pairwise(places)]
        assert replayed(tmp_path / name, *parts) == whole, name


def resubmitted() -> list[Event]:
    """$1 a minute; a run of three jobs, the second one after a pause in which the first one was taken as over."""
    said: dict[str, Any] = {"owner": "ada", "team": "vision"}
    events = [
        (T0, "prices", PRICE),
        budget("each", usd=50, per="run", team="vision"),
        started("train-1", budget={"usd": "30"}, **said),
        ended("train-1", at(20), "failed"),
        started("train-2", at(45), budget={"usd": "80"}, **said),
        ended("train-2", at(65) + 1, "failed"),
        started("train-3", at(70) - 1, **said),
        ended("train-3", at(100)),
        *(
            (at(each), "jobs", {"job_id": "z", "type": "heartbeat", "owner": "bob"})
            for each in range(5, 120, 5)
        ),
    ]
    return sorted(events, key=lambda each: each[0])


@pytest.mark.timeout(900)
def test_a_run_that_is_submitted_again_is_told_of_as_one_however_the_log_is_cut(tmp_path: Path) -> None:
    events = resubmitted()
    whole = replayed(tmp_path / "whole", events)
    used = [each for each in whole if each["rule"] == "budget_used"]
    assert {each["subject_name"] for each in used} == {"train-1"}
    of_each = [each for each in used if "budget each" in each["summary"]]
    begun = [each["started"][11:16] for each in of_each]
    assert begun == ["00:50", "01:05", "01:20"]  # after 25, 40 and 50 minutes of its jobs
    assert [each["severity"] for each in of_each] == ["ticket", "ticket", "page"]
    assert (
        "the run of 3 jobs from train-1 on has used up budget each for this run: $50 of $50"
        in of_each[2]["summary"]
    )
    own = [each for each in used if "its own budget" in each["summary"]]
    # Of $30 by the first job, over ten minutes after it; of $80 by the second one; the third one has none.
    assert [(each["started"][11:16], each["resolved"][11:16]) for each in own] == [
        ("00:15", "00:30"),
        ("01:05", "01:10"),
    ]
    places = {at(20): "failed", at(45): "again", at(65): "before its end", at(80): "in the third"}
    cuts = [next(n for n, each in enumerate(events) if each[0] >= at_ms) for at_ms in places]
    parts = [events[a:b] for a, b in pairwise([0, *cuts, len(events)])]
    assert replayed(tmp_path / "parts", *parts) == whole
