"""Receipts over a replayed log: of the ends that stand, stored as live stores them, with what would have been cheaper."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.replay.test_replay_budgets import DAY_MS, MINUTE_MS, PRICE, T0, ended, replay, rows, started, write

SPOT = {
    "sku": "spot",
    "component": "gpu",
    "usd": "2",
    "per": "gpu_hour",
    "effective_ms": T0,
    "purchase": "spot",
}
RECEIPTS = """
SELECT subject_name AS job, owner, toUnixTimestamp64Milli(ended) AS ended_ms, toUnixTimestamp64Milli(time) AS time_ms,
    message FROM receipts FINAL WHERE type = 'job.ended' ORDER BY ended, job"""

DIGESTS = "SELECT message FROM receipts FINAL WHERE type = 'digest.weekly' ORDER BY ended, subject_name"


def receipt(owner: str, at_ms: int = T0, *, on: bool = True) -> tuple[int, str, dict[str, Any]]:
    return at_ms, "controls", {"kind": "receipt", "name": owner, "on": on}


def test_ends_are_told_with_the_controls_of_then(tmp_path: Path) -> None:
    last_ms = T0 + 12 * DAY_MS
    log = write(
        tmp_path / "log.jsonl",
        (T0, "prices", PRICE),
        (T0, "prices", SPOT),
        receipt("ada"),
        started("long-ago", owner="ada", purchase="on_demand"),
        started("broken", owner="ada", expected_usd_per_hour="40"),
        ended("broken", T0 + 30 * MINUTE_MS, "failed"),
        started("bobs", owner="bob"),
        ended("bobs", T0 + 30 * MINUTE_MS),
        ended("long-ago", T0 + 60 * MINUTE_MS),
        receipt("ada", T0 + DAY_MS, on=False),
        started("off", T0 + DAY_MS, owner="ada"),
        ended("off", T0 + DAY_MS + 60 * MINUTE_MS),
        receipt("bob", T0 + 2 * DAY_MS),
        started("last", last_ms, owner="bob", purchase="spot"),
        ended("last", last_ms + 90 * MINUTE_MS, "cancelled"),
        (last_ms + 120 * MINUTE_MS, "controls", {"kind": "owner", "name": "eve"}),
    )
    data = tmp_path / "data"
    replay(data, log)
    found = rows(data, RECEIPTS)
    assert [(row["job"], row["owner"]) for row in found] == [
        ("broken", "ada"),
        ("long-ago", "ada"),
        ("last", "bob"),
    ]
    assert [int(row["time_ms"]) - int(row["ended_ms"]) for row in found] == [10 * MINUTE_MS, 0, 0]
    broken, long_ago, last = (json.loads(row["message"])["data"] for row in found)
    assert (broken["cost_usd"], broken["lost_usd"], broken["failures"]) == ("30", "30", 1)
    assert broken["expected"] == {"usd_per_hour": "40", "ratio": 1.5}
    assert (long_ago["cost_usd"], long_ago["usd_per_hour"], long_ago["lost_usd"]) == ("60", "60", "0")
    assert long_ago["cheaper"] == {"purchase": "spot", "cost_usd": "20", "saved_usd": "40"}
    # 90 minutes, each rounded to a nano-dollar.
    assert (last["cost_usd"], last["cheaper"], last["productive_ratio"]) == ("29.99999997", None, None)
    # 2023-12-09 is a Saturday. Ada's record is off when the week ends; Bob's job of that week is in the next week's digest.
    (digest,) = (json.loads(row["message"])["data"] for row in rows(data, DIGESTS))
    assert (digest["subject"]["name"], digest["week"]) == ("bob", "2023-W50")
    assert (digest["cost_usd"], digest["previous_usd"], digest["change_ratio"]) == ("0", "30", -1.0)
    replay(data, log)
    assert rows(data, RECEIPTS) == found
