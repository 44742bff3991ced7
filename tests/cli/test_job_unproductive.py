"""`trainfare job` says what GPUs cost while they did not work, where something sampled them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import trainfare

STORIES = Path(__file__).parents[2] / "examples" / "stories"


@pytest.fixture
def idle(tmp_path: Path) -> Path:
    done = trainfare("replay", STORIES / "idle-gpus.jsonl", "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    return tmp_path / "meter"


def test_a_sampled_job_says_what_idle_gpus_cost_as_savings_do(idle: Path) -> None:
    done = trainfare("savings", "--format", "json", "--data", idle)
    assert "of the ledger, less than a week: nights and weekends may be others" in done.one_line()
    (saving,) = json.loads(done.out)
    job = json.loads(trainfare("job", "notebook-7", "--format", "json", "--data", idle).out)
    assert job["unproductive_cost_usd"] == saving["usd"]
    assert float(job["gpu_cost_usd"]) * 0.85 == pytest.approx(float(saving["usd"]), rel=0.01)
    shown = trainfare("job", "notebook-7", "--data", idle).out
    assert "of it GPUs that did not work  17.58" in shown


def test_of_a_job_that_nothing_sampled_it_says_nothing(tmp_path: Path) -> None:
    done = trainfare("replay", STORIES / "retry-loop.jsonl", "--data", tmp_path / "meter")
    assert done.code == 0, done.err
    job = json.loads(trainfare("job", "llama-sft", "--format", "json", "--data", tmp_path / "meter").out)
    assert job["unproductive_cost_usd"] is None
    assert "did not work" not in trainfare("job", "llama-sft", "--data", tmp_path / "meter").out
