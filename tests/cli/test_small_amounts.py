"""A job that cost less than a cent, as commands show it: never as nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command import trainfare

T0_MS = 1_777_802_400_000


@pytest.mark.parametrize(
    "words", [("jobs",), ("job", "small"), ("costs", "--by", "job")], ids=["jobs", "job", "costs"]
)
def test_a_job_of_less_than_a_cent_shows_what_it_cost(tmp_path: Path, words: tuple[str, ...]) -> None:
    def line(topic: str, minute: int, **value: object) -> str:
        body = {"source": "t", "id": f"{topic}-{minute}", "time_ms": T0_MS + 60_000 * minute, **value}
        return json.dumps({"topic": topic, "value": body}) + "\n"

    lines = [
        line("prices", 0, sku="gpu", component="gpu", usd="0.252", per="gpu_hour", effective_ms=0),
        line("jobs", 0, job_id="small", type="started", gpu_count=1),
        line("jobs", 1, job_id="small", type="completed"),
    ]
    (tmp_path / "events.jsonl").write_text("".join(lines))
    data = tmp_path / "meter"
    assert trainfare("replay", tmp_path / "events.jsonl", "--data", data).code == 0
    shown = trainfare(*words, "--data", data).out.split()
    assert "0.0042" in shown
    assert "0.004200000" not in shown
