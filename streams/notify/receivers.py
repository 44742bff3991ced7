"""Resolves which receivers get an owner's alerts, and the names under which they may be shown.

It must not send. A name contains only scheme, host and port of an address.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence

from streams.engine.alerts.alert import Address
from streams.notify.delivery import Receiver
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.guard import shown

logger = logging.getLogger(__name__)

UNSUPPORTED = (
    "e-mail is not sent: alerts.smtp_host is not set; set it, or give the owner a webhook or slack address"
)


class Receivers:
    """The owners' own addresses, and the default one for owners without a usable address."""

    def __init__(self, addresses: Callable[[str], Sequence[Address]], options: NotifierOptions) -> None:
        self._addresses = addresses
        self._mails = options.smtp is not None
        self._default = options.default_webhook
        self._may_send = options.sends
        self._peers = [Receiver("alertmanager", url) for url in options.alertmanager_urls]
        self._said_so = False

    @property
    def peers(self) -> dict[str, Receiver]:
        """Return the Alertmanagers by name."""
        return {_name(receiver): receiver for receiver in self._peers}

    def supports(self, receiver: Receiver) -> bool:
        """Return whether messages of its kind can be sent."""
        return receiver.kind != "email" or self._mails

    def of(self, owner: str) -> dict[str, Receiver]:
        """Return the owner's receivers by name. The names are stable while the addresses are."""
        addresses = list(self._addresses(owner)) if owner else []
        found = [Receiver(kind, url, owner) for kind, url in dict.fromkeys(addresses)]
        if self._default is not None and not any(map(self.supports, found)):
            # Whoever stands in for all owners cannot know the secret of each.
            found.append(Receiver("webhook", self._default))
        named: dict[str, Receiver] = {}
        for receiver in (*found, *self._peers):
            name = _name(receiver)
            number = 1 + sum(other.partition(" #")[0] == name for other in named)
            named[name if number == 1 else f"{name} #{number}"] = receiver
        return named

    def nobody(self, owner: str, receivers: Collection[str]) -> str:
        """Return why there is no receiver; empty if there is one."""
        if not self._may_send:
            if not self._said_so:
                logger.warning(
                    "alerts are stored but not sent",
                    extra={
                        "reason": "alerts.webhook_secret is not set",
                        "runbook": "docs/operations.md#messages-not-delivered",
                    },
                )
            self._said_so = True
            return "alerts.webhook_secret is not set"
        if not receivers:
            whose = f"owner {owner} has no address" if owner else "it has no owner"
            return f"{whose}, and alerts.default_webhook is not set"
        return ""


def _name(receiver: Receiver) -> str:
    if receiver.kind == "email":
        return "email"
    if receiver.kind == "alertmanager":
        return f"alertmanager {shown(receiver.url)}"
    return shown(receiver.url) or f"{receiver.kind} address"
