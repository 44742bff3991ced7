"""The registered channels, and the way from a delivery to the one that sends it."""

from __future__ import annotations

from typing import Final

from streams.clock import Clock
from streams.notify.channels.alertmanager import AlertmanagerChannel
from streams.notify.channels.channel import Channel, ChannelTools
from streams.notify.channels.email import EmailChannel
from streams.notify.channels.slack import SlackChannel
from streams.notify.channels.webhook import WebhookChannel
from streams.notify.delivery import Delivery
from streams.notify.firing import FiringAlerts
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.sender import Sender, SendResult

CHANNELS: Final[tuple[type[Channel], ...]] = (
    WebhookChannel,
    SlackChannel,
    EmailChannel,
    AlertmanagerChannel,
)
CHANNEL_OF: Final = {channel.traits.kind: channel for channel in CHANNELS}


def can_send(options: NotifierOptions) -> bool:
    """Whether the settings name anything that messages can be sent with."""
    return any(channel.is_configured(options) for channel in CHANNELS)


class Channels:
    """All channels of a process."""

    def __init__(
        self, options: NotifierOptions, clock: Clock, firing: FiringAlerts, sender: Sender | None = None
    ) -> None:
        """`sender` stands in for everything of HTTP."""
        tools = ChannelTools(options, clock, firing, sender)
        self._channels = {kind: channel(tools) for kind, channel in CHANNEL_OF.items()}

    async def send(self, delivery: Delivery) -> SendResult:
        """Make one attempt over the channel of its receiver."""
        return await self._channels[delivery.to.kind].send(delivery)
