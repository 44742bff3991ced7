"""What the prices of a book are at an instant: since when, for what, and what comes next."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from schemas.events import PriceEvent
from streams.prices.histories import FOREVER_MS, histories, in_force


class Standing(NamedTuple):
    """One SKU at an instant. `now` is None before its first revision, `then` after its last."""

    sku: str
    now: PriceEvent | None
    then: PriceEvent | None

    @property
    def latest(self) -> PriceEvent:
        """The revision that holds, else the first one to come."""
        found = self.now or self.then
        assert found is not None
        return found


def standing(events: Iterable[PriceEvent], at_ms: int) -> Iterator[Standing]:
    """Yield each SKU of a book, by name."""
    for sku, revisions in histories((0, event) for event in events).items():
        now = in_force(revisions, at_ms)
        if now is None:
            yield Standing(sku, None, revisions[0].event)
        elif now.until_ms == FOREVER_MS:
            yield Standing(sku, now.event, None)
        else:
            following = in_force(revisions, now.until_ms)
            yield Standing(sku, now.event, following.event if following else None)
