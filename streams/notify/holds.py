"""What holds alerts up until it is known whether anybody needs them: others of their cause, and what is usual for their kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import NamedTuple

import msgspec

from streams.engine.alerts.alert import Alert
from streams.engine.alerts.outlook import sentence_of
from streams.notify.history import USUAL
from streams.notify.incident_hold import IncidentHold, IncidentSettings
from streams.notify.intake import Passage
from streams.notify.kind_hold import KindHold
from streams.notify.receivers import Receivers


class Release(NamedTuple):
    """What becomes of an alert that was held up."""

    passage: Passage
    outcome: str  # that nobody is sent it; '': it is to be sent
    why: str


class Holds:
    """An alert waits for what is known of its kind first, then for others of its cause."""

    def __init__(self, incidents: IncidentHold, kinds: KindHold) -> None:
        self.incidents = incidents
        self.kinds = kinds
        #: Call this with what goes on long after it was withheld: its receivers may be others by now.
        self.readdress: Callable[[Passage], object] = lambda _: None

    def __len__(self) -> int:
        return len(self.incidents) + len(self.kinds)

    def due_ms(self) -> int | None:
        """When to look (monotonic ms); None: nothing is held."""
        due_ms = (self.incidents.due_ms(), self.kinds.due_ms())
        return min((each for each in due_ms if each is not None), default=None)

    def hold(self, passage: Passage) -> bool:
        """Hold what may be needed by nobody."""
        return self.kinds.hold(passage) or self.incidents.hold(passage)

    def hurry(self) -> None:
        """Wait for nothing more."""
        self.incidents.hurry()
        self.kinds.hurry()

    def release(self, shards: Collection[int]) -> None:
        """Drop what is of shards that are no longer ours."""
        self.incidents.release(shards)
        self.kinds.release(shards)

    async def decided(self) -> list[Release]:
        """What goes on, and what ends here, in order."""
        found: list[Release] = []
        for held in await self.kinds.decided():
            passage = held.passage
            if held.why:
                found.append(Release(passage, USUAL, held.why))
                continue
            if held.is_late:  # what was to come when it fired may be past
                said = sentence_of(passage.alert).past()
                passage.alert = msgspec.structs.replace(passage.alert, summary=said)
                self.readdress(passage)
            if not self.incidents.hold(passage):
                found.append(Release(passage, "", ""))
        for passage, covered_by in await self.incidents.decided():
            found.append(Release(passage, "in_incident" if covered_by else "", covered_by))
        return found

    def look_up_incidents(
        self, incident_of: Callable[[Alert], IncidentSettings | None], receivers: Receivers
    ) -> None:
        """Ask this whether an alert may be part of an incident; where nobody would receive that it is part of none."""

        def settings_of(alert: Alert) -> IncidentSettings | None:
            of = incident_of(alert)
            if of is None or receivers.nobody(of.owner, receivers.of(of.owner)):
                return None
            return of

        self.incidents.settings_of = settings_of
        self.incidents.is_received = lambda owner: not receivers.nobody(owner, receivers.of(owner))
