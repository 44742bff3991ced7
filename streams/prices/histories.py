"""Revisions of prices by SKU, with the span in which each holds."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable
from decimal import Decimal
from typing import Final, NamedTuple

from schemas.events import Component, PriceEvent
from schemas.units import divisor
from streams.engine.pricing.kinds import Kind, kind_of_price

FOREVER_MS: Final = 2**63 - 1


class Quantity(NamedTuple):
    """What a price multiplies; prices of one quantity compete."""

    component: Component
    kind: Kind


class RevisionSpan(NamedTuple):
    """A revision of a price, and the ms in which it holds: from `effective_ms` up to, not including, `until_ms`."""

    event: PriceEvent
    until_ms: int
    line: int  # of the list that is loaded; 0: known before

    @property
    def quantity(self) -> Quantity:
        """What the price multiplies."""
        return Quantity(self.event.component, kind_of_price(self.event.per, self.event.gpus))

    @property
    def unit_price(self) -> Decimal:
        """Nano-dollars for one unit of the quantity, to compare prices per different amounts."""
        return Decimal(self.event.usd_nano) / divisor(self.event.per, self.event.gpus)


def histories(known: Iterable[tuple[int, PriceEvent]]) -> dict[str, list[RevisionSpan]]:
    """The revisions of each SKU by time; of two from one instant the later by (`time_ms`, `source`, `id`) stands.

    `known` has the line of each, 0 for none.
    """
    standing: dict[str, dict[int, tuple[int, PriceEvent]]] = defaultdict(dict)
    for line, event in known:
        before = standing[event.sku].get(event.effective_ms)
        if before is None or _order(event) >= _order(before[1]):
            standing[event.sku][event.effective_ms] = (line, event)
    found = {}
    for sku in sorted(standing):
        instants = sorted(standing[sku])
        ends = [*instants[1:], FOREVER_MS]
        found[sku] = [
            RevisionSpan(standing[sku][at][1], end, standing[sku][at][0])
            for at, end in zip(instants, ends, strict=True)
        ]
    return found


def in_force(revisions: list[RevisionSpan], at_ms: int) -> RevisionSpan | None:
    """The revision that holds at an instant; None before the first."""
    at = bisect_right(revisions, at_ms, key=lambda each: each.event.effective_ms)
    return revisions[at - 1] if at else None


def holding(revisions: list[RevisionSpan], from_ms: int, until_ms: int) -> list[RevisionSpan]:
    """The revisions that hold at some instant from `from_ms` up to, not including, `until_ms`."""
    first = max(bisect_right(revisions, from_ms, key=lambda each: each.event.effective_ms) - 1, 0)
    end = bisect_left(revisions, until_ms, key=lambda each: each.event.effective_ms)
    return revisions[first:end]


def _order(event: PriceEvent) -> tuple[int, str, str]:
    return (event.time_ms, event.source, event.id)
