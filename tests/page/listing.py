"""The scripted meter's list of jobs: what the real one makes by SQL, made of rows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

Row = dict[str, Any]

LIVE = ("queued", "starting", "running", "suspended", "metered")
SWEEP_LEAST = 5
_SEARCHED = ("job_id", "owner", "team", "project", "experiment", "state", "gpu_type", "node")
_SUMS = ("usd_per_hour_now", "usd_per_hour_1h", "expected_usd_per_hour", "cost_usd", "lost_cost_usd")
_ORDERS = {
    "job": lambda row: (row["job_id"] or row["sweep"]["name"],),
    "owner": lambda row: (row["owner"], row["team"]),
    "state": lambda row: (row["state"],),
    "gpus": lambda row: (row["gpu_count"],),
    "burn": lambda row: (float(row["usd_per_hour_now"]),),
    "ratio": lambda row: (-1 if row["ratio"] is None else row["ratio"],),
    "cost": lambda row: (float(row["cost_usd"]),),
    "use": lambda row: (-1 if row["productive_ratio"] is None else row["productive_ratio"],),
}


def listed(rows: Iterable[Row], asked: Mapping[str, str]) -> Row:
    """The answer; its cursors are numbers of rows."""
    state = asked.get("state", "")
    scope = [row for row in rows if not state or (row["state"] in LIVE) == (state == "live")]
    words = asked.get("q", "").lower().split()
    found = [
        row
        for row in scope
        if all(any(word in str(row.get(name, "")).lower() for name in _SEARCHED) for word in words)
        and all(row[name] == asked[name] for name in ("owner", "team") if asked.get(name))
        and (not asked.get("firing") or row["alerts"])
        and (not asked.get("sweep") or _key(row) == asked["sweep"])
    ]
    shown = _grouped(found) if asked.get("group") else found
    order = asked.get("order", "burn")
    shown.sort(key=lambda row: row["job_id"] or row["sweep"]["name"])
    ascending = asked.get("dir", "asc" if order in ("job", "owner", "state") else "desc") == "asc"
    shown.sort(key=_ORDERS[order], reverse=not ascending)
    first, limit = int(asked.get("cursor", 0)), int(asked.get("limit", 100))
    return {
        "jobs": shown[first : first + limit],
        "total": len(scope),
        "matched": len(found),
        "rows": len(shown),
        "position": first,
        "next": str(first + limit) if first + limit < len(shown) else None,
        "previous": str(max(0, first - limit)) if first else None,
    }


def _key(row: Row) -> str:
    if row["experiment"]:
        return f"experiment:{row['team']}/{row['project']}/{row['experiment']}"
    return f"name:{row['owner']}/{re.sub('[0-9]+', '#', row['job_id'])}"


def _grouped(rows: list[Row]) -> list[Row]:
    trials = defaultdict(list)
    for row in rows:
        trials[_key(row)].append(row)
    shown = []
    for key, jobs in trials.items():
        if len(jobs) < SWEEP_LEAST:
            shown += jobs
            continue
        owners = {row["owner"] for row in jobs}
        sums = {name: f"{sum(float(row[name]) for row in jobs):.9f}" for name in _SUMS}
        name = jobs[0]["experiment"] or key.partition("/")[2]
        shown.append(
            {
                **jobs[0],
                **sums,
                "job_id": None,
                "sweep": {"key": key, "name": name, "by": key.partition(":")[0], "jobs": len(jobs), "owners": len(owners)},
                "owner": owners.pop() if len(owners) == 1 else "",
                "gpu_count": sum(row["gpu_count"] for row in jobs),
                "sparkline": [],
                "alerts": [alert for row in jobs for alert in row["alerts"]],
            }
        )  # fmt: skip
    return shown
