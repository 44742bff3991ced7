"""The revisions of one SKU, immutable and shared by price books.

A history knows one SKU; `book` decides which SKU wins.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import Final

from schemas.durations import BEGINNING_MS, NEVER_MS
from schemas.events import MATCH_FIELDS, PriceEvent
from schemas.units import divisor
from streams.engine.pricing.context import GPU_TYPE, LABEL, Context
from streams.engine.pricing.gpu_types import product
from streams.engine.pricing.kinds import UNIT_OF_KIND, Kind, PriceRef, kind_of_price

#: Ties between SKUs with equally many match fields are decided by the presence of these, in this order.
TIE_ORDER: Final = (
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
    "label",
)
_POSITION: Final = {field: position for position, field in enumerate(MATCH_FIELDS)}
#: Limit of cached lookups of an index; contexts come and go.
_LOOK_UPS_AT_MOST: Final = 200_000
#: Revisions that are compared in one step.
_AT_ONCE: Final = 32

#: What a revision matches: component, kind of quantity, (position of a match field in a context, value as in `matching`)...
Form = tuple[str, Kind, tuple[tuple[int, str], ...]]
#: What a price is looked up for.
Asked = tuple[Context, str, Kind]
#: By which one of several prices wins.
Rank = tuple[int, tuple[bool, ...], str]
#: Component, kind of quantity, position of a match field in a context, its value as in `matching`.
_Field = tuple[str, Kind, int, str]


class Revision:
    """One revision of a SKU, prepared for matching."""

    __slots__ = ("effective_ms", "event", "form", "gpu_type", "rank", "ref")

    def __init__(self, event: PriceEvent) -> None:
        self.event = event
        self.gpu_type = event.match.get("gpu_type")  # as it is spelt, None: any
        self.effective_ms: int = event.effective_ms
        self.form: Form = form_of(event)
        self.rank = rank_of(event.sku, event.match)
        self.ref = PriceRef(
            component=event.component,
            unit=UNIT_OF_KIND[self.form[1]],
            sku=event.sku,
            effective_ms=event.effective_ms,
            usd_nano=event.usd_nano,
            divisor=divisor(event.per, event.gpus),
        )


class PriceHistory:
    """All revisions of one SKU, ascending in time."""

    __slots__ = ("forms", "instants", "revisions")

    def __init__(
        self,
        revisions: Sequence[Revision] = (),
        instants: Sequence[int] | None = None,
        forms: frozenset[Form] | None = None,
    ) -> None:
        """`instants` and `forms` are those of the revisions, where they are known."""
        known = [revision.effective_ms for revision in revisions] if instants is None else instants
        self.revisions = tuple(revisions)
        self.instants = tuple(known)
        self.forms = frozenset([revision.form for revision in revisions]) if forms is None else forms

    def with_events(self, events: Iterable[PriceEvent]) -> PriceHistory:
        """A history with these events; of two with one effective time the later one counts.

        Itself if nothing changes.
        """
        revisions, instants = list(self.revisions), list(self.instants)
        changed, forms = False, set(self.forms)
        is_grown = True  # else a form may be gone
        for event in events:
            at = bisect_left(instants, event.effective_ms)
            if at == len(instants) or instants[at] != event.effective_ms:
                instants.insert(at, event.effective_ms)
                revisions.insert(at, Revision(event))
                forms.add(revisions[at].form)
            elif _order(event) > _order(revisions[at].event):
                revisions[at] = Revision(event)
                is_grown = False
            else:
                continue
            changed = True
        if not changed:
            return self
        if is_grown and len(forms) == len(self.forms):
            return PriceHistory(revisions, instants, self.forms)
        return PriceHistory(revisions, instants)

    def grown_from(self, other: PriceHistory) -> list[PriceEvent] | None:
        """The events that turned the other history into this one; None: the other has events that this one lacks."""
        theirs = {revision.effective_ms: revision.event for revision in other.revisions}
        news: list[PriceEvent] = []
        for revision in self.revisions:
            event, before = revision.event, theirs.pop(revision.effective_ms, None)
            if before is not None and before != event and _order(event) <= _order(before):
                return None
            if before != event:
                news.append(event)
        return None if theirs else news

    def in_force(self, at_ms: int) -> Revision | None:
        """The revision in force at an instant."""
        at = bisect_right(self.instants, at_ms)
        return self.revisions[at - 1] if at else None

    def between(self, from_ms: int, until_ms: int) -> tuple[int, ...]:
        """The instants in (from_ms, until_ms) at which a revision takes effect."""
        return self.instants[bisect_right(self.instants, from_ms) : bisect_left(self.instants, until_ms)]

    def within(self, from_ms: int, until_ms: int) -> tuple[Revision, ...]:
        """The revisions that are in force at any instant of [from_ms, until_ms)."""
        first = max(bisect_right(self.instants, from_ms) - 1, 0)
        return self.revisions[first : bisect_left(self.instants, until_ms)]

    def around(self, at_ms: int) -> tuple[int, int]:
        """[from, until) around an instant in which the same revision, or none, is in force."""
        at = bisect_right(self.instants, at_ms)
        from_ms = self.instants[at - 1] if at else BEGINNING_MS
        return from_ms, self.instants[at] if at < len(self.instants) else NEVER_MS

    def changed_spans(self, other: PriceHistory) -> list[tuple[int, int]]:
        """The times [from, until) in which the two have other revisions in force; they may touch and overlap."""
        mine, theirs = self.revisions, other.revisions
        most, first = min(len(mine), len(theirs)), 0
        while first + _AT_ONCE <= most and mine[first : first + _AT_ONCE] == theirs[first : first + _AT_ONCE]:
            first += _AT_ONCE  # nearly all: a history grows at its end, and has thousands of revisions
        while first < most and mine[first] is theirs[first]:
            first += 1
        left = most - first
        behind = 0
        while behind < left and mine[-1 - behind] is theirs[-1 - behind]:
            behind += 1
        mine, theirs = mine[first : len(mine) - behind], theirs[first : len(theirs) - behind]
        known = {revision.effective_ms: revision.event for revision in theirs}
        spans = [
            self.around(revision.effective_ms)
            for revision in mine
            if known.pop(revision.effective_ms, None) != revision.event
        ]
        spans += [other.around(effective_ms) for effective_ms in known]
        return spans


class SkuIndex:
    """SKUs by what their revisions match: each form is indexed by the rarest of its match fields.

    Shared by all related books and append-only: a SKU or form that a book lacks costs it only a lookup.
    """

    def __init__(self) -> None:
        self._asked: Counter[_Field] = Counter()
        self._by_field: dict[_Field, set[tuple[str, Form]]] = {}
        self._unmatched: dict[tuple[str, Kind], set[str]] = {}  # forms that match all contexts
        self._forms: dict[str, list[Form]] = {}  # by SKU
        self._found: dict[Asked, tuple[str, ...]] = {}
        self._leaders: dict[Asked, str | None] = {}

    def add(self, sku: str, forms: Iterable[Form]) -> None:
        """Index the forms of a SKU."""
        known = self._forms.setdefault(sku, [])
        new = [form for form in forms if form not in known]
        for form in new:
            component, kind, match = form
            fields = [(component, kind, *at) for at in match]
            self._asked.update(fields)
            if fields:
                rarest = min(fields, key=self._asked.__getitem__)
                self._by_field.setdefault(rarest, set()).add((sku, form))
            else:
                self._unmatched.setdefault((component, kind), set()).add(sku)
            known.append(form)
        if new:
            self._found, self._leaders = {}, {}  # replaced, never cleared: other threads may be reading

    def forms_of(self, sku: str) -> Sequence[Form]:
        """The forms of a SKU in any book."""
        return self._forms.get(sku, ())

    def candidates(self, asked: Asked) -> tuple[str, ...]:
        """The SKUs of which a revision may apply."""
        remembered = self._found
        found = remembered.get(asked)
        if found is None:
            context, component, kind = asked
            skus = set(self._unmatched.get((component, kind), ()))
            for position, value in enumerate(context):
                if value is not None:
                    field = (component, kind, *matching(position, value))
                    some = tuple(self._by_field.get(field, ()))
                    skus.update(sku for sku, form in some if applies_to(form, asked))
            found = tuple(sorted(skus))
            if len(remembered) < _LOOK_UPS_AT_MOST:
                remembered[asked] = found
            else:
                self._found = {asked: found}
        return found

    def leader(self, asked: Asked) -> str | None:
        """The SKU that wins wherever it is in force, if no SKU ever changed what it matches; else None."""
        remembered = self._leaders
        if asked not in remembered:
            skus = self.candidates(asked)
            is_fixed = all(len(self._forms[sku]) == 1 for sku in skus)
            first = min(skus, key=self._rank, default=None) if is_fixed else None
            if len(remembered) >= _LOOK_UPS_AT_MOST:
                remembered = self._leaders = {}
            remembered[asked] = first
        return remembered[asked]

    def _rank(self, sku: str) -> Rank:
        match = self._forms[sku][0][2]
        return rank_of(sku, {MATCH_FIELDS[at] for at, _ in match})


def form_of(event: PriceEvent) -> Form:
    """What a revision matches."""
    match = tuple(matching(_POSITION[field], value) for field, value in event.match.items())
    return str(event.component), kind_of_price(event.per, event.gpus), match


def rank_of(sku: str, match: Collection[str]) -> Rank:
    """The place of a SKU that matches these fields among those that apply: the least wins."""
    return -len(match), tuple(field not in match for field in TIE_ORDER), sku


def matching(position: int, value: str) -> tuple[int, str]:
    """A match field of a context in the form in which it is compared: equal for all names of one GPU type."""
    return (position, product(value)) if position == GPU_TYPE else (position, value)


def labels_named(forms: Iterable[Form]) -> frozenset[str]:
    """The labels that prices of these forms are for."""
    return frozenset([value for _, _, match in forms for at, value in match if at == LABEL])


def applies_to(form: Form, asked: Asked) -> bool:
    """Whether a price of this form has this component and kind, and all its match fields match."""
    component, kind, match = form
    context = asked[0]
    return (
        component == asked[1]
        and kind == asked[2]
        and all((has := context[at]) is not None and matching(at, has)[1] == value for at, value in match)
    )


def best(revisions: Sequence[Revision], gpu_type: str | None) -> Revision | None:
    """The one that wins of revisions that apply to usage of this GPU type; None: none, or it would be a guess.

    A price for the very name wins over those for other names of the product. Two prices for other names that differ
    are not chosen between.
    """
    if any(revision.gpu_type == gpu_type is not None for revision in revisions):
        revisions = [revision for revision in revisions if revision.gpu_type in (None, gpu_type)]
    winner = min(revisions, key=_rank, default=None)
    if winner is None or winner.gpu_type in (None, gpu_type):
        return winner
    rivals = {
        revision.gpu_type: revision.ref
        for revision in sorted(revisions, key=_rank, reverse=True)  # of each name the best stays
        if revision.rank[:2] == winner.rank[:2]
    }
    is_same = all(
        ref.usd_nano * winner.ref.divisor == winner.ref.usd_nano * ref.divisor for ref in rivals.values()
    )
    return winner if is_same else None


def _rank(revision: Revision) -> Rank:
    return revision.rank


def _order(event: PriceEvent) -> tuple[int, str, str]:
    return (event.time_ms, event.source, event.id)
