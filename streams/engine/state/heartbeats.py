"""How often a job sends heartbeats: the time between its newest ones.

A fold of its events, in order of arrival: a heartbeat that is no later than the newest one changes nothing.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from schemas.events import JobEvent, JobType

#: So many intervals are kept: of three the middle one is neither a heartbeat that was lost nor one that came twice.
KEPT_INTERVALS: Final = 3
#: Time with one of these in it says nothing of how often a running job sends heartbeats.
_BREAKS: Final = (JobType.suspended, JobType.resumed)


class Heartbeats(NamedTuple):
    """The heartbeats of the newest attempt that sent any; intervals of earlier attempts count until it has some of its own."""

    attempt: int
    newest_ms: int
    is_broken: bool = False  # whether it was suspended or resumed since then
    intervals_ms: tuple[int, ...] = ()  # the newest last

    @property
    def usual_ms(self) -> int:
        """How long it usually is between two of them; 0: there was only one."""
        return sorted(self.intervals_ms)[len(self.intervals_ms) // 2] if self.intervals_ms else 0


def next_heartbeats(known: Heartbeats | None, event: JobEvent) -> Heartbeats | None:
    """The heartbeats after an event."""
    if event.type != JobType.heartbeat:
        is_break = known is not None and event.type in _BREAKS and event.attempt == known.attempt
        return known._replace(is_broken=True) if known is not None and is_break else known
    if known is None:
        return Heartbeats(event.attempt, event.time_ms)
    if event.attempt > known.attempt:
        return Heartbeats(event.attempt, event.time_ms, intervals_ms=known.intervals_ms)
    interval_ms = event.time_ms - known.newest_ms
    if event.attempt < known.attempt or interval_ms <= 0:
        return known
    kept = known.intervals_ms
    if not known.is_broken:
        kept = (*kept, interval_ms)[-KEPT_INTERVALS:]
    return Heartbeats(event.attempt, event.time_ms, intervals_ms=kept)
