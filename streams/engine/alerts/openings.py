"""How often the rule of an alert opened for its subject of late: the alert of the fourth time within three hours flaps."""

from __future__ import annotations

from typing import Final

from streams.engine.alerts.alert import Alert
from streams.engine.alerts.resolving import FLAPS
from streams.engine.kernels.episode_steps import FLAPS_WITHIN_MS
from streams.engine.rules.formatting import SENTENCE_AT_MOST

#: The opening of so many within `FLAPS_WITHIN_MS`, itself included, is that of one that flaps.
OPENINGS: Final = 4
_SAID: Final = f"; {FLAPS}"


def openings_of(alert: Alert | None) -> tuple[int, ...]:
    """When its rule opened for its subject, the last times; of a row of an older release its beginning."""
    return () if alert is None else alert.openings or (alert.started_ms,)


def with_opening(before: Alert | None, at_ms: int) -> tuple[int, ...]:
    """The openings of a subject with one more; `before`: its last alert."""
    return (*openings_of(before), at_ms)[-OPENINGS:]


def flaps(alert: Alert) -> bool:
    """Whether its last opening was one of so many: then it stays open until its rule has not held for an hour."""
    openings = alert.openings
    return len(openings) == OPENINGS and openings[-1] - openings[0] < FLAPS_WITHIN_MS


def summary_of(alert: Alert) -> str:
    """Its sentence, which says so where it flaps and there is room."""
    has_room = len(alert.summary) + len(_SAID) <= SENTENCE_AT_MOST
    return f"{alert.summary}{_SAID}" if flaps(alert) and has_room else alert.summary
