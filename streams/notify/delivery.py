"""One message on its way to one receiver.

It must not show the address in its repr.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from streams.engine.alerts.alert import FIRING, Address, Alert, webhook_id

AlertReceiver: TypeAlias = tuple[str, str]  # alert_id, receiver


@dataclass(eq=False)
class Delivery:
    """One message for one receiver; `receiver` is how the address may be shown."""

    alert: Alert
    shard: int
    receiver: str
    address: Address = field(repr=False)
    attempt: int = 1  # the number of the next one, from 1

    @property
    def webhook_id(self) -> str:
        """The id of its message."""
        return webhook_id(self.alert.alert_id, self.alert.status, self.alert.changed_ms)

    @property
    def chain(self) -> AlertReceiver:
        """What it must keep in order with."""
        return self.alert.alert_id, self.receiver

    @property
    def host(self) -> str:
        """What shares its attempts with all other addresses at it."""
        return self.receiver.partition(" #")[0]

    @property
    def is_page(self) -> bool:
        """Whether somebody is woken by it."""
        return self.alert.severity == "page" and self.alert.status == FIRING
