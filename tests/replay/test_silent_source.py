"""A source that falls silent before anything is metered, and again later: a replay of the whole log and of its parts tell the same."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.cli.command import trainfare
from tests.cli.test_sources import MINUTE_MS, T0, job, reported

TOLD = (
    "SELECT subject_name, (toUnixTimestamp64Milli(started) - {t0}) / 60000 AS opened,"
    " (toUnixTimestamp64Milli(resolved) - {t0}) / 60000 AS over FROM alerts FINAL WHERE rule = 'silent_source' ORDER BY opened"
)


def log() -> list[str]:
    metered = {"metered": 1}
    lines = [
        *(reported("slurm", minute, [], metered) for minute in (5, 65, 125, 400, 460)),
        *(reported("ray", minute, [], metered) for minute in range(0, 1_000, 60)),
        job("started", 500),
        job("completed", 530),
    ]
    return [json.dumps(each) + "\n" for each in sorted(lines, key=lambda each: each["log_time_ms"])]


def told(data: Path, *parts: list[str]) -> list[dict[str, Any]]:
    for number, part in enumerate(parts):
        file = data.parent / f"{data.name}-{number}.jsonl"
        file.write_text("".join(part))
        done = trainfare("replay", file, "--data", data, *(["--append"] if number else []))
        assert done.code == 0, done.err
    done = trainfare("sql", TOLD.format(t0=T0), "--data", data, "--format", "json")
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_parts_of_a_log_tell_what_the_whole_tells(tmp_path: Path) -> None:
    lines = log()
    before = [json.loads(each)["log_time_ms"] < T0 + 350 * MINUTE_MS for each in lines].count(True)
    whole = told(tmp_path / "whole", lines)
    assert [(each["subject_name"], each["opened"], each["over"]) for each in whole] == [
        ("slurm", 305, 401),
        ("slurm", 640, None),
    ]
    assert told(tmp_path / "parts", lines[:before], lines[before:]) == whole
