"""Builds the message of an alert: JSON for webhooks, a few lines of text for Slack.

It must not sign or send. The same alert always gives the same bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, cast

import msgspec
import orjson

from schemas.escaping import visible
from schemas.messages.alert import AlertData, AlertFiring, AlertResolved, AlertSubject
from schemas.units import NANO_PER_USD
from streams.engine.alerts.alert import RESOLVED, Alert, Severity, Status
from streams.engine.alerts.meter_rules import METER

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SLACK_TEXT_AT_MOST: Final = 3_000
_SLACK_ESCAPES: Final = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


def webhook_body(alert: Alert) -> bytes:
    """Return the message to a webhook; its timestamp is the instant of the status change."""
    data = AlertData(
        alert_id=alert.alert_id,
        rule=alert.rule,
        severity=cast("Severity", alert.severity),
        status=cast("Status", alert.status),
        subject=AlertSubject(kind=alert.subject_kind, name=_text(alert.subject_name)),
        owner=_text(alert.owner),
        team=_text(alert.team),
        project=_text(alert.project),
        summary=visible(alert.summary),
        usd_per_hour=usd(alert.usd_nano_per_hour),
        expected_usd_per_hour=usd(alert.expected_nano_per_hour),
        ratio=alert.ratio,
        window_ms=alert.window_ms,
        cost_usd=usd(alert.cost_nano),
        budget_usd=None,
        exhausted_in_s=None,
        started_ms=alert.started_ms,
        evidence_sql=_text(alert.evidence_sql),
    )
    timestamp = rfc3339(alert.changed_ms)
    if alert.status == RESOLVED:
        return msgspec.json.encode(AlertResolved(type="alert.resolved", timestamp=timestamp, data=data))
    return msgspec.json.encode(AlertFiring(type="alert.firing", timestamp=timestamp, data=data))


def slack_body(alert: Alert) -> bytes:
    """Return the message to a Slack address."""
    sign = ":white_check_mark:" if alert.status == RESOLVED else ":rotating_light:"
    # The meter itself has neither an owner nor a rate.
    whose = (
        ()
        if alert.subject_kind == METER
        else (
            f"owner {alert.owner or 'nobody'}",
            f"${usd(alert.usd_nano_per_hour)}/h, expected ${usd(alert.expected_nano_per_hour)}/h",
        )
    )
    about = (
        ", ".join((f"{alert.subject_kind} {alert.subject_name}", *whose[:1])),
        *whose[1:],
        f"since {rfc3339(alert.started_ms)}",
        alert.alert_id,
    )
    lines = (f"{sign} {alert.status} ({alert.severity}, {alert.rule}): {alert.summary}", " | ".join(about))
    # Truncate before escaping: half an escape sequence would show as garbage.
    text = "\n".join(visible(line)[: _SLACK_TEXT_AT_MOST // 2] for line in lines)
    return orjson.dumps({"text": text.translate(_SLACK_ESCAPES)})


def usd(nano: int) -> str:
    """Format nano-dollars as an exact decimal string."""
    whole, part = divmod(abs(nano), NANO_PER_USD)
    digits = f"{whole}.{part:09d}".rstrip("0").rstrip(".")
    return f"-{digits}" if nano < 0 else digits


def rfc3339(ms: int) -> str:
    """Format an instant with milliseconds, in UTC."""
    return (_EPOCH + timedelta(milliseconds=ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _text(text: str) -> str:
    """Replace lone surrogates: JSON can contain one in a job id, UTF-8 cannot."""
    return text.encode("utf-8", "replace").decode()
