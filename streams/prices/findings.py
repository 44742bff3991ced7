"""What is odd about a price list before it is loaded: free, jumps, spot above on-demand, gaps, prices never applied.

A finding is for people to judge, and refuses nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Final, NamedTuple

from schemas.events import Component, PriceEvent
from schemas.units import per_text
from streams.engine.pricing.gpu_types import product
from streams.prices.histories import Quantity, RevisionSpan, histories, holding
from streams.prices.instants import begins, since

JUMP_RATIO: Final = 3
"""A price that changes by more than this factor is reported, as the alert `price_jump` does."""

_NAMED: Final = 3
#: Of SKUs for the same usage so many are compared with another price; the smallest names, of which the first is applied.
_RIVALS_MAX: Final = 32
#: 0 is an ordinary price there: what comes in, or stays in a zone, is free at most clouds.
_OFTEN_FREE: Final = (Component.network, Component.storage)
_Match = frozenset[tuple[str, str]]


class Finding(NamedTuple):
    """One oddity. `line` is that of the list, 0 if the price was known before."""

    kind: str
    sku: str
    line: int
    text: str

    def __str__(self) -> str:
        where = f" (line {self.line})" if self.line else ""
        return f"{self.kind}: sku {self.sku}{where}: {self.text}"


def findings(loaded: Sequence[tuple[int, PriceEvent]], known: Iterable[PriceEvent] = ()) -> list[Finding]:
    """What is odd about prices to load, by line; `known` are those of the store.

    Prices that were known before are not reported themselves.
    """
    before = histories((0, event) for event in known)
    after = histories([*((0, each.event) for own in before.values() for each in own), *loaded])
    new = [each for own in after.values() for each in own if each.line]
    lookup = _Lookup(after)
    found = [
        *_free(new),
        *_jumps(before, after),
        *_spot_above(after, lookup),
        *_begins_late(new, after, lookup),
        *_not_everywhere(new, after),
        *_never_applied(after),
    ]
    return sorted(set(found), key=lambda each: (each.line, each.kind, each.sku, each.text))


def _free(new: list[RevisionSpan]) -> Iterator[Finding]:
    for revision in new:
        event = revision.event
        if event.usd_nano == 0 and event.component not in _OFTEN_FREE:
            yield _of(
                "price 0", revision,
                "what it matches costs nothing; if the price is only unknown, remove the line: "
                "such usage is then reported as unpriced",
            )  # fmt: skip


def _jumps(before: dict[str, list[RevisionSpan]], after: dict[str, list[RevisionSpan]]) -> Iterator[Finding]:
    for sku, revisions in after.items():
        replaced = {each.event.effective_ms: each for each in before.get(sku, ())}
        previous: RevisionSpan | None = None
        for revision in revisions:
            old = replaced.get(revision.event.effective_ms) if revision.line else None
            for other, how in ((previous, "before it"), (old, "that it replaces")):
                if other is not None and (revision.line or other.line) and _jumped(other, revision):
                    reported = revision if revision.line else other
                    yield _of(
                        "jump", reported,
                        f"{_price(other)} {how} becomes {_price(revision)} {begins(revision.event.effective_ms)}, "
                        f"more than a factor of {JUMP_RATIO}; check the decimal point, `per` and `gpus`",
                    )  # fmt: skip
            previous = revision


def _jumped(old: RevisionSpan, new: RevisionSpan) -> bool:
    if old.quantity != new.quantity or new.event.usd_nano == 0:
        return False  # 0 has a finding of its own
    low, high = sorted((old.unit_price, new.unit_price))
    return high > low * JUMP_RATIO


def _spot_above(after: dict[str, list[RevisionSpan]], lookup: _Lookup) -> Iterator[Finding]:
    for spot in chain.from_iterable(after.values()):
        dear = lookup.cheaper_on_demand(spot) if spot.event.match.get("purchase") == "spot" else None
        if dear is not None and (spot.line or dear.line):
            yield _of(
                "spot above on-demand", spot if spot.line else dear,
                f"spot {_price(spot)} (sku {spot.event.sku}) is above {_price(dear)} on demand (sku {dear.event.sku}) "
                f"{begins(max(spot.event.effective_ms, dear.event.effective_ms))}; check both, or buy on demand there",
            )  # fmt: skip


def _begins_late(
    new: list[RevisionSpan], after: dict[str, list[RevisionSpan]], lookup: _Lookup
) -> Iterator[Finding]:
    """Find usage without a price in a time for which others of its quantity have one already."""
    first: dict[Quantity, int] = {}
    for revisions in after.values():
        for each in revisions[:1]:
            first[each.quantity] = min(
                first.get(each.quantity, each.event.effective_ms), each.event.effective_ms
            )
    for revision in new:
        event = revision.event
        begin = first.get(revision.quantity, event.effective_ms)
        if after[event.sku][0] is revision and event.effective_ms > begin:
            covered = lookup.covered_from(revision)
            if covered >= event.effective_ms:
                yield _of(
                    "gap", revision,
                    f"nothing prices {_for(event)} before {since(event.effective_ms)}, though other prices of "
                    f"{event.component} hold {begins(begin)}; if there was such usage, add a revision from then",
                )  # fmt: skip


def _not_everywhere(new: list[RevisionSpan], after: dict[str, list[RevisionSpan]]) -> Iterator[Finding]:
    """Find types of GPU that have prices for some purchases or regions only, while others exist."""
    current = [own[-1] for own in after.values() if own[-1].event.component == Component.gpu]
    everything = [each.event.match for each in current]
    fresh: dict[str, RevisionSpan] = {}
    for each in new:
        if each.event.component == Component.gpu and "gpu_type" in each.event.match:
            fresh.setdefault(each.event.match["gpu_type"], each)
    by_type: dict[str | None, list[dict[str, str]]] = defaultdict(list)
    for match in everything:
        by_type[product(match["gpu_type"]) if "gpu_type" in match else None].append(match)
    values = {
        field: sorted({match[field] for match in everything if field in match})
        for field in ("purchase", "region")
    }
    for gpu_type, revision in fresh.items():
        able = [*by_type[product(gpu_type)], *by_type[None]]
        for field in ("purchase", "region"):
            named = {match.get(field) for match in able}
            if None not in named and len(named) == 1 and len(values[field]) > 1:
                yield _of(
                    "gap", revision,
                    f"gpu_type {gpu_type} has a price for {field} {min(filter(None, named))} only, while others of this book have "
                    f"{_others(values[field], named)}; there it is unpriced: add prices, or one without {field}",
                )  # fmt: skip


def _never_applied(after: dict[str, list[RevisionSpan]]) -> Iterator[Finding]:
    """Find SKUs with equal match fields for one quantity: while both hold, only the smaller name is applied."""
    groups: dict[tuple[Quantity, _Match], dict[str, list[RevisionSpan]]] = defaultdict(dict)
    for sku, revisions in after.items():
        for each in revisions:
            groups[each.quantity, _match(each)].setdefault(sku, []).append(each)
    for rivals in groups.values():
        if len(rivals) < 2:
            continue
        winner, *losers = sorted(rivals)
        for loser in losers:
            both = _together(rivals[winner], rivals[loser])
            if both is not None and (both[0].line or both[1].line):
                first, other = both
                if first.event.match != other.event.match:
                    if first.unit_price != other.unit_price:
                        yield _two_names(first, other)
                    continue
                yield _of(
                    "overlap", other if other.line else first,
                    f"{winner} and {loser} are both for {_for(other.event)}; "
                    f"{begins(max(first.event.effective_ms, other.event.effective_ms))} only {winner}, the smaller name, "
                    "is applied; remove one, or name another match field",
                )  # fmt: skip


def _two_names(first: RevisionSpan, other: RevisionSpan) -> Finding:
    names = f"{first.event.match['gpu_type']} and {other.event.match['gpu_type']}"
    return _of(
        "overlap", other if other.line else first,
        f"{first.event.sku} and {other.event.sku} name one type of GPU: {names}; they differ, so that usage by any other of "
        "its names is unpriced; give both the same price, or remove one",
    )  # fmt: skip


def _together(
    winner: list[RevisionSpan], loser: list[RevisionSpan]
) -> tuple[RevisionSpan, RevisionSpan] | None:
    """The first two revisions that hold at one time."""
    for other in loser:
        for first in holding(winner, other.event.effective_ms, other.until_ms)[:1]:
            if first.until_ms > other.event.effective_ms:
                return first, other
    return None


class _Lookup:
    """Finds the prices that would hold for the usage of another price."""

    def __init__(self, after: dict[str, list[RevisionSpan]]) -> None:
        self._after = after
        self._shapes: dict[Quantity, set[tuple[str, ...]]] = defaultdict(set)
        self._skus: dict[tuple[Quantity, _Match], list[str]] = defaultdict(list)
        for sku in sorted(after):
            for each in after[sku]:
                self._shapes[each.quantity].add(tuple(sorted(each.event.match)))
                skus = self._skus[each.quantity, _match(each)]
                if len(skus) < _RIVALS_MAX and skus[-1:] != [sku]:
                    skus.append(sku)

    def cheaper_on_demand(self, spot: RevisionSpan) -> RevisionSpan | None:
        """The on-demand price for the usage of a spot price if it is lower while both hold."""
        place = {name: value for name, value in spot.event.match.items() if name != "purchase"}
        found: list[tuple[int, RevisionSpan]] = []
        for on_demand in ({**place, "purchase": "on_demand"}, place):
            for sku, size in self._matching(spot.quantity, on_demand):
                found += [
                    (size, each)
                    for each in holding(self._after[sku], spot.event.effective_ms, spot.until_ms)
                    if each.quantity == spot.quantity and each.until_ms > spot.event.effective_ms
                ]
        closest = max((size for size, _ in found), default=0)
        dearer = [each for size, each in found if size == closest and spot.unit_price > each.unit_price]
        return min(dearer, key=lambda each: (each.unit_price, each.event.sku), default=None)

    def covered_from(self, revision: RevisionSpan) -> int:
        """The ms from which another SKU prices all that a price matches."""
        others = [
            self._after[sku][0].event.effective_ms
            for sku, _ in self._matching(revision.quantity, revision.event.match)
            if sku != revision.event.sku
        ]
        return min(others, default=revision.event.effective_ms)

    def _matching(self, quantity: Quantity, usage: dict[str, str]) -> Iterator[tuple[str, int]]:
        for shape in self._shapes[quantity]:
            if all(name in usage for name in shape):
                match = _compared({name: usage[name] for name in shape})
                for sku in self._skus.get((quantity, match), ()):
                    yield sku, len(shape)


def _match(revision: RevisionSpan) -> _Match:
    return _compared(revision.event.match)


def _compared(match: dict[str, str]) -> _Match:
    """Match fields as they are compared: GPU types by product."""
    return frozenset((name, product(value) if name == "gpu_type" else value) for name, value in match.items())


def _of(kind: str, revision: RevisionSpan, text: str) -> Finding:
    return Finding(kind, revision.event.sku, revision.line, text)


def _price(revision: RevisionSpan) -> str:
    event = revision.event
    usd = f"{Decimal(event.usd_nano).scaleb(-9).normalize():f}"
    return f"${usd} per {per_text(event.per, event.gpus)}"


def _for(event: PriceEvent) -> str:
    what = ", ".join(f"{name}={value}" for name, value in sorted(event.match.items()))
    return f"{event.component} of {what}" if what else f"all {event.component}"


def _others(every: list[str], but: set[str | None]) -> str:
    """The first of the values, without the one that is excepted, and how many more there are."""
    named = [value for value in every[: _NAMED + 1] if value not in but][:_NAMED]
    more = len(every) - 1 - len(named)
    return ", ".join(named) + (f" and {more} more" if more else "")
