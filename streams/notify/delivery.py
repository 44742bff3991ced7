"""One message to one receiver.

Its repr must not show the address.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from streams.engine.alerts.alert import FIRING, Alert, webhook_id

AlertReceiver: TypeAlias = tuple[str, str]  # alert_id, receiver


class ChannelTraits(NamedTuple):
    """What the stages of the notifier have to know of a channel."""

    kind: str  # its name in rows, in logs and in the addresses of owners
    is_for_people: bool = False  # messages are grouped and repeated; programs get each change at once
    takes_notices: bool = True  # receipts and digests as well as alerts
    server: str = (
        ""  # all its messages go to one server, and share its attempt slots; empty: each host has its own
    )


@dataclass(frozen=True)
class Receiver:
    """Where a message goes, and whose secret signs it."""

    channel: ChannelTraits
    url: str = field(repr=False)
    signed_for: str = ""  # an owner, or `team/` and a team; empty: the common secret
    escalated_from: str = ""  # who had the page before it went on to this one; empty: it did not

    @property
    def kind(self) -> str:
        """The name of its channel."""
        return self.channel.kind


@dataclass(eq=False)
class Delivery:
    """One message to one receiver; `receiver` is the form of the address that may be shown."""

    alert: Alert
    shard: int
    receiver: str
    to: Receiver
    attempt: int = 1  # number of the next attempt, from 1
    note: str = ""  # why it comes again, for people

    @property
    def webhook_id(self) -> str:
        """The id of its message: each recipient's is another one, as one program may take those of several."""
        is_first = self.to.signed_for in ("", self.alert.owner) and not self.to.escalated_from
        recipient = "" if is_first else self.to.signed_for
        return webhook_id(self.alert.alert_id, self.alert.status, self.alert.changed_ms, recipient)

    @property
    def chain(self) -> AlertReceiver:
        """The key of the messages that must stay in order: (alert id, receiver)."""
        return self.alert.alert_id, self.receiver

    @property
    def host(self) -> str:
        """The key of receivers that share attempt slots."""
        return self.to.channel.server or self.receiver.partition(" #")[0]

    @property
    def alerts(self) -> list[Alert]:
        """What it is about."""
        return [self.alert]

    @property
    def is_sheddable(self) -> bool:
        """Whether it may be dropped and read from the tables again."""
        return True

    def begin(self) -> None:
        """Note that an attempt begins."""

    def leave(self, shards: Collection[int]) -> bool:
        """Leave out what is of these shards; return whether nothing is left."""
        return self.shard in shards

    @property
    def is_page(self) -> bool:
        """Whether it is a page."""
        return self.alert.severity == "page" and self.alert.status == FIRING


@dataclass(eq=False)
class Refresh(Delivery):
    """A part of what fires now, to one Alertmanager, which forgets what is not sent again; of no shard and no row."""

    part: int = 0
    size: int = 0

    @property
    def chain(self) -> AlertReceiver:
        """A key of its own: nothing waits for it."""
        return f"refresh {self.part}", self.receiver

    @property
    def webhook_id(self) -> str:
        """A key, so that it waits once."""
        return f"refresh {self.part}"

    @property
    def is_sheddable(self) -> bool:
        """That it stays: there is one."""
        return False

    @property
    def is_page(self) -> bool:
        """That it is none."""
        return False
