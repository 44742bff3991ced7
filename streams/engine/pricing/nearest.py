"""Finds the price of GPU-time that comes nearest to usage which has none.

It looks nothing up beyond the book that is handed in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from schemas.events import MATCH_FIELDS, Component, PriceEvent
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Context
from streams.engine.pricing.history import matching


class Nearest(NamedTuple):
    """A price, the match fields in which the usage differs from it, and whether it begins after the usage."""

    event: PriceEvent
    fields: tuple[str, ...]
    is_later: bool


def nearest(book: PriceBook, context: Context, at_ms: int) -> Nearest | None:
    """The price of GPU-time that lacks least to apply to this usage at an instant; None: the book has none."""
    values = dict(zip(MATCH_FIELDS, context, strict=True))
    best: tuple[tuple[int, bool, int, str, int], Nearest] | None = None
    for event in book.events:
        if event.component is Component.gpu:
            fields = tuple(name for name, value in event.match.items() if not is_met(name, value, values))
            is_later = event.effective_ms > at_ms
            rank = (len(fields) + is_later, is_later, -len(event.match), event.sku, -event.effective_ms)
            if best is None or rank < best[0]:
                best = rank, Nearest(event, fields, is_later)
    return None if best is None else best[1]


def is_met(name: str, value: str, values: Mapping[str, str | None]) -> bool:
    """Whether usage with these fields has what a price asks for in one field."""
    at, has = MATCH_FIELDS.index(name), values[name]
    return has is not None and matching(at, has) == matching(at, value)
