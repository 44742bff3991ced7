"""`publish` refuses a control that would have no effect, `replay` reports it; both say file, line and reason, and exit not 0."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare

T0 = 1_780_308_000_000


def control(number: int, **fields: Any) -> dict[str, Any]:
    value = {"source": "t", "id": f"c{number}", "time_ms": T0, **fields}
    return {"topic": "controls", "value": value}


LINES = [
    control(1, kind="budget", name="good", usd="10", team="vision"),
    control(2, kind="budget", name="month", usd="10", tem="vision"),
    control(3, kind="silence", name="night", rule="burn_fsat"),
    {"topic": "jobs", "value": {"source": "t", "id": "j", "time_ms": T0, "job_id": "one", "type": "started"}},
    control(4, kind="silnce", name="x"),
]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    file = tmp_path / "log.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    return file


def test_publish_sends_nothing_and_says_why(log: Path) -> None:
    done = trainfare("publish", log)
    assert (done.code, done.out) == (2, "")
    where = "log.jsonl line {}: the control would have no effect: "
    for number, words in (
        (2, "budget/month: tem: no such match field"),
        (3, "silence/night: rule: got"),
        (5, ""),
    ):
        assert f"{where.format(number)}{words}" in done.err
    assert "log.jsonl line 1" not in done.err
    assert "nothing was published" in done.err


@pytest.mark.timeout(300)
def test_replay_meters_the_rest_and_says_it_each_time(log: Path, tmp_path: Path) -> None:
    for _ in range(2):
        done = trainfare("replay", log, "--data", tmp_path / "data", "--format", "json")
        assert done.code == 2
        assert json.loads(done.out)["jobs"] == 1
        for number, words in (
            (2, "budget/month: tem: no such match field"),
            (3, "silence/night: rule"),
            (5, "kind"),
        ):
            assert f"log.jsonl line {number}: " in done.err
            assert words in done.err
        assert "line 1:" not in done.err
