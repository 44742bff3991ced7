"""Builds what Alertmanager's API v2 takes: `POST /api/v2/alerts`, a list of alerts with labels and annotations.

It must not group or silence: Alertmanager does, by the labels. Two rows of one subject and rule have the same labels, and
so are one alert to it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson
from msgspec import UNSET

from schemas.escaping import visible
from streams.engine.alerts.alert import RESOLVED, Alert
from streams.notify.body import rfc3339, usd
from streams.notify.links import Links

API: Final = "/api/v2/alerts"
#: A firing alert ends by itself after so many intervals without being sent again.
LASTS_INTERVALS: Final = 5


def alertmanager_body(alerts: Sequence[Alert], links: Links, now_ms: int, resend_ms: int) -> bytes:
    """Return the list of alerts; a firing one ends a few intervals from now unless it is sent again."""
    return orjson.dumps([_posted(alert, links, now_ms, resend_ms) for alert in alerts])


def _posted(alert: Alert, links: Links, now_ms: int, resend_ms: int) -> dict[str, Any]:
    if alert.status == RESOLVED:
        # Not in its future, by whatever clock: it would fire until then.
        ends_ms = min(alert.changed_ms if alert.resolved_ms is None else alert.resolved_ms, now_ms)
    else:
        ends_ms = now_ms + LASTS_INTERVALS * resend_ms
    labels = {
        "alertname": alert.rule,
        "severity": alert.severity,
        "subject_kind": alert.subject_kind,
        "owner": alert.owner,
        "team": alert.team,
        "project": alert.project,
        alert.subject_kind: alert.subject_name,  # last: about a team, it is the team
    }
    annotations = {
        "summary": alert.summary,
        "alert_id": alert.alert_id,
        "usd_per_hour": usd(alert.usd_nano_per_hour),
        "expected_usd_per_hour": usd(alert.expected_nano_per_hour),
        "cost_usd": usd(alert.cost_nano),
        "evidence_sql": alert.evidence_sql,
    }
    found = links.of(alert)
    if found is not None:
        leading = ("runbook", "silence", "planned")
        annotations |= {name: url for name in leading if (url := getattr(found, name)) is not UNSET}
    posted: dict[str, Any] = {
        # An empty label is an absent one to it.
        "labels": {name: visible(value) for name, value in labels.items() if value},
        "annotations": {name: visible(value) for name, value in annotations.items() if value},
        "startsAt": rfc3339(min(alert.started_ms, ends_ms)),
        "endsAt": rfc3339(ends_ms),
    }
    if found is not None and found.subject is not UNSET:
        posted["generatorURL"] = found.subject
    return posted
