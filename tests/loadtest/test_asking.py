"""The benchmark of asking: every question is answered by any store, and what is slow or missing is said."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loadtest import asking, hours_share
from loadtest.asking_questions import COSTS, JOB, LARGEST, PAGE, TARGET_MS, Question
from loadtest.latency_world import WorldError
from streams.costs.request import Metric
from streams.engine.ledger import derive
from tests.cli.command import ROOT, trainfare
from tests.web import log


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("asking")
    done = trainfare("replay", log.write(root / "log.jsonl"), "--data", root / "data")
    assert done.code == 0, done.err
    return root / "data"


def test_every_question_is_answered(data: Path) -> None:
    figures = asking.measure(data, rounds=1, only="")
    asked = [(each["group"], each["name"]) for each in figures["questions"]]
    assert len(set(asked)) == len(asked) > 80
    assert {group for group, _ in asked} == {COSTS, JOB, LARGEST, PAGE} == set(TARGET_MS)
    for metric in Metric:
        assert (COSTS, f"{metric} by team per day, compared") in asked
        assert ((JOB, f"costs {metric}") in asked) is (metric is not Metric.m3)  # which is of nodes
    rows = {(each["group"], each["name"]): each["rows"] for each in figures["questions"]}
    assert rows[JOB, "job_costs"] == 1
    assert rows[PAGE, "jobs by cost"] >= rows[PAGE, "TOTALS"] > 0
    assert asking.measure(data, rounds=1, only="page: TOTALS")["questions"][0]["name"] == "TOTALS"


def question(group: str, name: str, ask: Callable[[], int] = lambda: 7) -> Question:
    return Question(group, name, ask)


def test_a_question_is_asked_once_more_than_it_counts() -> None:
    asked: list[int] = []

    def ask() -> int:
        asked.append(1)
        return 7

    found = asking.measured(question(PAGE, "x", ask), rounds=3)
    assert len(asked) == 4
    assert (found["rows"], found["target_ms"], found["in_time"]) == (7, 100, True)


def test_what_is_slow_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TARGET_MS, PAGE, 0)
    found = asking.measured(question(PAGE, "slow"), rounds=1)
    good = asking.measured(question(COSTS, "fast"), rounds=1)
    figures: dict[str, Any] = {
        "machine": {"cores": 2}, "load": [1.0, 2.0], "minute_rows": 1_000, "hour_rows": 10, "rounds": 1,
        "questions": [found, good], "missed": 1,
    }  # fmt: skip
    lines = asking.report(figures).splitlines()
    assert lines[2].split()[:2] == ["page", "slow"]
    assert lines[2].endswith("MISSED")
    assert lines[3].endswith("ok")
    assert lines[-1] == "1 of 2 in time"


def test_a_store_is_made_once(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(WorldError, match="cannot be converted"):
        asking.kept_store(kept, tmp_path / "none.csv")
    shutil.copytree(data, kept / "data", symlinks=True)
    (kept / "done").touch()
    assert asking.kept_store(kept, tmp_path / "none.csv") == kept / "data"


def test_the_share_of_hours_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.hours_share", str(log.write(tmp_path / "log.jsonl"))]
    done = subprocess.run(
        [*command, "--data", str(tmp_path / "data")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("hours: ")
    assert {"write_hours", "table", "insert"} <= set(said.replace("(", " ").split())


def test_what_is_timed_is_there() -> None:
    for name in hours_share.PARTS:
        assert callable(getattr(derive, name))
