"""Messages of a replay: of a log long ago too, and asking for them sets nothing back."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare

T0 = 1_700_000_000_000
MINUTE_MS = 60_000
SECRET = "whsec_" + "c2VjcmV0" * 4


def write(path: Path, *events: tuple[int, str, dict[str, Any]]) -> Path:
    lines = (
        {"topic": topic, "value": {"source": "t", "id": f"{path.stem}{number}", "time_ms": at_ms, **event}}
        for number, (at_ms, topic, event) in enumerate(events)
    )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def first(tmp_path: Path) -> Path:
    """A job that scales out by mistake and is cancelled, and one that goes on."""
    price = {"sku": "x", "component": "gpu", "usd": "3.5", "per": "gpu_hour", "effective_ms": T0}
    return write(
        tmp_path / "first.jsonl",
        (T0, "prices", price),
        (T0, "jobs", {"job_id": "goes-on", "type": "started", "gpu_count": 8}),
        (T0, "jobs", {"job_id": "runaway", "type": "started", "gpu_count": 8}),
        (T0 + 20 * MINUTE_MS, "jobs", {"job_id": "runaway", "type": "scaled", "gpu_count": 128}),
        (T0 + 40 * MINUTE_MS, "jobs", {"job_id": "runaway", "type": "cancelled"}),
    )


def rows(data: Path, sql: str) -> list[dict[str, Any]]:
    done = trainfare("sql", sql, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found = json.loads(done.out)
    return list(found["data"] if isinstance(found, dict) else found)


def replay(data: Path, *words: object) -> None:
    done = trainfare("replay", *words, "--data", data, env={"TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET})
    assert done.code == 0, done.err


def test_messages_of_alerts_that_resolved_years_ago_are_not_lost(first: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    replay(data, first)  # stored, not sent: as a kill between the two leaves it
    assert rows(data, "SELECT status FROM alerts FINAL") == [{"status": "resolved"}]
    replay(data, first, "--deliver")
    said = rows(data, "SELECT status, outcome FROM deliveries FINAL")
    assert said == [{"status": "resolved", "outcome": "no_receiver"}]  # nobody has an address


def test_messages_of_an_earlier_replay_pay_nothing_back(first: Path, tmp_path: Path) -> None:
    data = tmp_path / "data"
    second = write(
        tmp_path / "second.jsonl",
        (T0 + 60 * MINUTE_MS, "jobs", {"job_id": "other", "type": "started", "gpu_count": 8}),
    )
    costs = "SELECT job_id, toString(cost_usd) AS usd FROM job_costs ORDER BY job_id"
    replay(data, first)
    replay(data, second, "--append")
    before = rows(data, costs)
    replay(data, first, "--deliver")
    assert rows(data, costs) == before
