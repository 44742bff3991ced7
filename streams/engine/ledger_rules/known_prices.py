"""The price books that were known at whole five minutes, by log time.

It must not read a table: a later correction replaces a price there, and what was known before it is gone.
"""

from __future__ import annotations

from typing import NamedTuple

from streams.engine.ledger_rules.missing_price import EVERY_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceView


class KnownBook(NamedTuple):
    """A book, and the first of the instants asked for at which it was known."""

    from_ms: int
    book: PriceBook


class KnownPrices:
    """Ask for spans in order; an earlier one costs a new beginning."""

    def __init__(self, view: ReferenceView) -> None:
        self._view = view

    def between(self, since_ms: int, until_ms: int) -> list[KnownBook]:
        """Return the books of the whole five minutes in (since_ms, until_ms], ascending, each change once.

        It reads what the event loop writes, so it belongs there.
        """
        found: list[KnownBook] = []
        for at_ms in range(since_ms // EVERY_MS * EVERY_MS + EVERY_MS, until_ms + 1, EVERY_MS):
            if at_ms - 1 < self._view.at_ms:
                self._view = self._view.again()
            book = self._view.at(at_ms - 1).book
            if not found or found[-1].book is not book:
                found.append(KnownBook(at_ms, book))
        return found
