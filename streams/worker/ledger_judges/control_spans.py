"""Cuts minutes to judge into spans in which the same controls are in force: each minute is judged by what was known then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schemas.durations import DAY_MS, MINUTE_MS, WEEK_MS
from streams.engine.alerts.controls import Controls
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.reference_log import ReferenceView, Standing

#: Rules by the hour read whole days at once, until they have so many rows of jobs and nodes by the hour.
_ROWS_AT_ONCE: Final = 200_000


class ControlSpans:
    """The controls of successive minutes, by log time. Ask for spans in order."""

    def __init__(self, view: ReferenceView) -> None:
        self._view = view
        self._standing: Standing | None = None
        self._controls = Controls.from_events(())

    def at(self, at_ms: int) -> Controls:
        """The controls in force at an instant; one before that of the last call costs a new beginning."""
        if at_ms < self._view.at_ms:
            self._view = self._view.again()
        standing = self._view.at(at_ms).controls
        if standing is not self._standing:
            self._standing, self._controls = standing, Controls.from_events(standing.values())
        return self._controls

    def spans(self, since_ms: int, until_ms: int) -> Iterator[tuple[Controls, Minutes]]:
        """Yield the spans of (since_ms, until_ms], in order.

        A whole minute at which a control came is judged twice, before it and after it: the result is the same if the log
        was cut there.
        """
        while True:
            if self._view.has_control_at(since_ms):
                yield self.at(since_ms), Minutes(since_ms - MINUTE_MS, since_ms)
            if since_ms >= until_ms:
                return
            controls = self.at(since_ms + MINUTE_MS - 1)
            change_ms = self._view.next_control_ms() // MINUTE_MS * MINUTE_MS
            end_ms = min(change_ms, until_ms)
            yield controls, Minutes(since_ms, end_ms)
            since_ms = end_ms


def parts_of(span: Minutes, days: Sequence[tuple[int, int]]) -> Iterator[Minutes]:
    """Yield the span in parts of whole days that have about as many rows as may be read at once, so that memory is bounded.

    `days`: those that have any, and how many; days without rows cost nothing.
    """
    begin_ms, rows = span.since_ms, 0
    for day_ms, count in days:
        if not begin_ms < day_ms + DAY_MS or day_ms >= span.until_ms:
            continue
        if rows and rows + count > _ROWS_AT_ONCE and begin_ms < day_ms:
            yield Minutes(begin_ms, day_ms)
            begin_ms, rows = day_ms, 0
        rows += count
    yield Minutes(begin_ms, span.until_ms)


def weeks_of(span: Minutes) -> Iterator[Minutes]:
    """Yield the span in parts of a week at most."""
    for since_ms in range(span.since_ms, span.until_ms, WEEK_MS):
        yield Minutes(since_ms, min(since_ms + WEEK_MS, span.until_ms))
