"""The prices of the same GPUs that are in force at an instant, and how far one of them is from the others."""

from __future__ import annotations

from typing import Final

from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.gpu_types import product
from streams.engine.rules.price_jump import PriceJump

#: Spot costs a third of other prices as a matter of course: both are compared with their own.
_SPOT: Final = "spot"
_Kind = tuple[str, bool]


def is_of_gpus(event: PriceEvent) -> bool:
    """Whether it is a price of GPU-time, of one type, that costs something."""
    return (
        event.component is Component.gpu
        and bool(event.match.get("gpu_type"))
        and event.usd_nano > 0
        and (event.per is Per.gpu_hour or (event.per is Per.instance_hour and event.gpus > 0))
    )


def _kind(event: PriceEvent) -> _Kind:
    return product(event.match["gpu_type"]), event.match.get("purchase") == _SPOT


class GpuPrices:
    """By product, spot or not: the two lowest and the two highest prices per GPU, so that one is compared with the others alone."""

    def __init__(self, book: PriceBook, at_ms: int) -> None:
        found: dict[_Kind, list[tuple[int, str]]] = {}
        for event in book.in_force(at_ms):
            if is_of_gpus(event):
                found.setdefault(_kind(event), []).append((event.usd_nano // event.gpus, event.sku))
        for prices in found.values():
            prices.sort()
        self._ends = {kind: (prices[:2], prices[-2:]) for kind, prices in found.items()}

    def jump(self, event: PriceEvent, end_ms: int) -> PriceJump | None:
        """A revision beside the lowest or highest other price, whichever it is beyond; None: it is among the others."""
        if not is_of_gpus(event):
            return None
        low, high = self._ends.get(_kind(event), ([], []))
        lowest = next((each for each in low if each[1] != event.sku), None)
        highest = next((each for each in reversed(high) if each[1] != event.sku), None)
        if lowest is None or highest is None:
            return None
        per_gpu = event.usd_nano // event.gpus
        if lowest[0] <= per_gpu <= highest[0]:
            return None
        nano, sku = highest if per_gpu > highest[0] else lowest
        if not nano:
            return None
        return PriceJump(
            end_ms, event.sku, str(event.per), event.usd_nano, nano * event.gpus,
            is_spot=event.match.get("purchase") == _SPOT, other_sku=sku, gpu_type=event.match["gpu_type"],
        )  # fmt: skip
