"""How the progress of a job moves: since when its values are what they are, and for how long they usually are.

A fold of the events that name values, in order of arrival: a report that is no later than the newest one changes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schemas.events import JobEvent, JobType
from streams.engine.timeline.attempts import event_order


class ProgressPace(NamedTuple):
    """The progress of the newest attempt that reported any."""

    attempt: int
    newest: tuple[int, int, str, str]  # the order of the newest report in its attempt
    since_ms: int  # of the first report with the values of now, or of a checkpoint since then
    repeats: int = 0  # reports since then, all of the same values
    moves: int = 0
    stood_ms: int = 0  # how long earlier values were reported unchanged, in all
    longest_ms: int = 0  # and the longest of these times

    @property
    def last_ms(self) -> int:
        """When it was last reported."""
        return self.newest[0]


def next_pace(pace: ProgressPace | None, event: JobEvent, known: Mapping[str, float]) -> ProgressPace | None:
    """The pace after an event; `known`: the values of the event's attempt before it."""
    order = event_order(event)
    if pace is None or event.attempt > pace.attempt:
        return ProgressPace(event.attempt, order, event.time_ms) if event.progress else pace
    is_saved = event.type == JobType.checkpointed
    if event.attempt < pace.attempt or order <= pace.newest or not (event.progress or is_saved):
        return pace
    if not is_saved and all(known.get(name) == value for name, value in (event.progress or {}).items()):
        return pace._replace(newest=order, repeats=pace.repeats + 1)
    stood_ms = pace.last_ms - pace.since_ms
    return ProgressPace(
        attempt=event.attempt,
        newest=order,
        since_ms=event.time_ms,
        moves=pace.moves + 1,
        stood_ms=pace.stood_ms + stood_ms,
        longest_ms=max(pace.longest_ms, stood_ms),
    )
