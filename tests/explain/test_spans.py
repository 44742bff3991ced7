"""Explanations to the millisecond: spans from the stored state share out the ledger's own costs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from schemas.reserved import CANARY_JOB_PREFIX
from streams.engine.pricing.kinds import PriceRef
from streams.engine.snapshot.job_blobs import dump_job
from streams.engine.state.job import JobState
from streams.engine.timeline.lines import Line
from streams.explain.spans import Row, shares
from tests.cli.command import trainfare

T0 = 1_704_067_200_000
DAY_MS = 86_400_000
PRICE = PriceRef("gpu", "gpu_milli_ms", "g", 0, 10**9, 3_600_000_000)
KEY = (1, "", "running", "gpu", "gpu_milli_ms", "g", 0)


def _events() -> list[tuple[str, dict[str, Any]]]:
    def job(kind: str, after_ms: int, job_id: str = "x", **named: Any) -> tuple[str, dict[str, Any]]:
        event = {"source": "s", "id": f"{kind}{after_ms}", "time_ms": T0 + after_ms, "job_id": job_id}
        return "jobs", event | {"type": kind} | named

    def price(usd: str, after_ms: int) -> tuple[str, dict[str, Any]]:
        event = {"source": "p", "id": f"p{after_ms}", "time_ms": T0, "sku": "g", "component": "gpu"}
        return "prices", event | {"usd": usd, "per": "gpu_hour", "effective_ms": T0 + after_ms}

    return [
        price("1", -DAY_MS),
        price("2", 30_500),
        job("allocated", 0, gpu_count=1),
        job("started", 10_000),
        job("scaled", 20_000, gpu_count=2),
        job("checkpointed", 40_000),
        job("failed", 150_000),
        job("started", 0, "paused", gpu_count=1),
        job("suspended", 10_000, "paused"),
        job("started", 20_000, "paused"),
        job("completed", 50_000, "paused"),
        job("started", 0, f"{CANARY_JOB_PREFIX}1.0", gpu_count=1),
        job("completed", 10_000, f"{CANARY_JOB_PREFIX}1.0"),
        job("started", 30 * DAY_MS, "later", gpu_count=1),
    ]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("spans")
    lines = [json.dumps({"topic": topic, "value": value}) for topic, value in _events()]
    (folder / "log.jsonl").write_text("\n".join(lines))
    done = trainfare("replay", folder / "log.jsonl", "--data", folder / "data", "--partitions", 1)
    assert done.code == 0, done.err
    return folder / "data"


def explained(data: Path, job_id: str) -> list[tuple[str, str, str, int, str]]:
    done = trainfare("explain", job_id, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    return [
        (
            line["begin"][11:].rstrip("Z"),
            line["end"][11:].rstrip("Z"),
            line["phase"],
            line["quantity"],
            line["cost_usd"],
        )
        for line in found["intervals"]
    ]


def test_every_change_of_phase_count_price_and_loss_begins_an_interval(data: Path) -> None:
    found = explained(data, "x")
    assert [line[:4] for line in found] == [
        ("00:00:00", "00:00:10", "starting", 10_000_000),
        ("00:00:10", "00:00:20", "running", 10_000_000),
        ("00:00:20", "00:00:30.500000", "running", 21_000_000),
        ("00:00:30.500000", "00:00:40", "running", 19_000_000),
        ("00:00:40", "00:02:30", "running", 220_000_000),
    ]
    total = trainfare(
        "sql", "SELECT cost_usd FROM job_costs WHERE job_id = 'x'", "--data", data, "--format", "csv"
    )
    assert sum(round(float(line[4]) * 1e9) for line in found) == round(float(total.out.split()[-1]) * 1e9)


def test_time_in_which_nothing_was_held_is_in_no_interval(data: Path) -> None:
    assert [line[:2] for line in explained(data, "paused")] == [
        ("00:00:00", "00:00:10"),
        ("00:00:20", "00:00:30.500000"),
        ("00:00:30.500000", "00:00:50"),
    ]


def test_who_takes_the_name_of_the_canary_is_refused_and_explain_says_so(data: Path) -> None:
    refused = trainfare("explain", f"{CANARY_JOB_PREFIX}1.0", "--data", data)
    assert refused.code == 1
    assert "reserved_name" in refused.err
    listed = trainfare("jobs", "--data", data, "--format", "csv")
    assert "paused" in listed.out
    assert CANARY_JOB_PREFIX not in listed.out


def test_job_that_is_in_the_archive_is_explained_as_well(data: Path) -> None:
    counted = trainfare(
        "sql", "SELECT count() FROM archive WHERE job_id = 'x'", "--data", data, "--format", "csv"
    )
    assert counted.out.split()[-1] != "0"


def test_job_of_which_the_last_snapshots_have_only_what_changed(tmp_path: Path) -> None:
    def replayed(name: str, *events: dict[str, Any]) -> None:
        lines = [json.dumps({"topic": "jobs", "value": {"source": "s", **each}}) for each in events]
        (tmp_path / name).write_text("\n".join(lines))
        data = ("--data", tmp_path / "data", "--partitions", 1, "--append")
        assert trainfare("replay", tmp_path / name, *data).code == 0

    jobs = [f"j{at}" for at in range(9)]
    replayed(
        "begin", *({"id": "b", "time_ms": T0, "job_id": j, "type": "started", "gpu_count": 1} for j in jobs)
    )
    replayed(
        "more",
        {"id": "c", "time_ms": T0 + 5_250, "job_id": "j8", "type": "scaled", "gpu_count": 2},
        {"id": "e", "time_ms": T0 + 9_500, "job_id": "j8", "type": "completed"},
    )
    assert [line[:2] for line in explained(tmp_path / "data", "j8")] == [
        ("00:00:00", "00:00:05.250000"),
        ("00:00:05.250000", "00:00:09.500000"),
    ]


def _state(*intervals: tuple[int, int, int, int]) -> Any:
    job = JobState("j")
    job.attempt(1).booked_lines = {Line("", "running", PRICE): list(intervals)}
    return dump_job(job)


def test_shares_of_a_row_add_up_to_the_row() -> None:
    state = _state((0, 1, 1000, 0), (1, 2, 1000, 0), (2, 3, 1000, 1))
    found = shares(state, {KEY: {0: Row(3000, 100, 1000, 33)}})
    assert found is not None
    assert [(share.quantity, share.cost_nano, share.lost_cost_nano) for share in found] == [
        (1000, 33, 0),
        (1000, 33, 0),
        (1000, 34, 33),
    ]


@pytest.mark.parametrize(
    "rows",
    [{}, {0: Row(2999, 1, 0, 0)}, {0: Row(3001, 1, 0, 0)}, {0: Row(3000, 1, 0, 0), 1: Row(1, 1, 0, 0)}],
)
def test_state_that_does_not_agree_with_the_ledger_explains_nothing(rows: dict[int, Row]) -> None:
    assert shares(_state((0, 3, 1000, 0)), {KEY: rows}) is None
