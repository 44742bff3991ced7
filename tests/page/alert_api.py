"""The scripted meter's answers about the history of alerts: filters, pages, incidents with their members, why one fired."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.page import fleet

_EQUAL = ("status", "severity", "rule", "owner", "team", "message")
HOUR_MS = 3_600_000


def listed(alerts: list[dict[str, Any]], asked: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    """`GET /api/v1/alerts`; an alert with `part_of` is a member of that one."""
    found = [whole(each, alerts) for each in alerts]
    found = [
        each for each in found if all(not asked.get(name) or each[name] == asked[name] for name in _EQUAL)
    ]
    if asked.get("subject"):
        found = [each for each in found if each["subject"]["name"] == asked["subject"]]
    if asked.get("text"):
        found = [each for each in found if asked["text"].lower() in each["summary"].lower()]
    if asked.get("part_of"):
        found = [each for each in found if each["part_of"] == asked["part_of"]]
    count_alerts = len(found)
    if asked.get("folded") == "1" and not asked.get("part_of"):
        found = [each for each in found if not each["part_of"]]
    if asked.get("from_ms"):
        found = [each for each in found if (each["resolved_ms"] or now_ms) >= int(asked["from_ms"])]
    found.sort(key=lambda each: (-each["started_ms"], each["alert_id"]))
    first, limit = int(asked.get("before", 0)), int(asked.get("limit", 100))
    shown = found[first : first + limit]
    return {
        "as_of_ms": now_ms,
        "alerts": shown,
        "count": len(found),
        "count_alerts": count_alerts,
        "before": str(first + limit) if first + limit < len(found) else None,
        "names": {
            "rules": sorted({each["rule"] for each in alerts}),
            "owners": sorted({each["owner"] for each in alerts if each["owner"]}),
            "teams": sorted({each["team"] for each in alerts if each["team"]}),
        },
    }


def whole(alert: dict[str, Any], alerts: list[dict[str, Any]]) -> dict[str, Any]:
    """An alert as lists have it."""
    members = [each for each in alerts if each.get("part_of") == alert["alert_id"]]
    message = "sent" if any(each["outcome"] == "delivered" for each in alert["deliveries"]) else "waiting"
    of = None
    if members:
        usd = sum(float(each["usd_per_hour"]) for each in members)
        of = {"alerts": len(members), "jobs": len(members), "firing": len(members), "matched": len(members), "usd_per_hour": fleet.usd(usd)}  # fmt: skip
    acts = dict.fromkeys(("acknowledged", "silenced_by", "planned_by"))
    return {"part_of": "", "message": message, **acts, **alert, "members": of}


def one(alert_id: str, alerts: list[dict[str, Any]], now_ms: int, controls: list[dict[str, Any]]) -> dict[str, Any] | None:  # fmt: skip
    """`GET /api/v1/alerts/{alert_id}`."""
    found = next((each for each in alerts if each["alert_id"] == alert_id), None)
    if found is None:
        return None
    head = next((each for each in alerts if each["alert_id"] == found.get("part_of")), None)
    more = {"held_ms": found["started_ms"] + 60_000, "changed_ms": found["resolved_ms"] or found["started_ms"], "firings": 1, "opened_usd_per_hour": found["usd_per_hour"]}  # fmt: skip
    return {
        "as_of_ms": now_ms,
        "alert": {**whole(found, alerts), **more},
        "part_of": None if head is None else whole(head, alerts),
        "rule": {
            "name": found["rule"],
            "title": "Runaway burn",
            "about": "`job`",
            "holds": ">= 2.5 over 15 min and >= 6 over 5 min",
            "planned_quiets": True,
            "runbook": "docs/runbook.md#spend-spike",
            "runbook_url": "https://docs.example.com/runbook.md#spend-spike",
        },
        "controls": controls,
    }


def why(alert_id: str, alerts: list[dict[str, Any]], at_ms: int) -> dict[str, Any] | None:
    """`GET /api/v1/alerts/{alert_id}/why`."""
    found = next((each for each in alerts if each["alert_id"] == alert_id), None)
    if found is None:
        return None

    def condition(
        rule: str, what: str, value: float | None, threshold: float, **changes: Any
    ) -> dict[str, Any]:
        share = None if value is None else value / threshold
        row = {"rule": rule, "what": what, "value": value, "threshold": threshold, "share": share, "way": 0, "holds": rule == found["rule"], "enabled": True}  # fmt: skip
        return row | changes

    return {
        "subject": found["subject"],
        "at_ms": at_ms,
        "rule": found["rule"],
        "rules": [
            condition(found["rule"], "cost / expected over 15 min", 6.4, 2.5),
            condition(found["rule"], "cost / expected over 5 min", 8.1, 6.0),
            condition(found["rule"], "accrues cost for all of 5 min (1: yes)", 1.0, 1.0),
            condition("burn_drift", "cost / expected over 6 h", 1.1, 1.4),
            condition("idle_gpus", "minutes of idle GPUs, in whole tens", 0.0, 50.0),
            condition("silent_job", "minutes of running on GPUs, never heard of", None, 5.0),
            condition("burn_sustained", "cost / expected over 1 h", 2.6, 2.1, holds=True),
        ],
        "rules_missing": "",
        "records_unknown": 0,
        "plans": [],
        "budgets": [],
        "messages": [
            {"alert_id": alert_id, "rule": found["rule"], "status": "firing", "message": "delivered", "because": found.get("because", "")},
            {"alert_id": "", "rule": "burn_sustained", "status": "not opened", "message": "none", "because": f"burn_fast ({alert_id}) comes first"},
        ],
        "statement": "",
        "mend": [],
    }  # fmt: skip


def margins(alert_id: str, alerts: list[dict[str, Any]], now_ms: int) -> dict[str, Any] | None:
    """`GET /api/v1/alerts/{alert_id}/margins`."""
    found = next((each for each in alerts if each["alert_id"] == alert_id), None)
    if found is None:
        return None
    from_ms, until_ms = found["started_ms"] - HOUR_MS // 2, found["resolved_ms"] or now_ms
    steps = [from_ms + place * (until_ms - from_ms) // 20 for place in range(21)]
    points = [[at, place / 4, 2.5, None if place == 3 else place / 10, place >= 10] for place, at in enumerate(steps)]  # fmt: skip
    return {
        "rule": found["rule"],
        "from_ms": from_ms,
        "until_ms": until_ms,
        "missing": "",
        "enabled": True,
        "conditions": [{"what": "cost / expected over 15 min", "way": 0, "points": points}],
    }
