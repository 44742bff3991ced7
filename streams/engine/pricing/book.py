"""The price book: which SKU and revision applies to a context at an instant (docs/cost_model.md).

Immutable, so that threads can share a book. A newer book shares everything unchanged with the one before, so building
it costs only what is new. It reads no topic and stores nothing.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import Final

from schemas.durations import BEGINNING_MS, NEVER_MS
from schemas.events import PriceEvent
from streams.engine.pricing.context import GPU_TYPE, Context, Labels, Payer, labels_of
from streams.engine.pricing.history import (
    Asked,
    Form,
    PriceHistory,
    SkuIndex,
    applies_to,
    best,
    form_of,
    labels_named,
)
from streams.engine.pricing.kinds import Kind, PriceRef

#: A step function of time: from `from_ms` on (until the next step) this price applies; None = no price.
Steps = tuple[tuple[int, PriceRef | None], ...]

#: A result with at most this many revisions is computed for all time, and cached; others only for the requested time.
_FEW: Final = 8
#: Limit of cached results per book.
_ANSWERS_AT_MOST: Final = 200_000
_NOTHING: Final = PriceHistory()
_UNPRICED: Final[Steps] = ((BEGINNING_MS, None),)


class PriceBook:
    """All known price revisions; `steps` returns what applies when."""

    __slots__ = ("_answers", "_before", "_grown", "_histories", "_index", "_token", "labels")

    def __init__(
        self, histories: dict[str, PriceHistory], index: SkuIndex, before: PriceBook | None = None
    ) -> None:
        """`before`: the book that it was derived from."""
        self._histories = histories
        self._index = index
        self._answers: dict[Asked, Steps] = {}
        self._token = object()  # identifies the book; a reference to it would retain all books before it
        self._before = None if before is None else before._token  # noqa: SLF001 - the same class
        self._grown: tuple[str, ...] = ()
        #: The labels that any revision names, or one that was replaced.
        self.labels: frozenset[str] = frozenset() if before is None else before.labels

    @classmethod
    def empty(cls) -> PriceBook:
        """A book without prices: everything is unpriced."""
        return cls({}, SkuIndex())

    @property
    def events(self) -> list[PriceEvent]:
        """The current revisions, by (sku, effective_ms)."""
        return [
            revision.event for _, history in sorted(self._histories.items()) for revision in history.revisions
        ]

    def __len__(self) -> int:
        return sum(len(history.revisions) for history in self._histories.values())

    @property
    def weight(self) -> int:
        """Return about how many words of memory it shares with no book before it."""
        grown = (self._histories[sku] for sku in self._grown or self._histories)
        return 12 * len(self._histories) + 2 * sum(len(history.revisions) for history in grown)

    def is_current(self, event: PriceEvent) -> bool:
        """Whether the event is the known revision of its (sku, effective_ms)."""
        revision = self._histories.get(event.sku, _NOTHING).in_force(event.effective_ms)
        return revision is not None and revision.event == event

    def revision(self, sku: str, at_ms: int) -> PriceEvent | None:
        """The revision of a SKU that is in force at an instant."""
        revision = self._histories.get(sku, _NOTHING).in_force(at_ms)
        return None if revision is None else revision.event

    def in_force(self, at_ms: int) -> Iterator[PriceEvent]:
        """Yield the revision of each SKU that is in force at an instant; what it costs grows with the SKUs, not their revisions."""
        for history in self._histories.values():
            revision = history.in_force(at_ms)
            if revision is not None:
                yield revision.event

    def with_events(self, events: Iterable[PriceEvent]) -> PriceBook:
        """A book that includes `events`; of two with one (sku, effective_ms) the later one counts.

        Returns this same book if nothing changes, so that callers may compare by identity.
        """
        by_sku: dict[str, list[PriceEvent]] = {}
        for event in events:
            by_sku.setdefault(event.sku, []).append(event)
        changed: dict[str, PriceHistory] = {}
        for sku, of_sku in by_sku.items():
            history = self._histories.get(sku, _NOTHING)
            later = history.with_events(of_sku)
            if later is not history:
                changed[sku] = later
                self._index.add(sku, later.forms - history.forms)
        if not changed:
            return self
        book = PriceBook(self._histories | changed, self._index, before=self)
        book._grown = tuple(changed)
        book.labels |= labels_named(form for history in changed.values() for form in history.forms)
        return book

    def forms_with(self, event: PriceEvent) -> frozenset[Form]:
        """What the revisions of a SKU match, or matched before they were replaced, if this one is added."""
        return frozenset((*self._index.forms_of(event.sku), form_of(event)))

    def of_job(self, team: str | None, project: str | None, labels: Labels) -> Payer:
        """What prices can match of a job, with the labels that any price names."""
        named = () if not self.labels else tuple(each for each in labels_of(labels) if each in self.labels)
        return Payer(team, project, named)

    def steps(
        self,
        context: Context,
        component: str,
        kind: Kind,
        from_ms: int = BEGINNING_MS,
        until_ms: int = NEVER_MS,
    ) -> Steps:
        """The price of `component` for this kind of quantity, as steps ascending in time.

        They cover at least [from_ms, until_ms); the first begins at `from_ms` or before.
        """
        asked = (context, component, kind)
        known = self._answers.get(asked)
        if known is not None:
            return known
        histories = self._relevant(asked)
        if sum(len(history.revisions) for history in histories) > _FEW:
            winner = self.winner(context, component, kind, from_ms, until_ms)
            if winner is not None:
                return steps_of_one(winner, from_ms, until_ms)
            return _steps(asked, histories, from_ms, until_ms)
        found = _steps(asked, histories, BEGINNING_MS, NEVER_MS) if histories else _UNPRICED
        if len(self._answers) > _ANSWERS_AT_MOST:
            self._answers = {}
        self._answers[asked] = found
        return found

    def winner(
        self, context: Context, component: str, kind: Kind, from_ms: int, until_ms: int
    ) -> PriceHistory | None:
        """The history that alone determines this price in all of [from, until); None: several do, or that is unknown."""
        leader = self._index.leader((context, component, kind))
        found = None if leader is None else self._histories.get(leader)
        if found is None or found.instants[0] > from_ms:
            return None
        if found.revisions[0].gpu_type is None:
            return found  # its match never changes
        names = (None, context[GPU_TYPE])
        return found if all(each.gpu_type in names for each in found.within(from_ms, until_ms)) else None

    def price_at(self, context: Context, component: str, kind: Kind, at_ms: int) -> PriceRef | None:
        """The price that applies at one instant."""
        return price_in_force(self.steps(context, component, kind, at_ms, at_ms + 1), at_ms)

    def stretch(
        self, context: Context, component: str, kind: Kind, at_ms: int
    ) -> tuple[int, int, PriceRef | None]:
        """A time [from, until) around an instant, and the price throughout it; the price may apply longer."""
        from_ms, until_ms = BEGINNING_MS, NEVER_MS
        for history in self._relevant((context, component, kind)):
            since_ms, to_ms = history.around(at_ms)
            from_ms, until_ms = max(from_ms, since_ms), min(until_ms, to_ms)
        return from_ms, until_ms, self.price_at(context, component, kind, at_ms)

    def sources(self, context: Context, component: str, kind: Kind) -> tuple[PriceHistory, ...]:
        """Everything that determines this price: equal for two related books if the price is the same at all times."""
        return tuple(self._relevant((context, component, kind)))

    def _relevant(self, asked: Asked) -> list[PriceHistory]:
        histories = self._histories
        return [histories[sku] for sku in self._index.candidates(asked) if sku in histories]

    # -- two books -----------------------------------------------------------------------------------------

    def differing(self, other: PriceBook) -> Iterator[tuple[str, list[tuple[int, int]], frozenset[Form]]]:
        """Yield SKUs whose revisions in force differ from the other book: (sku, times, forms).

        Each time is [from, until); they may touch and overlap.
        """
        if self._before is other._token:
            skus: Iterable[str] = self._grown
        else:
            skus = {**self._histories, **other._histories}  # in an order that is the same in any process
        for sku in skus:
            mine, theirs = self._histories.get(sku, _NOTHING), other._histories.get(sku, _NOTHING)
            if mine is not theirs and (spans := mine.changed_spans(theirs)):
                yield sku, spans, mine.forms | theirs.forms

    def grown_from(self, other: PriceBook) -> list[PriceEvent] | None:
        """The events that turned the other book into this one; None: the other has events that this one lacks."""
        news: list[PriceEvent] = []
        for sku, _, _ in self.differing(other):
            fresh = self._histories.get(sku, _NOTHING).grown_from(other._histories.get(sku, _NOTHING))
            if fresh is None:
                return None
            news += fresh
        return news

    def candidates(self, context: Context, component: str, kind: Kind) -> tuple[str, ...]:
        """The SKUs that may determine this price; SKUs of related books may be among them."""
        return self._index.candidates((context, component, kind))


def price_in_force(steps: Steps, at_ms: int) -> PriceRef | None:
    """The price that `steps` have at `at_ms`."""
    return steps[bisect_right(steps, at_ms, key=_step_from) - 1][1]


def clipped(steps: Steps, from_ms: int, until_ms: int) -> Steps:
    """The steps clipped to [from_ms, until_ms)."""
    first = bisect_right(steps, from_ms, key=_step_from) - 1
    inside = [step for step in steps[first + 1 :] if step[0] < until_ms]
    return ((from_ms, steps[first][1]), *inside)


def _steps(asked: Asked, histories: list[PriceHistory], from_ms: int, until_ms: int) -> Steps:
    """The best SKU at each instant at which a revision takes effect."""
    if len(histories) == 1 and histories[0].forms == {histories[0].revisions[0].form}:
        # A candidate may match by a form that only another book has.
        applies = applies_to(histories[0].revisions[0].form, asked)
        return steps_of_one(histories[0], from_ms, until_ms) if applies else ((from_ms, None),)
    steps: list[tuple[int, PriceRef | None]] = []
    for at_ms in (
        from_ms,
        *sorted({ms for history in histories for ms in history.between(from_ms, until_ms)}),
    ):
        in_force = (history.in_force(at_ms) for history in histories)
        matching = [
            revision for revision in in_force if revision is not None and applies_to(revision.form, asked)
        ]
        winner = best(matching, asked[0][GPU_TYPE])
        price = None if winner is None else winner.ref
        if not steps or price != steps[-1][1]:
            steps.append((at_ms, price))
    return tuple(steps)


def steps_of_one(history: PriceHistory, from_ms: int, until_ms: int) -> Steps:
    """The steps of the usual case: one SKU whose match fields never change."""
    steps = [(max(each.effective_ms, from_ms), each.ref) for each in history.within(from_ms, until_ms)]
    return (*steps,) if steps and steps[0][0] == from_ms else ((from_ms, None), *steps)


def _step_from(step: tuple[int, PriceRef | None]) -> int:
    return step[0]
