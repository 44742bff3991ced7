"""The benchmark of asking: every question is answered by any store, and what is slow or missing is said."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from loadtest import asking, hours_cost, without_hours
from loadtest.asking_questions import COSTS, JOB, LARGEST, PAGE, TARGET_MS, Question
from loadtest.latency_world import WorldError
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.cli.main import main
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


def test_the_ratio_is_of_the_least_disturbed_runs(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    took = {
        "streams.cli.main": iter([50.0, 11.0, 99.0, 11.2]),
        "loadtest.without_hours": iter([10.0, 10.0, 50.0]),
    }
    order: list[str] = []

    def replayed(program: str, file: Path) -> float:
        order.append(program)
        return next(took[program])

    monkeypatch.setattr(hours_cost, "replayed_cpu_s", replayed)
    figures = hours_cost.measure(Path("log.jsonl"), rounds=3)
    assert figures["ratio"] == pytest.approx(0.1)
    assert figures["cpu_s"] == {"with": [11.0, 99.0, 11.2], "without": [10.0, 10.0, 50.0]}
    first, second = "streams.cli.main", "loadtest.without_hours"
    assert order == [first, first, second, second, first, first, second]


def test_without_hours_nothing_else_is_missing(data: Path, tmp_path: Path) -> None:
    done = trainfare(
        "replay", log.write(tmp_path / "log.jsonl"), "--data", tmp_path / "data",
        function="tests.loadtest.test_asking:replay_without_hours",
    )  # fmt: skip
    assert done.code == 0, done.err
    assert _rows(tmp_path / "data", "job_hours FINAL") == 0 < _rows(data, "job_hours FINAL")
    # A job that is metered before its price is read leaves a row without price, which is then restated as nothing.
    still = "job_minutes FINAL WHERE quantity != 0"
    assert _rows(tmp_path / "data", still) == _rows(data, still) > 0


def replay_without_hours(arguments: Sequence[str]) -> None:
    """In a process of its own."""
    without_hours.leave_out_hours()
    main(arguments)


def test_the_share_of_hours_is_said(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "loadtest.hours_share", str(log.write(tmp_path / "log.jsonl"))]
    done = subprocess.run(
        [*command, "--data", str(tmp_path / "data")], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    said = done.stderr.splitlines()[-1]
    assert said.startswith("hours: ")
    assert {"write_hours", "table", "insert"} <= set(said.replace("(", " ").split())


def test_what_is_left_out_is_there() -> None:
    for name in without_hours.PARTS:
        assert callable(getattr(derive, name))


def _rows(data: Path, source: str) -> int:
    store = ClickHouseStore(Embedded(data_dir=data))
    try:
        return int(store.query(f"SELECT count() AS n FROM {source}")["n"][0].as_py())
    finally:
        store.close()
