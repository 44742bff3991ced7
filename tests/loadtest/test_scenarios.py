"""Scenario files are read whole, what is wrong in one is said, and what a run comes to is a row of the table."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from loadtest import bench, replayed, scenario
from loadtest.catch_up import Plan
from loadtest.fleet import SHAPES
from loadtest.latency_world import WorldError
from loadtest.scenario import KINDS, Scenario, ScenarioError, SkippedError, scenarios, shown
from loadtest.verdict import WrongTotalsError, compare
from tests.loadtest.test_compare import results

MACHINE = {"machine": {"cores": 2, "cpu": "c", "memory_mib": 1, "python": "3"}}


def test_every_committed_scenario_can_be_run() -> None:
    found = scenarios()
    assert {"w1", "w2", "w2-60s", "live-100k", "idle", "1000rps", "replay", "ticks", "state", "quick"} <= set(
        found
    )
    for each in found.values():
        assert each.kind in KINDS
        if each.plan is not None:
            assert each.plan.workload in SHAPES
    assert not found["quick"].default
    assert found["w2-60s"].plan == Plan("w2-long")


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ('about = "a"\nkind = "fast"', "kind is 'fast', expected one of catch_up, command, replay"),
        ('about = "a"\nkind = "catch_up"', "needs its plan"),
        ('about = "a"\nkind = "command"\nspeed = 1', "speed"),
        ('about = "a"\nkind = "catch_up"\n[plan]\nworkload = "w2"\nturns = 3', "turns"),
    ],
)
def test_what_is_wrong_in_a_file_is_said(tmp_path: Path, text: str, fault: str) -> None:
    (tmp_path / "one.toml").write_text(text)
    with pytest.raises(ScenarioError, match=fault):
        scenarios(tmp_path)


def test_figures_are_found_by_their_path() -> None:
    one = Scenario("a", "a", "command", figures={"x.y": "rows/s", "x.z": "MiB", "name": "it"})
    assert shown(one, {"x": {"y": 1_234_567.8}, "name": "n"}) == ["1,234,568 rows/s", "- MiB", "n it"]
    assert shown(Scenario("a", "a", "command"), {"text": list("abcdefghijklmnop")}) == list("efghijklmnop")


def told(results: dict[str, Any], known: dict[str, Scenario]) -> str:
    console = Console(file=io.StringIO(), width=140)
    console.print(bench.table_of(results, known))
    file = console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


@pytest.mark.parametrize(
    ("fault", "word"),
    [
        (WrongTotalsError("1 totals in ClickHouse differ"), "FAILED"),
        (WorldError("no java"), "FAILED"),
        (SkippedError("the trace is not here"), "skipped: the trace"),
    ],
)
def test_a_scenario_that_fails_has_no_figures(
    monkeypatch: pytest.MonkeyPatch, fault: Exception, word: str
) -> None:
    def run(*_: Any, **__: Any) -> dict[str, Any]:
        raise fault

    monkeypatch.setattr(bench, "run", run)
    known = {"one": Scenario("one", "about it", "command")}
    console = Console(file=io.StringIO())
    found = bench.bench(["one"], known, console)
    assert ("fault" in found["scenarios"]["one"]) == (word == "FAILED")
    found["machine"] |= MACHINE["machine"]
    text = told(found, known)
    assert word in text
    assert str(fault)[:12] in text


def test_totals_that_were_compared_are_said_to_be_right() -> None:
    known = {"w2": scenarios()["w2"]}
    found = {**MACHINE, "scenarios": results()["scenarios"]}
    found["scenarios"]["w2"] |= {"usd": "1", "load_average": [0.1, 0.2], "took_s": 3.0}
    text = told(found, known)
    assert "right" in text
    assert "2,000,000 GPU samples/s, stored" in text


def test_a_command_that_fails_says_what_it_said(tmp_path: Path) -> None:
    one = Scenario("a", "a", "command", command=("loadtest.traces", "nonsense"), json=False)
    with pytest.raises(WorldError, match="invalid choice"):
        scenario.run(one, tmp_path, lambda _: None)


def test_a_replay_without_its_file_is_skipped(tmp_path: Path) -> None:
    with pytest.raises(SkippedError, match="no-such-trace"):
        scenario.run(Scenario("a", "a", "replay", file="no-such-trace"), tmp_path, lambda _: None)


def test_totals_differ_by_job_and_figure() -> None:
    from loadtest.fleet import workload

    fleet = workload("quick", 1_772_366_400, 8, seconds=2)
    list(fleet.batches())
    known = fleet.known
    figures = ("sampled_gpu_s", "productive_gpu_ms", "ledger_rows", "quantity", "cost_nano")
    stored = {
        job: {name: int(getattr(known, name)[at]) for name in figures} for at, job in enumerate(known.jobs)
    }
    assert compare(stored, 0, known) == []
    stored["train-000003"]["cost_nano"] += 1
    del stored["train-000007"]["sampled_gpu_s"]
    stored["other"] = {"cost_nano": 1}
    found = compare(stored, 2, known)
    assert [words.split(":")[0] for words in found] == [
        "2 dead letters, want none", "job train-000003", "job train-000007", "job other was never sent",
    ]  # fmt: skip


def test_a_replay_is_compared_with_the_oracle(tmp_path: Path) -> None:
    file = tmp_path / "one.jsonl"
    about: list[dict[str, Any]] = [
        {"id": "p", "sku": "s", "component": "gpu", "usd": "3.6", "per": "gpu_hour", "effective_ms": 0},
        {"id": "s", "job_id": "a", "type": "started", "gpu_count": 1},
        {"id": "e", "job_id": "a", "type": "completed"},
    ]
    bodies = [
        {"topic": topic, "value": {"source": "t", "time_ms": 1_772_366_400_000 + at * 1000, **about[at]}}
        for at, topic in enumerate(("prices", "jobs", "jobs"))
    ]
    file.write_text("".join(json.dumps(body) + "\n" for body in bodies))
    want = (1, 1_000_000, 1_000_000)  # a second of a GPU, 0.001 USD
    assert replayed.wanted(file) == want
    replayed.compare(want, want)
    with pytest.raises(WrongTotalsError, match="the oracle has"):
        replayed.compare((1, 1_000_000, 999_999), want)
