"""Retry overhead of M5: nobody retried a job's only attempt, whatever it lost; command and views agree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare
from tests.oracle.cases import job, network, price

T0 = 1_780_308_000_000
HOUR_MS = 3_600_000
#: (lost, caused by retries) at 6 USD an hour.
EXPECTED = {
    "only": ("6.000000000", "0.000000000"),  # it failed after an hour, of which ten minutes were its start-up
    "retried": (
        "8.000000000",
        "7.000000000",
    ),  # its first attempt all, of its last one hour and start-up: ten minutes
    # Its second attempt completed: of its start-up that is lost, $1 of GPUs and $2 of traffic, the rows of that phase.
    "completed": ("9.000000000", "7.000000000"),
}


def lines() -> list[Any]:
    found = [price("g", "6.00"), price("n", "2", component="network", per="gb")]
    for name in EXPECTED:
        found.append(job(name, "allocated", T0, gpu_count=1))
        found.append(job(name, "started", T0 + HOUR_MS // 6))
        found.append(job(name, "failed", T0 + HOUR_MS))
    found.append(job("retried", "allocated", T0 + HOUR_MS, attempt=2, gpu_count=1))
    found.append(job("retried", "started", T0 + HOUR_MS + HOUR_MS // 6, attempt=2))
    found.append(job("retried", "failed", T0 + HOUR_MS + HOUR_MS // 3, attempt=2))
    start = T0 + HOUR_MS
    found.append(job("completed", "allocated", start, attempt=2, gpu_count=1))
    found.append(network("completed", start + 60_000, 0, bytes=10**9, attempt=2))
    found.append(job("completed", "started", start + HOUR_MS // 6, attempt=2))
    found.append(job("completed", "completed", start + HOUR_MS // 3, attempt=2))
    return sorted(found, key=lambda line: int(line.value["time_ms"]))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("retries")
    log = [{"topic": line.topic, "value": line.value} for line in lines()]
    (root / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1")
    assert done.code == 0, done.err
    return root / "meter"


@pytest.mark.parametrize(
    "words",
    [
        ("costs", "--metric", "m5", "--by", "job"),
        (
            "sql",
            "SELECT name AS job, lost_cost_usd, retry_cost_usd FROM m5_retry_overhead WHERE level = 'job'",
        ),
        (
            "sql",
            "SELECT job_id AS job, sum(w.lost_cost_usd) AS lost_cost_usd, sum(w.retry_cost_usd) AS retry_cost_usd FROM lost_work AS w GROUP BY job_id",
        ),
    ],
    ids=["costs", "m5", "lost_work"],
)
def test_what_retries_caused(data: Path, words: tuple[str, ...]) -> None:
    done = trainfare(*words, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found = {row["job"]: (row["lost_cost_usd"], row["retry_cost_usd"]) for row in json.loads(done.out)}
    assert found == EXPECTED
