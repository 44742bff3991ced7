"""A node whose clock runs ahead makes no other job silent, late or billed for longer, in a replay of the whole log or of its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import trainfare
from tests.replay.test_replay_budgets import MINUTE_MS, PRICE, T0, rows

NODES = 6
AHEAD_MS = {2: 40 * MINUTE_MS, 4: 30 * 60 * MINUTE_MS}  # the second one by more than events may be late
SILENT = "SELECT rule, subject_name FROM alerts FINAL WHERE rule IN ('silent_job', 'incident') ORDER BY ALL"
AHEAD = (
    "SELECT subject_name, status, started, summary FROM alerts FINAL WHERE rule = 'clock_ahead' ORDER BY ALL"
)
BILLED = "SELECT job_id, sum(cost_usd) AS usd FROM ledger GROUP BY job_id ORDER BY job_id"


def log() -> list[str]:
    """Six jobs of one node each, for half an hour; their lines are in the order in which they came."""
    lines: list[dict[str, Any]] = [{"topic": "prices", "value": {"time_ms": T0, **PRICE}}]
    for beat in range(31):
        for node in range(NODES):
            name, at_ms = {"job_id": f"run-{node}"}, T0 + beat * MINUTE_MS + node * 100
            if not beat:
                started = {"type": "started", "nodes": {f"n{node}": 1}, "gpu_type": "h100", "time_ms": at_ms}
                lines.append({"topic": "jobs", "value": {**name, **started}})
                continue
            sample = {"node": f"n{node}", "interval_ms": MINUTE_MS, "gpu": "0", "util_ratio": 0.9}
            at_ms += AHEAD_MS.get(node, 0)
            lines.append({"topic": "gpu", "value": {**name, **sample, "time_ms": at_ms}})
    for count, line in enumerate(lines):
        line["value"] |= {"id": f"e{count}", "source": "dcgm"}
    return [json.dumps(line) + "\n" for line in lines]


def replayed(data: Path, *parts: list[str]) -> list[list[dict[str, Any]]]:
    for number, part in enumerate(parts):
        file = data.parent / f"{data.name}-{number}.jsonl"
        file.write_text("".join(part))
        done = trainfare("replay", file, "--data", data, *(["--append"] if number else []))
        assert done.code == 0, done.err
        assert json.loads(done.out)["dead_lettered"] == 0
        assert "times of dcgm on node n4 are 1 d 6 h ahead of the others" in done.err
    return [rows(data, SILENT), rows(data, BILLED), rows(data, AHEAD)]


@pytest.mark.timeout(300)
def test_it_moves_nobody_elses_time(tmp_path: Path) -> None:
    lines = log()
    silent, billed, ahead = replayed(tmp_path / "whole", lines)
    assert silent == []
    (told,) = ahead
    assert (told["subject_name"], told["status"]) == ("dcgm", "firing")
    assert (
        "up to 1 d 6 h ahead of the log, metered as they say; synchronise the clock of n4, n2 (NTP"
        in told["summary"]
    )
    # $0.10 a minute until the last line of the others.
    assert len(billed) == NODES
    assert all(2.99 <= float(row["usd"]) <= 3.02 for row in billed), billed
    cut = len(lines) // 2
    while '"run-2"' not in lines[cut - 1]:  # behind a line of the clock that is ahead
        cut += 1
    assert replayed(tmp_path / "parts", lines[:cut], lines[cut:]) == [silent, billed, ahead]
