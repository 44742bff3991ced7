"""GET /api/v1/experiments: the figures of a sweep, worked out by hand, and equal to those of `trainfare costs`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sinks.clickhouse import ClickHouseStore, Embedded
from tests.cli.command import trainfare
from tests.web import sweep
from tests.web.serving import Client, served

ONE = f"/api/v1/experiments/{quote(sweep.NAME, safe='')}"


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return sweep.replayed(tmp_path_factory.mktemp("sweep"))


@pytest.fixture(scope="module")
def swept(data: Path) -> Iterator[ClickHouseStore]:
    opened = ClickHouseStore(Embedded(data_dir=data))
    try:
        yield opened
    finally:
        opened.close()


def get(store: ClickHouseStore, path: str, status: int = 200) -> Any:
    async def work(client: Client) -> Any:
        return await client.get(path, status)

    return served(store, work)


def test_an_experiment_is_the_sum_of_its_trials(swept: ClickHouseStore) -> None:
    answer = get(swept, "/api/v1/experiments")
    (found,) = answer["experiments"]
    assert answer["left_out"] == 0
    assert found == found | {
        "experiment": sweep.NAME,
        "teams": ["vision"],
        "trials": 5,
        "trials_live": 3,
        "trials_completed": 2,
        "trials_failed": 0,
        "trials_cancelled": 0,
        "cost_usd": "73.000000000",
        "usd_per_hour_now": "21.000000000",
        "qualities": ["accuracy", "loss"],
        "began_ms": sweep.T0_MS,
    }


def test_each_trial_has_its_dollars_beside_its_quality(swept: ClickHouseStore) -> None:
    answer = get(swept, ONE)
    assert (answer["experiment"], answer["cost_usd"], answer["usd_per_hour_now"]) == (
        sweep.NAME,
        "73.000000000",
        "21.000000000",
    )
    found = {trial["job_id"]: trial for trial in answer["trials"]}
    assert list(found) == ["dear", "best", sweep.HOSTILE, "good", "cheap"], "the dearest first"
    assert found["best"] == found["best"] | {
        "cost_usd": "19.000000000",
        "usd_per_hour_now": "6.000000000",
        "quality": {"accuracy": 0.9, "loss": pytest.approx(0.1)},
        "state": "running",
        "ended_ms": None,
    }
    assert found["good"] == found["good"] | {
        "usd_per_hour_now": "0.000000000",
        "wall_clock_h": 1.0,
        "state": "completed",
    }
    assert found[sweep.HOSTILE]["quality"] == {}


def test_unknown_names_and_parameters_are_refused(swept: ClickHouseStore) -> None:
    assert "no job of this store" in get(swept, "/api/v1/experiments/nothing", 404)["error"]["message"]
    get(swept, f"{ONE}?limit=3", 400)
    get(swept, "/api/v1/experiments?x=1", 400)


def test_more_than_the_limit_is_counted(swept: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streams.web.experiments.TRIALS_MAX", 2)
    answer = get(swept, ONE)
    assert ([trial["job_id"] for trial in answer["trials"]], answer["left_out"]) == (["dear", "best"], 3)


def test_a_job_has_its_checkpoints_nodes_and_traffic(swept: ClickHouseStore) -> None:
    found = get(swept, "/api/v1/jobs/best")
    at_s = (7_200, 3_600, 1_800)
    assert found["checkpoints"] == {
        "total": 3,
        "shown": [
            {"attempt": 1, "time_ms": sweep.T0_MS + at * 1_000, "duration_ms": took}
            for at, took in zip(at_s, (15_000, None, 45_000), strict=True)
        ],
    }
    (node,) = found["nodes"]["shown"]
    assert (node["node"], node["gpu_h"], node["usd"]) == ("n1", 6.0, "18.000000000")
    assert (node["from_ms"], node["to_ms"]) == (sweep.T0_MS, sweep.AS_OF_MS)
    hours = [
        [sweep.T0_MS + hour * 3_600_000, usd, "0.000000000"]
        for hour, usd in enumerate(("0.000000000", "1.000000000", "0.000000000"))
    ]
    assert found["traffic"] == hours
    nothing = get(swept, "/api/v1/jobs/alone")
    assert (nothing["checkpoints"], nothing["nodes"]) == ({"total": 0, "shown": []},) * 2


def test_the_sum_is_that_of_the_command(data: Path, swept: ClickHouseStore) -> None:
    total = get(swept, "/api/v1/experiments")["experiments"][0]["cost_usd"]
    swept.close()
    done = trainfare(
        "costs",
        "--data",
        data,
        "--by",
        "experiment",
        "--where",
        f"experiment={sweep.NAME}",
        "--format",
        "json",
    )
    (row,) = json.loads(done.out)
    assert row["cost_usd"] == total
