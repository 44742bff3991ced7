"""Resolves which receivers get an owner's alerts, and the names under which they may be shown.

A name contains only scheme, host and port of an address.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from streams.address_keys import cannot_open, is_sealed
from streams.engine.alerts.alert import Address
from streams.engine.alerts.receiver_records import ESCALATED
from streams.notify.channels.channels import CHANNEL_OF, CHANNELS, can_send
from streams.notify.channels.webhook import WebhookChannel
from streams.notify.delivery import Receiver
from streams.notify.options import NotifierOptions

logger = logging.getLogger(__name__)


class Receivers:
    """The owners' own addresses, and the default one for owners without a usable address."""

    def __init__(self, addresses: Callable[[str], Sequence[Address]], options: NotifierOptions) -> None:
        self._addresses = addresses
        #: The addresses of a team, which get the alerts of all of its owners.
        self.of_team: Callable[[str], Sequence[Address]] = lambda _: ()
        self._options = options
        self._may_send = can_send(options)
        self._peers = [Receiver(each.traits, url) for each in CHANNELS for url in each.peers(options)]
        self._said_so = False

    @property
    def peers(self) -> dict[str, Receiver]:
        """Return by name those that get the alerts of all owners, and what fires again and again."""
        return {_name(receiver): receiver for receiver in self._peers}

    def unsupported(self, receiver: Receiver) -> str:
        """Why it gets no message by these settings; empty: it does."""
        if is_sealed(receiver.url):
            return cannot_open(receiver.url)
        return CHANNEL_OF[receiver.kind].unsupported(self._options)

    def of(self, owner: str, team: str = "") -> dict[str, Receiver]:
        """The receivers of an owner, and of a team, by name. The names are stable while the addresses are."""
        found = self._own(owner)
        for kind, url in dict.fromkeys(self.of_team(team) if team else ()):
            if all(url != other.url for other in found):
                found.append(Receiver(CHANNEL_OF[kind].traits, url, f"team/{team}"))
        default = self._options.default_webhook
        if default is not None and all(map(self.unsupported, found)):
            # Whoever stands in for all owners cannot know the secret of each.
            found.append(Receiver(WebhookChannel.traits, default))
        named: dict[str, Receiver] = {}
        for receiver in (*found, *self._peers):
            name = _name(receiver)
            number = 1 + sum(other.partition(" #")[0] == name for other in named)
            named[name if number == 1 else f"{name} #{number}"] = receiver
        return named

    def on_behalf(self, owner: str, others: Collection[Receiver], came_from: str = "") -> dict[str, Receiver]:
        """The owner's receivers, by names of their own, to whom an alert of somebody else goes on.

        Without addresses of people that have it. A program that takes messages of several owners learns to whom it was escalated.
        """
        known = {each.url for each in others if each.channel.is_for_people}
        found = [
            replace(each, escalated_from=came_from)
            for each in self._own(owner)
            if each.url not in known and not self.unsupported(each)
        ]
        return {
            f"{_name(each)}{ESCALATED}{owner}"
            if not at
            else f"{_name(each)} #{at + 1}{ESCALATED}{owner}": each
            for at, each in enumerate(found)
        }

    def _own(self, owner: str) -> list[Receiver]:
        addresses = list(self._addresses(owner)) if owner else []
        return [Receiver(CHANNEL_OF[kind].traits, url, owner) for kind, url in dict.fromkeys(addresses)]

    def nobody(self, owner: str, receivers: Collection[str]) -> str:
        """Why there is no receiver; empty if there is one."""
        if not self._may_send:
            if not self._said_so:
                logger.warning(
                    "alerts are stored but not sent",
                    extra={
                        "reason": "alerts.webhook_secret is not set",
                        "runbook": "docs/trouble.md#messages-not-delivered",
                    },
                )
            self._said_so = True
            return "alerts.webhook_secret is not set"
        if not receivers:
            whose = f"owner {owner} has no address" if owner else "it has no owner"
            return f"{whose}, and alerts.default_webhook is not set"
        return ""


def _name(receiver: Receiver) -> str:
    return CHANNEL_OF[receiver.kind].name_of(receiver.url)
