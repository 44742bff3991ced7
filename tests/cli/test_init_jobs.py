"""The end of `trainfare init`: jobs of a real store beside what sacct says, and what fails it."""

from __future__ import annotations

import os
from pathlib import Path

import orjson
import pytest

from tests.cli.command import Done, trainfare
from tests.init.slurm_site import SlurmSite

_AT_MS = 1_790_000_000_000
_PRICES = "sku,gpu_type,usd,per,from\nlab.h100,H100,3.60,gpu_hour,\n"
_TRES = "gres/gpu:h100=2,gres/gpu=2"


def shown(tmp_path: Path, gpu_type: str, sacct: str) -> Done:
    """Meter a job of 30 s on two GPUs, and show it."""
    directory = tmp_path / "live"
    (tmp_path / "prices.csv").write_text(_PRICES)
    trainfare("prices", "load", tmp_path / "prices.csv", "--out", tmp_path / "prices.jsonl")
    job = {"source": "slurm", "job_id": "17", "gpu_count": 2, "gpu_type": gpu_type}
    events = [
        {**job, "id": "1", "type": "started", "time_ms": _AT_MS},
        {"source": "slurm", "job_id": "17", "id": "2", "type": "completed", "time_ms": _AT_MS + 30_000},
    ]
    log = tmp_path / "jobs.jsonl"
    log.write_bytes(b"".join(orjson.dumps({"topic": "jobs", "value": each}) + b"\n" for each in events))
    done = trainfare("replay", tmp_path / "prices.jsonl", log, "--data", directory)
    assert done.code == 0, done.err
    (directory / "prices.csv").write_text(_PRICES)
    (directory / "collect.toml").write_text('[slurm]\nsince = 2026-09-01\ngpu_types = { h100 = "H100" }\n')
    (directory / "trainfare.toml").write_text(f'[clickhouse]\ndata_dir = "{directory}"\n')
    slurm = SlurmSite()
    slurm.answers["sacct"] = sacct
    path = f"{slurm.programs(tmp_path / 'bin')}:{os.environ['PATH']}"
    return trainfare(directory, env={"PATH": path}, function="tests.init.shown_jobs:main")


@pytest.mark.parametrize(
    ("seconds", "code", "verdict"),
    [
        pytest.param(50, 0, "0.060000000  equal", id="equal"),
        pytest.param(51, 1, "0.062000000  differs", id="differs"),
    ],
)
def test_a_job_that_costs_something_else_than_sacct_says_fails(
    tmp_path: Path, seconds: int, code: int, verdict: str
) -> None:
    """It began at 14:13:20 UTC, the instant of its first event."""
    line = f"COMPLETED|2026-09-21T14:13:20|2026-09-21T14:13:{seconds}|batch|quick|{_TRES}\n"
    done = shown(tmp_path, "H100", line)
    assert verdict in done.out
    assert "without a price" not in done.out
    assert done.code == code, done.err


def test_gpu_time_without_a_price_fails_and_names_its_type_and_a_job(tmp_path: Path) -> None:
    done = shown(tmp_path, "hopper", f"COMPLETED|2026-09-21T14:13:20|2026-09-21T14:13:50|b|q|{_TRES}\n")
    assert done.code == 1
    assert "without a price: 0.017 GPU-hours of hopper, e.g. of job 17: trainfare explain 17" in done.out
