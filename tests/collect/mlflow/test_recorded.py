"""The collector on what a real MLflow held: GPU-time is that of MLflow's own times, but for the resume that a poll sees."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.collect.mlflow.world import MlflowWorld, recorded
from tests.collect.recordings import EVIL
from tests.collect.world import Log, watched


@pytest.fixture
def world(tmp_path: Path) -> Iterator[MlflowWorld]:
    found = MlflowWorld(tmp_path)
    yield found
    found.close()


@pytest.fixture
def log(world: MlflowWorld) -> Log:
    """The events of a collector that sees all states."""
    return watched(world, world.collector(), range(world.states))


def ids() -> dict[str, str]:
    """Name of a run -> its id."""
    return {run["info"]["run_name"]: run["info"]["run_id"] for run in recorded()[-1]["runs"]["runs"]}


def info(state: int, run_id: str) -> dict[str, Any]:
    """What MLflow says of a run in one of the states."""
    runs = recorded()[state]["runs"]["runs"]
    found: dict[str, Any] = next(run["info"] for run in runs if run["info"]["run_id"] == run_id)
    return found


def test_a_run_is_paid_from_its_start_to_its_end_and_again_from_its_resume(log: Log) -> None:
    first = ids()["first"]
    life = [each for each in log.of(first) if each["type"] not in {"heartbeat", "updated"}]
    assert [(each["type"], each["attempt"]) for each in life] == [
        ("started", 1),
        ("completed", 1),
        ("resumed", 2),
        ("completed", 2),
    ]
    assert {(each["gpu_count"], each["gpu_type"], each["team"]) for each in life if "gpu_count" in each} == {
        (2, "H100", "vision")
    }
    ended = next(state for state in range(len(recorded())) if _status(state, first) == "FINISHED")
    resumed = next(state for state in range(ended, len(recorded())) if _status(state, first) == "RUNNING")
    assert [each["time_ms"] for each in life] == [
        info(ended, first)["start_time"],
        info(ended, first)["end_time"],
        recorded()[resumed]["time_ms"] // 1000 * 1000,
        info(-1, first)["end_time"],
    ]


def _status(state: int, run_id: str) -> str:
    runs = {run["info"]["run_id"]: run["info"]["status"] for run in recorded()[state]["runs"]["runs"]}
    return str(runs.get(run_id, ""))


def test_metrics_are_quality_and_progress_of_the_run_or_of_its_job(log: Log) -> None:
    beats = [each for each in log.of(ids()["first"]) if "progress" in each]
    assert [(each["quality"], each["progress"]) for each in beats] == [
        ({"loss": 1.0}, {"epoch": 0.0, "step": 10}),
        ({"loss": 0.5}, {"epoch": 1.0, "step": 20}),
        ({"loss": 0.3}, {"epoch": 1.0, "step": 30}),
    ]
    attached = log.of("17_3")
    assert [(each["type"], each["attempt"], each["quality"]) for each in attached] == [
        ("heartbeat", 2, {"accuracy": 0.75})
    ]
    assert ids()["attached"] not in {value["job_id"] for _, value in log.events}
    assert "hunter2" not in str(log.events)


def test_failed_killed_and_deleted_runs(log: Log) -> None:
    ends = {
        name: [
            each["type"] for each in log.of(run_id) if each["type"] in {"failed", "cancelled", "completed"}
        ]
        for name, run_id in ids().items()
    }
    assert ends == {
        "first": ["completed", "completed"],
        "attached": [],
        EVIL: ["failed"],
        "parent": ["cancelled"],
        "child": ["cancelled"],
    }
    child = log.of(ids()["child"])[0]
    assert child["labels"]["mlflow_parent"] == ids()["parent"]
    assert child["experiment"] == "other"
    assert log.of(ids()[EVIL])[0]["owner"] == "grace"
    assert 4 in {each.get("gpu_count") for each in log.of(ids()["parent"])}
