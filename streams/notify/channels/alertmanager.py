"""Alertmanager, by its API v2: `POST /api/v2/alerts`, a list of alerts with labels and annotations.

Two rows of one subject and rule have the same labels, and so are one alert to it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import orjson
from msgspec import UNSET
from yarl import URL

from schemas.escaping import visible
from streams.engine.alerts.alert import RESOLVED, Alert
from streams.notify.channels.channel import Channel, ChannelTools
from streams.notify.delivery import ChannelTraits, Delivery, Refresh
from streams.notify.json_forms import rfc3339, usd
from streams.notify.links import Links
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.guard import shown
from streams.notify.webhooks.sender import SendResult

API: Final = "/api/v2/alerts"
#: A firing alert ends by itself after so many intervals without being sent again.
LASTS_INTERVALS: Final = 5


class AlertmanagerChannel(Channel):
    """Sends to each peer, which forgets what is not sent again."""

    traits = ChannelTraits("alertmanager", takes_notices=False)

    def __init__(self, tools: ChannelTools) -> None:
        super().__init__(tools)
        self._firing = tools.firing
        # With a guard of its own: an owner's webhook must not reach an Alertmanager because the operator's alerts do.
        self._sender = tools.sender_to(",".join(URL(url).authority for url in self.peers(tools.options)))
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @classmethod
    def is_configured(cls, options: NotifierOptions) -> bool:
        """Whether there are peers."""
        return bool(options.alertmanager_urls)

    @classmethod
    def peers(cls, options: NotifierOptions) -> tuple[str, ...]:
        """The peers of the settings."""
        return options.alertmanager_urls

    @classmethod
    def name_of(cls, url: str) -> str:
        """What tells a peer from an owner's address on the same host."""
        return f"{cls.traits.kind} {shown(url)}"

    def render(self, delivery: Delivery) -> bytes:
        """The list of alerts as JSON."""
        alerts = self._current(self._alerts(delivery))
        return alertmanager_body(
            alerts, self._links, self._clock.now_ms(), self._options.alertmanager_resend_ms
        )

    async def send(self, delivery: Delivery) -> SendResult:
        """Post once; of a refresh what fires then."""
        if delivery.alert.status != RESOLVED and not isinstance(delivery, Refresh):
            return await self._post(delivery)
        # One after the other: a refresh under way may have an alert as firing, and would bring it back after its end.
        async with self._turns[delivery.receiver]:
            return await self._post(delivery)

    async def _post(self, delivery: Delivery) -> SendResult:
        if not self._alerts(delivery):
            return SendResult("delivered", 0, "nothing fires any more")
        token = self._options.alertmanager_token
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return await self._sender.post(f"{delivery.to.url}{API}", self.render(delivery), headers)

    def _alerts(self, delivery: Delivery) -> Sequence[Alert]:
        if isinstance(delivery, Refresh):
            return self._firing.part(delivery.part, delivery.size)
        return delivery.alerts


def alertmanager_body(alerts: Sequence[Alert], links: Links, now_ms: int, resend_ms: int) -> bytes:
    """The list of alerts; a firing one ends a few intervals from now unless it is sent again."""
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
        leading = ("runbook", "acknowledge", "silence", "planned")
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
