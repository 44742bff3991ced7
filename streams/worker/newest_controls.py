"""What notifiers ask of the newest controls: addresses, with those that are sealed opened, acknowledgements, silences, incidents."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from schemas.escaping import visible
from schemas.events import ControlEvent
from schemas.validate_controls import ACK
from streams.address_keys import AddressKeys, has_plain
from streams.engine.alerts.alert import Address, Alert
from streams.engine.alerts.controls import NO_CONTROLS, Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.reference_log import ReferenceLog, Standing
from streams.engine.rules.incident import RULE as INCIDENT
from streams.engine.rules.incident import operator_of
from streams.engine.rules.price_jump import RULE as PRICE_JUMP
from streams.notify.escalations import EscalationOf
from streams.notify.incident_hold import IncidentSettings
from streams.notify.opened_addresses import opened_addresses

logger = logging.getLogger(__name__)

_PLAIN_SHOWN: Final = 20


class NewestControls:
    """Looks up owners' addresses and acknowledgements in the newest controls."""

    def __init__(
        self, reference: ReferenceLog, now_ms: Callable[[], int], keys: AddressKeys | None = None
    ) -> None:
        self._reference = reference
        self._now_ms = now_ms  # log time
        self._keys = keys
        self._in_plain: tuple[str, ...] = ()  # whose addresses were last said to be
        self._acknowledged_until_ms: dict[str, float] = {}  # by alert
        self._standing: Standing | None = None
        self._controls = NO_CONTROLS

    def of(self, owner: str) -> Sequence[Address]:
        """The addresses that the owner's alerts are sent to."""
        self.refresh()
        return opened_addresses(self._controls.address_of(owner), self._keys)

    def of_team(self, team: str) -> Sequence[Address]:
        """The addresses that get the alerts of a team."""
        self.refresh()
        return opened_addresses(self._controls.address_of_team(team), self._keys)

    def escalation_of(self, alert: Alert) -> EscalationOf | None:
        """To whom a page goes on that nobody acknowledges; None: to nobody, or a silence covers it by now."""
        self.refresh()
        found = self._controls.escalation_of(alert.owner, alert.team)
        if found is None or self._controls.may_silence(alert, self._now_ms()):
            return None
        return EscalationOf(found, self._acknowledged_until_ms.get(alert.alert_id, 0))

    def is_acknowledged(self, alert_id: str) -> bool:
        """Whether an acknowledgement covers the alert now."""
        self.refresh()
        return self._now_ms() < self._acknowledged_until_ms.get(alert_id, 0)

    def is_silenced(self, alert: Alert) -> bool:
        """Whether a silence may cover the alert now: what its row does not say is taken to match."""
        self.refresh()
        return self._controls.may_silence(alert, self._now_ms())

    def incident_of(self, alert: Alert) -> IncidentSettings | None:
        """By which settings the alert may be part of an incident, and who would be notified of that; None: it cannot."""
        self.refresh()
        of = settings_of(INCIDENT.name, self._controls.fleet_rules)
        if not of.enabled:
            return None
        operator = operator_of(alert.shared_cause)
        owner = self._controls.operators.get(operator, "") if operator else alert.owner
        names_prices = settings_of(PRICE_JUMP.name, self._controls.fleet_rules).enabled
        return IncidentSettings(int(of.thresholds["jobs"]), owner, names_prices)

    def _say_what_is_plain(self) -> None:
        """Name the records that a copy of the log gives the addresses of, although there is a key."""
        if self._keys is None:
            return
        plain = tuple(
            sorted(
                f"{each.kind}/{each.name}"
                for each in self._reference.controls.values()
                if has_plain(each.value)
            )
        )
        if plain and plain != self._in_plain:
            logger.warning(
                "addresses stand in the log as they are, although at_rest.key is set",
                extra={
                    "controls": visible(", ".join(plain[:_PLAIN_SHOWN])),
                    "number": len(plain),
                    "runbook": "docs/at_rest.md#from-a-log-without-a-key",
                },
            )
        self._in_plain = plain

    def refresh(self) -> None:
        """Read the newest controls and log those that are invalid, or hold addresses that ought to be sealed."""
        if self._reference.controls is not self._standing:
            self._standing = self._reference.controls
            self._controls = Controls.from_events(self._standing.values())
            self._acknowledged_until_ms = acknowledged_until_ms(self._standing.values())
            self._say_what_is_plain()
            for fault in self._controls.faults:
                kind, name, reason = fault
                logger.warning(
                    "control has no effect",
                    extra={
                        "control": f"{kind}/{name}",
                        "reason": reason,
                        "runbook": "docs/trouble.md#control-has-no-effect",
                    },
                )


def acknowledged_until_ms(controls: Iterable[ControlEvent]) -> dict[str, float]:
    """Until when each alert is acknowledged (ms since 1970), by its id."""
    found: dict[str, float] = {}
    for event in controls:
        if event.kind == ACK:
            alert_id, until_ms = str(event.value["alert_id"]), event.value.get("until_ms")
            ends_ms = float(until_ms) if isinstance(until_ms, int) else math.inf
            found[alert_id] = max(ends_ms, found.get(alert_id, 0))
    return found
