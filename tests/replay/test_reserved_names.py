"""A file with names of the meter's own: a replay and a backfill refuse these lines, count them, and meter the rest."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from schemas.canary_proof import CanaryProof
from schemas.reserved import CANARY_JOB_PREFIX
from streams.selfcheck.canary.plan import CanaryOptions, events_of, price_at, run_at
from tests.backfill.backfill_process import backfill
from tests.replay.logs import BEGIN_MS
from tests.replay.replay_process import replay

HOUR_MS = 3_600_000


def job(name: str, **fields: Any) -> list[dict[str, Any]]:
    base = {"source": "s", "job_id": name, **fields}
    return [
        {**base, "id": f"{name}.1", "type": "started", "time_ms": BEGIN_MS, "gpu_count": 8},
        {**base, "id": f"{name}.2", "type": "completed", "time_ms": BEGIN_MS + HOUR_MS},
    ]


def written(path: Path) -> tuple[Path, int]:
    """Return the file, and how many of its lines are to be refused."""
    good = [("jobs", json.dumps(each).encode()) for each in job("mine", team="vision")]
    bad = [
        ("jobs", json.dumps(each).encode())
        for each in [
            *job(f"{CANARY_JOB_PREFIX}x"),
            *job("b", team="idle"),
            *job("c", source="trainfare-canary"),
        ]
    ]
    # A canary of another meter, signed by its key: here it is nobody's.
    proof = CanaryProof(b"k" * 32)
    run = run_at(BEGIN_MS + HOUR_MS, CanaryOptions(1))
    bad += [
        (str(topic), proof.signed(topic, event)) for topic, _, event in [price_at(BEGIN_MS), *events_of(run)]
    ]
    lines = [f'{{"topic": "{topic}", "value": {value.decode()}}}' for topic, value in [*good, *bad]]
    path.write_text("\n".join(lines) + "\n")
    return path, len(bad)


def test_a_replay_refuses_them_with_a_reason(tmp_path: Path) -> None:
    file, bad = written(tmp_path / "log.jsonl")
    found = replay([file], tmp_path / "data")
    letters = found["tables"]["dead_letters"]
    assert [row["reason"] for row in letters] == ["reserved_name"] * bad
    assert {row["job_id"] for row in found["tables"]["jobs"]} == {"mine"}
    assert found["result"]["dead_lettered"] == bad
    assert found["balanced"]


def test_a_backfill_refuses_them_and_counts_them(tmp_path: Path) -> None:
    file, bad = written(tmp_path / "log.jsonl")
    found = backfill([file], tmp_path / "data")
    assert {row["job_id"] for row in found["tables"]["jobs"]} == {"mine"}
    assert found["faults"] == []
    assert [row["reason"] for row in found["tables"]["dead_letters"]] == ["reserved_name"] * bad
