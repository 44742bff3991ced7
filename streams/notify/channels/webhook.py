"""Signed webhooks: a message about each change of an alert, whose bytes are the same in every attempt."""

from __future__ import annotations

from typing import Final, cast

import msgspec
from msgspec import UNSET

from schemas.escaping import utf8_text, visible
from schemas.messages.alert import AlertData, AlertFiring, AlertResolved, AlertSubject
from streams.engine.alerts.alert import RESOLVED, Alert, Severity, Status
from streams.notify.channels.channel import Channel, ChannelTools
from streams.notify.delivery import ChannelTraits, Delivery, Receiver
from streams.notify.json_forms import rfc3339, usd
from streams.notify.links import NO_LINKS, Links
from streams.notify.notice import Notice
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.owner_secrets import OwnerSecretError, Signers
from streams.notify.webhooks.sender import SendResult

UNSIGNED: Final = (
    "no secret signs for it: set alerts.webhook_secret, or give the owner a file in alerts.owner_secrets_dir"
)


class WebhookChannel(Channel):
    """Sends to the webhooks of owners, signed with their secrets or the common one."""

    traits = ChannelTraits("webhook")

    def __init__(self, tools: ChannelTools) -> None:
        super().__init__(tools)
        self._sender = tools.to_owners
        self._signers = Signers(self._options.webhook_secret, self._options.owner_secrets_dir, self._clock)

    @classmethod
    def is_configured(cls, options: NotifierOptions) -> bool:
        """Whether there may be a secret."""
        return bool(options.webhook_secret or options.owner_secrets_dir)

    def render(self, delivery: Delivery) -> bytes:
        """The JSON: of an alert as of its timestamp, of a notice as it is stored."""
        alert = delivery.alert
        return alert.body if isinstance(alert, Notice) else webhook_body(alert, self._links, delivery.to)

    async def send(self, delivery: Delivery) -> SendResult:
        """Sign and post once; a secret that cannot be read is retried, without any the message fails."""
        try:
            signer = await self._signers.of(delivery.to.signed_for)
        except OwnerSecretError as fault:
            return SendResult("retry", 0, str(fault))
        if signer is None:
            return SendResult("failed", 0, UNSIGNED)
        body = self.render(delivery)
        headers = signer.headers(delivery.webhook_id, body, self._clock.now_ms())
        return await self._sender.post(delivery.to.url, body, headers)


def webhook_body(alert: Alert, links: Links = NO_LINKS, to: Receiver | None = None) -> bytes:
    """The message to a webhook; its timestamp is the instant of the status change."""
    recipient, escalated_from = ("", "") if to is None else (to.signed_for, to.escalated_from)
    data = AlertData(
        alert_id=alert.alert_id,
        rule=alert.rule,
        severity=cast("Severity", alert.severity),
        status=cast("Status", alert.status),
        subject=AlertSubject(kind=alert.subject_kind, name=utf8_text(alert.subject_name)),
        owner=utf8_text(alert.owner),
        team=utf8_text(alert.team),
        project=utf8_text(alert.project),
        summary=visible(alert.summary),
        usd_per_hour=usd(alert.usd_nano_per_hour),
        expected_usd_per_hour=usd(alert.expected_nano_per_hour),
        ratio=alert.ratio,
        window_ms=alert.window_ms,
        cost_usd=usd(alert.cost_nano),
        budget_usd=None if alert.budget_nano is None else usd(alert.budget_nano),
        exhausted_in_s=None if alert.exhausted_in_ms is None else alert.exhausted_in_ms // 1000,
        started_ms=alert.started_ms,
        evidence_sql=utf8_text(alert.evidence_sql),
        recipient=utf8_text(recipient) or UNSET,
        escalated_from=utf8_text(escalated_from) or UNSET,
        links=links.of(alert) or UNSET,
    )
    timestamp = rfc3339(alert.changed_ms)
    if alert.status == RESOLVED:
        return msgspec.json.encode(AlertResolved(type="alert.resolved", timestamp=timestamp, data=data))
    return msgspec.json.encode(AlertFiring(type="alert.firing", timestamp=timestamp, data=data))
