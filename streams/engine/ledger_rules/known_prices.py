"""The price books that were known at whole five minutes, by log time, with what was read since and was in force then.

Events may be older than the prices before them in the log: a fleet's first day is published after its price list.

It must not read a table: a later correction replaces a price there, and what was known before it is gone.
"""

from __future__ import annotations

from typing import NamedTuple

from schemas.durations import NEVER_MS
from schemas.events import PriceEvent
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceView
from streams.engine.rules.missing_price import EVERY_MS


class KnownBook(NamedTuple):
    """A book, and the first of the instants asked for at which it was known."""

    from_ms: int
    book: PriceBook


class KnownPrices:
    """Ask for spans in order; an earlier one costs a new beginning."""

    def __init__(self, view: ReferenceView) -> None:
        self._view = view

    def between(self, since_ms: int, until_ms: int) -> list[KnownBook]:
        """The books of the whole five minutes in (since_ms, until_ms], ascending, each change once.

        It reads what the event loop writes, so it belongs there.
        """
        first_ms = since_ms // EVERY_MS * EVERY_MS + EVERY_MS
        if first_ms - 1 < self._view.at_ms:
            self._view = self._view.again()
        in_force_before = [
            (log_ms, event)
            for log_ms, event in self._view.price_news(NEVER_MS)
            if event.effective_ms <= log_ms
        ]
        found: list[KnownBook] = []
        last: tuple[PriceBook, list[PriceEvent]] | None = None
        for at_ms in range(first_ms, until_ms + 1, EVERY_MS):
            book = self._view.at(at_ms - 1).book
            more = [event for log_ms, event in in_force_before if event.effective_ms <= at_ms <= log_ms]
            if last is None or last[0] is not book or last[1] != more:
                last = book, more
                found.append(KnownBook(at_ms, book.with_events(more) if more else book))
        return found
