"""The rule `price_jump`: a revision is far above or below the one before it, by the prices that were known at the end of the hour.

It must not read a table: a later correction replaces a price there, and what was known before it is gone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from schemas.durations import HOUR_MS
from schemas.events import PriceEvent
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.reference_log import ReferenceView
from streams.engine.rules.price_jump import RULE, PriceJump


class _KnownRevision(NamedTuple):
    """A revision, and since when it was both known and in force."""

    since_ms: int
    event: PriceEvent

    @property
    def place(self) -> tuple[int, str, int]:
        """What the revisions of all SKUs are ordered by."""
        return self.since_ms, self.event.sku, self.event.effective_ms


class PriceJumps:
    """The revisions by log time; ask for hours in order (an earlier one costs a new beginning)."""

    def __init__(self, view: ReferenceView) -> None:
        self._begin(view)

    def _begin(self, view: ReferenceView) -> None:
        self._view = view
        # Of what the log had before its beginning only the last word is known: it was said at its own time.
        first = (_KnownRevision(max(event.time_ms, event.effective_ms), event) for event in view.book.events)
        self._known = sorted(first, key=lambda each: each.place)

    def between(self, controls: Controls, since_ms: int, until_ms: int) -> list[PriceJump]:
        """The jumps of the hours that end in (since_ms, until_ms], by these controls.

        It reads what the event loop writes, so it belongs there.
        """
        of = settings_of(RULE.name, controls.fleet_rules)
        if not of.enabled:
            return []
        hours = range(since_ms // HOUR_MS * HOUR_MS + HOUR_MS, until_ms + 1, HOUR_MS)
        return [jump for end_ms in hours for jump in self._of_hour(end_ms, of.thresholds["factor"])]

    def _of_hour(self, end_ms: int, factor: float) -> Iterator[PriceJump]:
        """Yield the jumps of the hour that ends then; a revision that was corrected before its end is none."""
        if end_ms - 1 < self._view.at_ms:
            self._begin(self._view.again())
        for log_ms, event in self._view.price_news(end_ms - 1):
            insort(
                self._known,
                _KnownRevision(max(log_ms, event.effective_ms), event),
                key=lambda each: each.place,
            )
        book, most = self._view.at(end_ms - 1).book, Fraction(str(factor))
        begin = bisect_left(self._known, end_ms - HOUR_MS, key=lambda each: each.since_ms)
        end = bisect_left(self._known, end_ms, key=lambda each: each.since_ms)
        for _, event in self._known[begin:end]:
            before = book.revision(event.sku, event.effective_ms - 1)
            if before is None or not before.usd_nano or not book.is_current(event):
                continue
            ratio = Fraction(event.usd_nano, before.usd_nano)
            if ratio > most or ratio * most < 1:
                yield PriceJump(end_ms, event.sku, str(event.per), event.usd_nano, before.usd_nano)
