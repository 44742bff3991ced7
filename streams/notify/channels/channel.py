"""The contract of a channel: a way to reach receivers, such as signed webhooks or e-mail.

A channel is one file with a subclass of `Channel`, and is registered in `channels.CHANNELS`; tests/notify/channels/test_contract.py
holds for each. A channel that owners name an address of needs that kind of address, too (`streams.engine.alerts.alert.AddressKind`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import ClassVar

from streams.clock import Clock
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.outlook import as_of
from streams.notify.delivery import ChannelTraits, Delivery
from streams.notify.firing import FiringAlerts
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.guard import ReceiverGuard, shown
from streams.notify.webhooks.sender import Sender, SendResult


class ChannelTools:
    """What channels are made of; `sender` stands in for everything of HTTP."""

    def __init__(
        self, options: NotifierOptions, clock: Clock, firing: FiringAlerts, sender: Sender | None = None
    ) -> None:
        self.options = options
        self.clock = clock
        self.firing = firing
        self.links = options.links
        self._sender = sender

    @cached_property
    def to_owners(self) -> Sender:
        """The sender for addresses that owners name."""
        return self.sender_to(self.options.allow_hosts)

    def sender_to(self, allow_hosts: str) -> Sender:
        """A sender with a guard of its own, by which these hosts may be private and speak plain http."""
        return self._sender or Sender(ReceiverGuard(allow_hosts), timeout_ms=self.options.timeout_ms)


class Channel(ABC):
    """One way to reach receivers. It neither retries nor records: the notifier does, by the result of an attempt."""

    traits: ClassVar[ChannelTraits]

    def __init__(self, tools: ChannelTools) -> None:
        self._options = tools.options
        self._clock = tools.clock
        self._links = tools.links

    @classmethod
    def is_configured(cls, options: NotifierOptions) -> bool:
        """Whether the settings name what it sends with; where they do so for no channel, nothing is sent at all."""
        return False

    @classmethod
    def unsupported(cls, options: NotifierOptions) -> str:
        """Why, under these settings, no address of its gets a message; empty: they do."""
        return ""

    @classmethod
    def peers(cls, options: NotifierOptions) -> tuple[str, ...]:
        """Addresses of the settings that get the alerts of all owners, and what fires again and again."""
        return ()

    @classmethod
    def name_of(cls, url: str) -> str:
        """The name under which an address may be shown: it contains no path, and nothing of a person."""
        return shown(url) or f"{cls.traits.kind} address"

    @abstractmethod
    def render(self, delivery: Delivery) -> bytes:
        """The message, byte for byte as an attempt sends it now."""

    @abstractmethod
    async def send(self, delivery: Delivery) -> SendResult:
        """Make one attempt.

        The verdict says whether there is another one: `retry` for what may pass (no connection, no answer in time, "later", a
        fault of the server), also for whatever is raised; `failed` and `refused` are final. The detail may be shown to users.
        """

    def _current(self, alerts: Iterable[Alert]) -> list[Alert]:
        """The alerts as of now: repeated, late or resent ones say nothing of what was to come then."""
        now_ms = self._clock.now_ms()
        return [as_of(alert, now_ms) for alert in alerts]


def noted(delivery: Delivery) -> str:
    """Why people get the message: it comes again, or it went on to them; empty: it is theirs, and new."""
    went_on = f"Escalated to {delivery.to.signed_for}" if delivery.to.escalated_from else ""
    return "; ".join(filter(None, (went_on, delivery.note)))
