"""Prices and controls by log time, so that later changes do not affect earlier ticks.

An in-memory copy of what was read, in order; it reads no topic.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, NamedTuple
from weakref import WeakSet

from schemas.durations import NEVER_MS
from schemas.events import ControlEvent, PriceEvent
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.history import Form
from streams.engine.pricing.recent import Recent

#: Changes older than this are retained only in aggregate: no log is retained for longer.
KEPT_MS: Final = 7 * 86_400_000
_DROPPED_AT_ONCE: Final = 1_000
#: 16 MiB of books that views of other shards may ask for.
_BOOKS_WEIGHT_MAX: Final = 2_000_000

#: Key of the record -> control.
Standing = Mapping[bytes, ControlEvent]


class KnownReference(NamedTuple):
    """Prices and controls known at an instant; the same objects while nothing changes.

    `until_ms`: log time of the next change.
    """

    book: PriceBook
    controls: Standing
    until_ms: int


class ReferenceLog:
    """Prices and controls in the order of their log, and their present aggregate."""

    def __init__(self, book: PriceBook | None = None, controls: Standing | None = None) -> None:
        self.book = PriceBook.empty() if book is None else book
        self.controls: Standing = dict(controls or {})
        self.first: tuple[PriceBook, Standing] = (self.book, self.controls)
        self.prices: list[PriceEvent] = []
        self.price_log_ms: list[int] = []
        self.changes: list[tuple[bytes, ControlEvent | None]] = []
        self.control_log_ms: list[int] = []
        self.dropped = (0, 0)  # prices and control changes already merged into `first`
        self._views: WeakSet[ReferenceView] = WeakSet()
        self._books: Recent[int, PriceBook] = Recent(_BOOKS_WEIGHT_MAX)

    def book_at(self, before: PriceBook, known: int, count: int) -> PriceBook:
        """The book of the first `count` of these prices, one object for all shards; `before` has the first `known`."""
        if count == len(self.prices):
            return self.book
        later = self.prices[known:count]
        return self._books.get(
            self.dropped[0] + count, lambda: before.with_events(later), lambda book: book.weight
        )

    def prices_since(self, skus: Collection[str], log_ms: int) -> tuple[PriceBook, list[PriceEvent]]:
        """The book as it was known at an instant of the log, which goes for these SKUs alone, and what was published of them since."""
        count = bisect_right(self.price_log_ms, log_ms)
        of_them = [(place, each) for place, each in enumerate(self.prices) if each.sku in skus]
        before = self.first[0].with_events(each for place, each in of_them if place < count)
        return before, [each for place, each in of_them if place >= count]

    def extend(
        self,
        prices: Sequence[tuple[int, PriceEvent]],
        controls: Sequence[tuple[int, bytes, ControlEvent | None]],
        book: PriceBook,
        standing: Standing,
    ) -> None:
        """Append what was read next, each with its log time (ms), and set the present aggregate.

        A control of None deletes the control of its key.
        """
        for log_ms, price in prices:
            self.price_log_ms.append(max([log_ms, *self.price_log_ms[-1:]]))
            self.prices.append(price)
        for log_ms, key, control in controls:
            self.control_log_ms.append(max([log_ms, *self.control_log_ms[-1:]]))
            self.changes.append((key, control))
        self.book = book
        # Without changes they are equal: a new object would make every view compare all controls again.
        if controls:
            self.controls = standing
        self._drop_old()

    def _drop_old(self) -> None:
        """Merge changes that are older than any log and behind every view.

        Nothing is merged before the first view: a new meter starts with everything in its log, however old.
        """
        newest_ms = max([0, *self.price_log_ms[-1:], *self.control_log_ms[-1:]])
        places = [view.place for view in self._views]
        if not places:
            return
        prices = min(
            [bisect_right(self.price_log_ms, newest_ms - KEPT_MS), *(p - self.dropped[0] for p, _ in places)]
        )
        changes = min(
            [
                bisect_right(self.control_log_ms, newest_ms - KEPT_MS),
                *(c - self.dropped[1] for _, c in places),
            ]
        )
        if prices + changes < _DROPPED_AT_ONCE:
            return
        book, standing = self.first
        self.first = (book.with_events(self.prices[:prices]), _changed(standing, self.changes[:changes]))
        self.dropped = (self.dropped[0] + prices, self.dropped[1] + changes)
        del self.prices[:prices], self.price_log_ms[:prices]
        del self.changes[:changes], self.control_log_ms[:changes]

    def view(self) -> ReferenceView:
        """A view that only moves forward in time."""
        view = ReferenceView(self)
        self._views.add(view)
        return view


class ReferenceView:
    """The position of one shard in the log: shards progress independently."""

    def __init__(self, log: ReferenceLog) -> None:
        self._log = log
        self._at = log.dropped
        self._log_ms = -1
        self._book: PriceBook = log.first[0]
        self._controls: Standing = log.first[1]

    def again(self) -> ReferenceView:
        """Return another view, at the beginning."""
        return self._log.view()

    @property
    def place(self) -> tuple[int, int]:
        """How many prices and control changes are behind the view."""
        return self._at

    @property
    def book(self) -> PriceBook:
        """The prices of the last `at`; before the first those of the beginning."""
        return self._book

    @property
    def at_ms(self) -> int:
        """The instant of the last `at`; -1 before the first."""
        return self._log_ms

    def controls_at(self, log_ms: int) -> Standing:
        """The controls that `at(log_ms)` would, without moving forward."""
        log = self._log
        known, count = self._at[1] - log.dropped[1], bisect_right(log.control_log_ms, log_ms)
        if count == len(log.changes):
            return log.controls
        return self._controls if count <= known else _changed(self._controls, log.changes[known:count])

    def has_control_at(self, log_ms: int) -> bool:
        """Whether a control of exactly that instant is not behind the view yet."""
        log = self._log
        first = max(self._at[1] - log.dropped[1], bisect_left(log.control_log_ms, log_ms))
        return first < len(log.control_log_ms) and log.control_log_ms[first] == log_ms

    def next_control_ms(self) -> int:
        """The log time of the first control that is not behind the view; `NEVER_MS` if none is known."""
        return _after(self._log.control_log_ms, self._at[1] - self._log.dropped[1])

    def price_news(self, log_ms: int) -> list[tuple[int, PriceEvent]]:
        """The price records that `at(log_ms)` would add, with their log times."""
        log = self._log
        known, count = self._at[0] - log.dropped[0], bisect_right(log.price_log_ms, log_ms)
        return list(zip(log.price_log_ms[known:count], log.prices[known:count], strict=True))

    def next_change_ms(self, until_ms: int, asking: Callable[[frozenset[Form]], Collection[str]]) -> int:
        """Log time of the first change after the last look, by `until_ms`, that may matter; `NEVER_MS`: there is none.

        A control does; a price if there is anything `asking` for what its SKU matches, or matched before.
        """
        change_ms = self.next_control_ms()
        for log_ms, event in self.price_news(min(until_ms, change_ms)):
            if asking(self._book.forms_with(event)):
                return log_ms
        return change_ms if change_ms <= until_ms else NEVER_MS

    def at(self, log_ms: int) -> KnownReference:
        """What is known from records with log time <= log_ms.

        Raises:
            ValueError: An earlier call had a later instant.
        """
        if log_ms < self._log_ms:
            raise ValueError(f"{log_ms} is before {self._log_ms}, the instant of the last look")
        self._log_ms = log_ms
        log = self._log
        prices = bisect_right(log.price_log_ms, log_ms)
        controls = bisect_right(log.control_log_ms, log_ms)
        gone_prices, gone_changes = log.dropped
        known_prices, known_controls = self._at[0] - gone_prices, self._at[1] - gone_changes
        if prices == len(log.prices) or prices > known_prices:
            self._book = log.book_at(self._book, known_prices, prices)
        if controls == len(log.changes):
            self._controls = log.controls
        elif controls > known_controls:
            self._controls = _changed(self._controls, log.changes[known_controls:controls])
        self._at = (gone_prices + prices, gone_changes + controls)
        return KnownReference(
            self._book,
            self._controls,
            min(_after(log.price_log_ms, prices), _after(log.control_log_ms, controls)),
        )


def _after(log_ms: Sequence[int], known: int) -> int:
    return log_ms[known] if known < len(log_ms) else NEVER_MS


def _changed(standing: Standing, changes: Sequence[tuple[bytes, ControlEvent | None]]) -> Standing:
    changed = dict(standing)
    for key, control in changes:
        if control is None:
            changed.pop(key, None)
        else:
            changed[key] = control
    return changed
