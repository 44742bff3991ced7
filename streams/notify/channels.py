"""Sends one delivery over the channel of its receiver: a signed webhook, Slack, e-mail, or Alertmanager.

It must not retry or record. What it returns contains no secret and no path of an address.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

from yarl import URL

from streams.clock import Clock
from streams.engine.alerts.alert import RESOLVED, Alert
from streams.engine.alerts.outlook import as_of
from streams.notify.alertmanager import API, alertmanager_body
from streams.notify.body import webhook_body
from streams.notify.delivery import Delivery, Refresh
from streams.notify.firing import FiringAlerts
from streams.notify.groups import GroupDelivery
from streams.notify.links import Links
from streams.notify.mail.mailer import Mailer
from streams.notify.mail.message import mail_message
from streams.notify.notice import Notice
from streams.notify.options import NotifierOptions
from streams.notify.slack import slack_body
from streams.notify.webhooks.guard import ReceiverGuard
from streams.notify.webhooks.owner_secrets import OwnerSecretError, Signers
from streams.notify.webhooks.sender import Sender, SendResult

UNSIGNED: Final = (
    "no secret signs for it: set alerts.webhook_secret, or give the owner a file in alerts.owner_secrets_dir"
)


class Channels:
    """All ways of sending. `sender` stands in for the two of HTTP."""

    def __init__(
        self,
        options: NotifierOptions,
        clock: Clock,
        firing: FiringAlerts,
        sender: Sender | None = None,
        mailer: Mailer | None = None,
    ) -> None:
        self._options = options
        self._clock = clock
        self._firing = firing
        self._links = Links(options.public_url, options.docs_url)
        self._signers = Signers(options.webhook_secret, options.owner_secrets_dir, clock)
        self._sender = sender or Sender(ReceiverGuard(options.allow_hosts), timeout_ms=options.timeout_ms)
        # With a guard of its own: an owner's webhook must not reach an Alertmanager because the operator's alerts do.
        peers = ",".join(URL(url).authority for url in options.alertmanager_urls)
        self._peer_sender = sender or Sender(ReceiverGuard(peers), timeout_ms=options.timeout_ms)
        self._mailer = mailer
        if mailer is None and options.smtp is not None:
            self._mailer = Mailer(options.smtp, timeout_ms=options.timeout_ms)
        self._turns: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def send(self, parcel: Delivery) -> SendResult:
        """Make one attempt."""
        kind, url = parcel.to.kind, parcel.to.url
        if isinstance(parcel, Refresh):
            async with self._turns[parcel.receiver]:
                return await self._post_alerts(url, self._firing.part(parcel.part, parcel.size))
        if kind == "alertmanager":
            if parcel.alert.status != RESOLVED:
                return await self._post_alerts(url, [parcel.alert])
            # After a refresh under way, which may have the alert as firing and would bring it back.
            async with self._turns[parcel.receiver]:
                return await self._post_alerts(url, [parcel.alert])
        if kind == "slack":
            alerts = self._current(parcel.alerts)
            return await self._sender.post(url, slack_body(alerts, self._links, _note(parcel)), {})
        if kind == "email":
            return await self._mailed(parcel)
        return await self._signed(parcel)

    async def _mailed(self, parcel: Delivery) -> SendResult:
        assert self._mailer is not None  # without a server there are no deliveries
        refusal = self._mailer.refusal(parcel.to.url)
        if refusal:
            return SendResult("refused", 0, refusal)
        message = mail_message(
            self._current(parcel.alerts),
            self._links,
            sender=self._mailer.sender,
            to=parcel.to.url,
            message_id=parcel.webhook_id,
            now_ms=self._clock.now_ms(),
            note=_note(parcel),
        )
        return await self._mailer.send(parcel.to.url, message)

    async def _signed(self, parcel: Delivery) -> SendResult:
        try:
            signer = await self._signers.of(parcel.to.signed_for)
        except OwnerSecretError as fault:
            return SendResult("retry", 0, str(fault))
        if signer is None:
            return SendResult("failed", 0, UNSIGNED)
        alert = parcel.alert
        body = alert.body if isinstance(alert, Notice) else webhook_body(alert, self._links)
        headers = signer.headers(parcel.webhook_id, body, self._clock.now_ms())
        return await self._sender.post(parcel.to.url, body, headers)

    async def _post_alerts(self, url: str, alerts: Sequence[Alert]) -> SendResult:
        if not alerts:
            return SendResult("delivered", 0, "nothing fires any more")
        body = alertmanager_body(
            self._current(alerts),
            self._links,
            self._clock.now_ms(),
            self._options.alertmanager_resend_ms,
        )
        token = self._options.alertmanager_token
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        return await self._peer_sender.post(f"{url}{API}", body, headers)

    def _current(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Return the alerts as of now: repeated, late or resent ones say nothing of what was to come then.

        A webhook's message is of the instant of its timestamp, in every attempt.
        """
        now_ms = self._clock.now_ms()
        return [as_of(alert, now_ms) for alert in alerts]


def _note(parcel: Delivery) -> str:
    return parcel.note if isinstance(parcel, GroupDelivery) else ""
