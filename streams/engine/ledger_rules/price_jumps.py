"""Revisions that are far from the ones before them, or from others of the same GPUs, by the prices that were known at the end of their minute.

It must not read a table: a later correction replaces a price there, and what was known before it is gone.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from schemas.durations import DAY_MS, MINUTE_MS
from schemas.events import PriceEvent
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.controls import Controls
from streams.engine.alerts.ledger_rule_records import settings_of
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.episodes import opened
from streams.engine.ledger_rules.gpu_prices import GpuPrices, is_of_gpus
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceView
from streams.engine.rules.finding import LedgerFinding
from streams.engine.rules.price_jump import BACK_WITHIN, FIRING_MS, RULE, PriceJump, is_far, may_be_dear


class _KnownRevision(NamedTuple):
    """A revision, and since when it was both known and in force."""

    since_ms: int
    event: PriceEvent

    @property
    def place(self) -> tuple[int, str, int]:
        """What the revisions of all SKUs are ordered by."""
        return self.since_ms, self.event.sku, self.event.effective_ms


class PriceJumps:
    """The revisions by log time; ask for minutes in order (an earlier one costs a new beginning)."""

    def __init__(self, view: ReferenceView) -> None:
        self._begin(view)

    def _begin(self, view: ReferenceView) -> None:
        self._view = view
        # Of what the log had before its beginning only the last word is known: it was said at its own time.
        first = (_KnownRevision(max(event.time_ms, event.effective_ms), event) for event in view.book.events)
        self._known = sorted(first, key=lambda each: each.place)

    def between(self, controls: Controls, since_ms: int, until_ms: int) -> list[PriceJump]:
        """Those of the minutes that end in (since_ms, until_ms] that may be wrong, by these controls.

        It reads what the event loop writes, so it belongs there.
        """
        of = settings_of(RULE.name, controls.fleet_rules)
        if not of.enabled:
            return []
        first_ms = since_ms // MINUTE_MS * MINUTE_MS
        if first_ms + MINUTE_MS - 1 < self._view.at_ms:
            self._begin(self._view.again())
        for log_ms, event in self._view.price_news(until_ms - 1):
            since = _KnownRevision(max(log_ms, event.effective_ms), event)
            insort(self._known, since, key=lambda each: each.place)
        begin = bisect_left(self._known, first_ms, key=lambda each: each.since_ms)
        end = bisect_left(self._known, until_ms // MINUTE_MS * MINUTE_MS, key=lambda each: each.since_ms)
        by_minute = groupby(self._known[begin:end], lambda each: each.since_ms // MINUTE_MS + 1)
        return [
            jump
            for minute, revisions in by_minute
            for jump in self._in_minute(minute * MINUTE_MS, revisions, of.thresholds)
        ]

    def _in_minute(
        self, end_ms: int, revisions: Iterable[_KnownRevision], of: Mapping[str, float]
    ) -> Iterator[PriceJump]:
        """Yield what may be wrong of the minute's revisions, of each SKU the last one; one that was corrected before its end is none."""
        book = self._view.at(end_ms - 1).book
        current = {event.sku: event for _, event in revisions if book.is_current(event)}
        others = GpuPrices(book, end_ms - 1) if any(map(is_of_gpus, current.values())) else None
        for event in current.values():
            before = book.revision(event.sku, event.effective_ms - 1)
            if before is not None and takes_back(event, before, _one_before(book, before), of):
                continue
            is_spot = event.match.get("purchase") == "spot"
            jump = None
            if before is not None and before.usd_nano:
                prices = event.usd_nano, before.usd_nano
                jump = PriceJump(end_ms, event.sku, str(event.per), *prices, is_spot)
            if jump is not None and is_far(jump, of):
                yield jump
                continue
            found = None if others is None else others.jump(event, end_ms)
            if found is not None and is_far(found, of) and not _was_far(found, before, of):
                yield found
            elif jump is not None and may_be_dear(jump, of):
                yield jump


def _one_before(book: PriceBook, event: PriceEvent) -> PriceEvent | None:
    return book.revision(event.sku, event.effective_ms - 1)


def takes_back(
    event: PriceEvent, before: PriceEvent, earlier: PriceEvent | None, of: Mapping[str, float]
) -> bool:
    """Whether a revision puts a price back to what it was, after one of a day at most that was far away: that is known already."""
    if earlier is None or not earlier.usd_nano or event.effective_ms - before.effective_ms > DAY_MS:
        return False
    jumped = PriceJump(before.effective_ms, event.sku, str(event.per), before.usd_nano, earlier.usd_nano)
    apart = sorted((event.usd_nano, earlier.usd_nano))
    return is_far(jumped, of) and BACK_WITHIN * apart[0] >= apart[1]


def _was_far(jump: PriceJump, before: PriceEvent | None, of: Mapping[str, float]) -> bool:
    """Whether the revision before was as far from the others: then this one is no news."""
    return before is not None and is_far(jump._replace(usd_nano=before.usd_nano), of)


def jump_changes(firing: Sequence[Alert], found: Iterable[LedgerFinding], until_ms: int) -> list[Alert]:
    """The changes up to `until_ms`, in order: each jump has an episode of its own, of an hour."""
    begun = [opened(each) for each in found]
    ends = ((alert, alert.started_ms + FIRING_MS) for alert in (*firing, *begun))
    over = [resolved(alert, end_ms) for alert, end_ms in ends if end_ms <= until_ms]
    return sorted([*begun, *over], key=lambda alert: (alert.changed_ms, alert.subject_name))
