"""Writes `examples/sweep.jsonl`: a sweep of 40 trials with a budget of $100, as a scheduler reports one that was stopped.

`python -m loadtest.sweep`. It must be a function of nothing: a test compares the file.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from schemas.durations import MINUTE_MS

FILE: Final = Path(__file__).resolve().parents[1] / "examples" / "sweep.jsonl"
TRIALS: Final = 40
_T0_MS: Final = 1_780_308_000_000  # 2026-06-01 10:00 UTC
#: With 40 GPUs at $3 an hour $100 are spent after 50 min, and judged a minute later; the trials are stopped then.
_STOPPED_MIN: Final = 51


def lines() -> Iterator[str]:
    """Yield the lines of the log."""
    actions = [{"do": "checkpoint", "at": 0.98}, {"do": "stop", "at": 1}]
    budget = {
        "kind": "budget",
        "name": "sweep-12",
        "experiment": "lr-sweep-12",
        "usd": "100",
        "contact": "ada",
    }
    yield _line("controls", 0, "budget", budget | {"actions": actions, "grace_s": 60})
    price = {
        "sku": "a100",
        "component": "gpu",
        "usd": "3",
        "per": "gpu_hour",
        "effective_ms": 1_767_225_600_000,
    }
    yield _line("prices", 0, "price", price)
    names = {"owner": "ada", "team": "vision", "experiment": "lr-sweep-12"}
    held = {"gpu_count": 1, "gpu_type": "A100", "cluster": "train-a"}
    for minute, event, more in (
        (0, "started", names | held),
        (50, "checkpointed", {}),
        (_STOPPED_MIN, "cancelled", {}),
    ):
        for trial in range(TRIALS):
            job_id = f"lr-sweep-12/{trial:02}"
            yield _line("jobs", minute, f"{event}-{trial}", {"job_id": job_id, "type": event, **more})


def _line(topic: str, minute: int, identity: str, fields: dict[str, Any]) -> str:
    value = {"id": identity, "source": "example", "time_ms": _T0_MS + minute * MINUTE_MS, **fields}
    return json.dumps({"topic": topic, "value": value}) + "\n"


if __name__ == "__main__":
    FILE.write_text("".join(lines()))
