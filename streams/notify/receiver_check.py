"""Sends a test message to each receiver of an owner or a team, once, and says what happened."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple

from streams.clock import Clock
from streams.engine.alerts.alert import FIRING, RESOLVED, Address, Alert, alert_id
from streams.engine.rules.formatting import instant
from streams.engine.rules.rule import TICKET
from streams.notify.channels.channels import Channels
from streams.notify.delivery import Delivery, Receiver
from streams.notify.firing import FiringAlerts
from streams.notify.links import TEST
from streams.notify.options import NotifierOptions
from streams.notify.receivers import Receivers
from streams.notify.webhooks.sender import SendResult


class ReceiverCheckResult(NamedTuple):
    """What happened to the messages of one receiver: of the last one, or of the first that was not delivered."""

    receiver: str  # as in `deliveries`: no path of an address
    kind: str
    outcome: str
    http_status: int
    detail: str


class ReceiverCheck:
    """Sends test messages with the options of a worker."""

    def __init__(
        self,
        addresses: Callable[[str], Sequence[Address]],
        of_team: Callable[[str], Sequence[Address]],
        options: NotifierOptions,
        clock: Clock,
    ) -> None:
        self._addresses = addresses
        self._receivers = Receivers(addresses, options)
        self._receivers.of_team = of_team
        self._channels = Channels(options, clock, FiringAlerts())
        self._clock = clock

    def nobody(self, owner: str) -> str:
        """Why the owner, or the team of the name, has no receiver; empty if there is one."""
        return self._receivers.nobody(owner, self._receivers.of(*self._whose(owner)))

    async def send(self, owner: str) -> list[ReceiverCheckResult]:
        """Send to all receivers of the owner, or else of the team of the name, at once."""
        whose = self._whose(owner)
        found = self._receivers.of(*whose)
        return await asyncio.gather(*(self._tried(whose, name, to) for name, to in found.items()))

    def _whose(self, name: str) -> tuple[str, str]:
        """The owner and the team that a name is: `team/vision` is a team, as is `vision` where no owner has an address under it."""
        kind, _, team = name.partition("/")
        if kind == "team" and team and not self._addresses(name):
            return "", team
        return ("", name) if self._receivers.of_team(name) and not self._addresses(name) else (name, "")

    async def _tried(self, whose: tuple[str, str], name: str, to: Receiver) -> ReceiverCheckResult:
        why = self._receivers.unsupported(to)
        if why:
            return ReceiverCheckResult(name, to.kind, "unsupported", 0, why)
        for alert in _messages(*whose, self._clock.now_ms(), both=not to.channel.is_for_people):
            try:
                answer = await self._channels.send(Delivery(alert, 0, name, to))
            except Exception as fault:  # noqa: BLE001 - one receiver must not hide the others; its text may have the address
                answer = SendResult("retry", 0, f"could not be sent ({type(fault).__name__})")
            if answer.verdict != "delivered":
                break
        # Of a worker's attempts it would be the first: `retry` is a failure here.
        outcome = "failed" if answer.verdict == "retry" else answer.verdict
        return ReceiverCheckResult(name, to.kind, outcome, answer.http_status, answer.detail)


def _messages(owner: str, team: str, now_ms: int, *, both: bool) -> list[Alert]:
    """A firing alert, and for programs its end, so that none keeps it open."""
    name, whom = (team, f"team {team}") if team else (owner, f"owner {owner}")

    def alert(status: str) -> Alert:
        return Alert(
            alert_id=alert_id(TEST, TEST, name, now_ms),
            rule=TEST,
            severity=TICKET,
            status=status,
            subject_kind=TEST,
            subject_name=f"test of {name}",
            owner=owner,
            team=team,
            project="",
            started_ms=now_ms,
            resolved_ms=now_ms if status == RESOLVED else None,
            ratio=0.0,
            usd_nano_per_hour=0,
            expected_nano_per_hour=0,
            cost_nano=0,
            window_ms=0,
            summary=f"This is a test: messages for {whom} arrive here. Nothing burns; sent at {instant(now_ms)}",
            evidence_sql="SELECT 1",
            held_ms=now_ms,
            changed_ms=now_ms,
            firings=1,
            silenced=False,
        )

    return [alert(status) for status in ((FIRING, RESOLVED) if both else (FIRING,))]
