"""The price book: which SKU and revision applies to a context at an instant (CONTRACT 1, prices).

Immutable, so that a book can be handed between threads; it reads no topic and stores nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final

from schemas.events import MATCH_FIELDS, PriceEvent
from schemas.units import divisor
from streams.kernels.arrays import BEGINNING_MS
from streams.pricing.context import Context
from streams.pricing.kinds import UNIT_OF_KIND, Kind, PriceRef, kind_of_price

#: Ties between SKUs with equally many match fields are decided by the presence of these, in this order.
_TIE_ORDER: Final = (
    "zone",
    "instance_type",
    "gpu_type",
    "region",
    "cluster",
    "account",
    "cloud",
    "purchase",
    "project",
    "team",
)
_POSITION: Final = {field: position for position, field in enumerate(MATCH_FIELDS)}

#: A step function of time: from `from_ms` on (until the next step) this price applies; None = no price.
Steps = tuple[tuple[int, PriceRef | None], ...]


#: Answers that a book takes over from the one before it; contexts come and go.
_ANSWERS_AT_MOST: Final = 200_000
#: Component, kind of quantity, position of a match field in a context, its value.
_Field = tuple[str, Kind, int, str]


class _Revision:
    """One revision of a SKU, ready to be matched."""

    __slots__ = ("effective_ms", "kind", "match", "rank", "ref")

    def __init__(self, event: PriceEvent) -> None:
        self.kind: Kind = kind_of_price(event.per, event.gpus)
        self.effective_ms: int = event.effective_ms
        self.match: tuple[tuple[int, str], ...] = tuple(
            (_POSITION[field], value) for field, value in event.match.items()
        )
        self.rank = (-len(event.match), tuple(field not in event.match for field in _TIE_ORDER), event.sku)
        self.ref = PriceRef(
            component=event.component,
            unit=UNIT_OF_KIND[self.kind],
            sku=event.sku,
            effective_ms=event.effective_ms,
            usd_nano=event.usd_nano,
            divisor=divisor(event.per, event.gpus),
        )

    def applies_to(self, component: str, kind: Kind, context: Context) -> bool:
        """Whether it prices this kind of quantity of the component, and all its match fields are met."""
        return (
            self.ref.component == component
            and self.kind == kind
            and all(context[position] == value for position, value in self.match)
        )


class SkuIndex:
    """SKUs by what one of their revisions asks for: each revision stands under the rarest of its match fields."""

    __slots__ = ("_by_field", "_revisions", "_unmatched")

    def __init__(self, revisions: dict[str, list[_Revision]]) -> None:
        self._revisions = revisions
        asked = Counter(
            _field(revision, at) for of in revisions.values() for revision in of for at in revision.match
        )
        self._by_field: dict[_Field, set[str]] = {}
        self._unmatched: dict[tuple[str, Kind], set[str]] = {}  # of revisions that fit all contexts
        for sku, of_sku in revisions.items():
            for revision in of_sku:
                if revision.match:
                    rarest = min((_field(revision, at) for at in revision.match), key=asked.__getitem__)
                    self._by_field.setdefault(rarest, set()).add(sku)
                else:
                    self._unmatched.setdefault((revision.ref.component, revision.kind), set()).add(sku)

    def candidates(self, component: str, kind: Kind, context: Context) -> Iterator[list[_Revision]]:
        """The revisions of each SKU of which one may apply, by SKU."""
        skus = set(self._unmatched.get((component, kind), ()))
        for position, value in enumerate(context):
            if value is not None:
                skus.update(self._by_field.get((component, kind, position, value), ()))
        return (self._revisions[sku] for sku in sorted(skus))


class PriceBook:
    """All price revisions known; `steps` says what applies when.  Answers are remembered per book."""

    __slots__ = ("_events", "_index", "_revisions", "_steps")

    def __init__(self, events: dict[tuple[str, int], PriceEvent]) -> None:
        self._events = events
        revisions: dict[str, list[_Revision]] = {}
        for (sku, _), event in sorted(events.items()):
            revisions.setdefault(sku, []).append(_Revision(event))
        self._revisions = revisions
        self._steps: dict[tuple[Context, str, Kind], Steps] = {}
        self._index: SkuIndex | None = None  # made when it is first asked

    @classmethod
    def empty(cls) -> PriceBook:
        """A book without prices: everything is unpriced."""
        return cls({})

    @property
    def events(self) -> list[PriceEvent]:
        """The revisions that stand, by (sku, effective_ms)."""
        return [event for _, event in sorted(self._events.items())]

    def __len__(self) -> int:
        return len(self._events)

    def with_events(self, events: Iterable[PriceEvent]) -> PriceBook:
        """A book that also knows `events`; of two with one (sku, effective_ms) the later one stands.

        Returns this very book when nothing changes, so that callers may compare by identity.
        """
        merged = dict(self._events)
        skus: set[str] = set()
        for event in events:
            key = (event.sku, event.effective_ms)
            standing = merged.get(key)
            if standing is None or _order(event) > _order(standing):
                merged[key] = event
                skus.add(event.sku)
        if not skus:
            return self
        book = PriceBook(merged)
        book._know(self, skus)
        return book

    def _know(self, other: PriceBook, skus: Iterable[str]) -> None:
        """Take over another book's answers, but those in which one of these SKUs has a say: it differs."""
        differing = [
            revision
            for sku in skus
            for revisions in (self._revisions, other._revisions)
            for revision in revisions.get(sku, ())
        ]
        if len(other._steps) <= _ANSWERS_AT_MOST:
            # A list at once: other threads may ask the book for more.
            self._steps = {
                key: steps
                for key, steps in list(other._steps.items())
                if not any(revision.applies_to(key[1], key[2], key[0]) for revision in differing)
            }

    def steps(self, context: Context, component: str, kind: Kind) -> Steps:
        """The price of `component` for this kind of quantity over all time, as steps ascending in time."""
        key = (context, component, kind)
        known = self._steps.get(key)
        if known is None:
            known = self._steps[key] = self._compute_steps(context, component, kind)
        return known

    def price_at(self, context: Context, component: str, kind: Kind, at_ms: int) -> PriceRef | None:
        """The price that applies at one instant."""
        return price_in_force(self.steps(context, component, kind), at_ms)

    def first_difference_ms(self, other: PriceBook) -> int | None:
        """The smallest effective time of a revision that only one of the two books has, or has otherwise."""
        keys = self._events.keys() | other._events.keys()
        return min((key[1] for key in keys if self._events.get(key) != other._events.get(key)), default=None)

    def _compute_steps(self, context: Context, component: str, kind: Kind) -> Steps:
        if self._index is None:
            self._index = SkuIndex(self._revisions)
        candidates = [
            (revisions, [revision.effective_ms for revision in revisions])
            for revisions in self._index.candidates(component, kind, context)
            if any(revision.applies_to(component, kind, context) for revision in revisions)
        ]
        steps: list[tuple[int, PriceRef | None]] = [(BEGINNING_MS, None)]
        for from_ms in sorted({instant for _, instants in candidates for instant in instants}):
            in_force = (
                revisions[bisect_right(instants, from_ms) - 1]
                for revisions, instants in candidates
                if instants[0] <= from_ms
            )
            matching = [r for r in in_force if r.applies_to(component, kind, context)]
            winner = min(matching, key=lambda revision: revision.rank).ref if matching else None
            if winner != steps[-1][1]:
                steps.append((from_ms, winner))
        return tuple(steps)


def price_in_force(steps: Steps, at_ms: int) -> PriceRef | None:
    """The price that `steps` give at `at_ms`."""
    return steps[bisect_right(steps, at_ms, key=_step_from) - 1][1]


def _field(revision: _Revision, at: tuple[int, str]) -> _Field:
    return (revision.ref.component, revision.kind, *at)


def _order(event: PriceEvent) -> tuple[int, str, str]:
    return (event.time_ms, event.source, event.id)


def _step_from(step: tuple[int, PriceRef | None]) -> int:
    return step[0]
