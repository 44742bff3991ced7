"""Builds the message of an alert to a webhook.

It must not sign or send. The same alert always gives the same bytes.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final, cast

import msgspec
from msgspec import UNSET

from schemas.escaping import visible
from schemas.messages.alert import AlertData, AlertFiring, AlertResolved, AlertSubject
from schemas.units import NANO_PER_USD
from streams.engine.alerts.alert import RESOLVED, Alert, Severity, Status
from streams.notify.links import NO_LINKS, Links

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def webhook_body(alert: Alert, links: Links = NO_LINKS) -> bytes:
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
        budget_usd=None if alert.budget_nano is None else usd(alert.budget_nano),
        exhausted_in_s=None if alert.exhausted_in_ms is None else alert.exhausted_in_ms // 1000,
        started_ms=alert.started_ms,
        evidence_sql=_text(alert.evidence_sql),
        links=links.of(alert) or UNSET,
    )
    timestamp = rfc3339(alert.changed_ms)
    if alert.status == RESOLVED:
        return msgspec.json.encode(AlertResolved(type="alert.resolved", timestamp=timestamp, data=data))
    return msgspec.json.encode(AlertFiring(type="alert.firing", timestamp=timestamp, data=data))


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
