"""A replay and a backfill into a directory leave days that have ended ready, as a worker does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from streams.cli.main import build
from streams.costs.kept_days import Day
from streams.worker.storing.balances import ended_days
from tests.sinks.stores import embedded

BEGIN_MS, HOUR_MS = 1_704_067_200_000, 3_600_000  # 2024-01-01
HOURS = 60


def write_log(path: Path) -> Path:
    """A node for sixty hours, and a job on it."""
    at = {"source": "s"}
    price = {
        "sku": "h100",
        "component": "gpu",
        "usd": "2",
        "per": "gpu_hour",
        "effective_ms": BEGIN_MS,
        "match": {},
    }
    lines = [
        ("prices", price | {"id": "p", "time_ms": BEGIN_MS}),
        ("nodes", {"id": "up", "time_ms": BEGIN_MS, "node": "n", "type": "provisioned", "gpu_count": 4}),
        ("jobs", {"id": "on", "time_ms": BEGIN_MS, "job_id": "j", "type": "started", "nodes": {"n": 3}}),
        ("jobs", {"id": "off", "time_ms": BEGIN_MS + HOURS * HOUR_MS, "job_id": "j", "type": "completed"}),
        ("nodes", {"id": "down", "time_ms": BEGIN_MS + HOURS * HOUR_MS, "node": "n", "type": "terminated"}),
    ]
    path.write_text(
        "".join(json.dumps({"topic": topic, "value": at | value}) + "\n" for topic, value in lines)
    )
    return path


def kept(data: Path, *words: str) -> list[Day]:
    done = CliRunner().invoke(build([*words]), [*words], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    with embedded(data) as store:
        return ended_days(store)


@pytest.mark.parametrize("command", ["replay", "backfill"])
def test_days_that_have_ended_are_ready(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, data = str(write_log(tmp_path / "log.jsonl")), tmp_path / "data"
    words = (command, log, "--data", str(data))
    days = kept(data, *words)
    assert [(day.hours, day.job_hours) for day in days] == [(24, 24)] * 2
    # So few hours are read from minutes within a second.
    assert not any(day.is_kept or day.has_jobs for day in days)
    module = "streams.replay.replay" if command == "replay" else "streams.worker.storing.balances"
    monkeypatch.setattr(f"{module}.WORTH_KEEPING", 0)
    assert all(day.is_kept and day.has_jobs for day in kept(data, *words))
