"""Alerts of a rule on the ledger that open again and again: the fourth within three hours stays open until an hour of quiet.

A function of when the subject's alerts opened and of where the rule held in the hour before, so that any cut gives the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Final

import msgspec

from schemas.durations import HOUR_MS
from streams.engine.alerts.alert import FIRING, Alert
from streams.engine.alerts.resolving import FLAPS
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.formatting import SENTENCE_AT_MOST

#: The opening of so many within `FLAPS_WITHIN_MS`, itself included, is that of one that flaps.
OPENINGS: Final = 4
QUIET_MS: Final = HOUR_MS
_SAID: Final = f"; {FLAPS}"


class Flaps:
    """Call `goes_on` for each alert that fires and whose rule does not hold, in the order of instants."""

    def __init__(self, opened: Iterable[tuple[str, int]], found: Iterable[LedgerFinding]) -> None:
        """Take the subjects of the rule's alerts with the instants at which they opened, and where the rule holds.

        `found` reaches back for an hour before the first instant that is asked for, where an alert that flaps fires.
        """
        self._opened: dict[str, set[int]] = defaultdict(set)
        for name, at_ms in opened:
            self._opened[name].add(at_ms)
        self._held: dict[str, list[int]] = defaultdict(list)
        for each in found:
            self._held[each.subject_name].append(each.at_ms)

    def flaps(self, alert: Alert) -> bool:
        """Whether the alert is one of so many."""
        opened = self._opened[alert.subject_name]
        opened.add(alert.started_ms)
        return (
            sum(alert.started_ms - FLAPS_WITHIN_MS < each <= alert.started_ms for each in opened) >= OPENINGS
        )

    def goes_on(self, alert: Alert, at_ms: int) -> bool:
        """Whether an alert stays at an instant, as it flaps and its rule held in the hour before."""
        if not self.flaps(alert):
            return False
        return any(at_ms - QUIET_MS <= each < at_ms for each in self._held[alert.subject_name])

    def said(self, changes: Iterable[Alert]) -> list[Alert]:
        """The changes; the beginnings of alerts that flap say so, where there is room."""
        return [
            msgspec.structs.replace(each, summary=f"{each.summary}{_SAID}")
            if each.status == FIRING
            and self.flaps(each)
            and len(each.summary) + len(_SAID) <= SENTENCE_AT_MOST
            else each
            for each in changes
        ]
