"""The rule `missing_price`: one alert for each price that is missing, however many jobs lack it.

What has no price is handed in by five minutes, and the prices that were known then. It reads nothing.
"""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.events import MATCH_FIELDS, PriceEvent
from schemas.units import NANO_PER_USD
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import GPU_TYPE, Context
from streams.engine.pricing.gpu_types import product
from streams.engine.pricing.nearest import Nearest, nearest

EVERY_MS: Final = 300_000
#: It holds while something of so much time has no price.
WINDOW_MS: Final = 24 * 3_600_000
GPU_KIND: Final = "gpu_type"
TRAFFIC_KIND: Final = "traffic"
_GPU: Final = "gpu"
#: What a price of each unit of traffic is per.
_PER: Final = {"bytes": "gib", "requests": "thousand_requests", "mib_ms": "gib_month"}
#: Values that may stand in a command for a shell; jobs name them.
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._:/+-]{0,47}")
_NOT_IN_SKU: Final = re.compile(r"[^a-z0-9]+")


class UnpricedUsage(NamedTuple):
    """What may be priced alike: GPU-time of one context, or traffic of a component in one unit."""

    component: str
    unit: str
    context: Context


class MissingPrice(NamedTuple):
    """The price that is missing: what an alert is about.

    `fields`: what keeps the nearest price from applying; `effective`: it begins later.
    """

    kind: str
    name: str
    fields: tuple[str, ...] = ()

    @property
    def subject(self) -> str:
        """Return the name of the alert's subject."""
        return " ".join([self.name, "+".join(self.fields)]).strip()


class PriceMend(NamedTuple):
    """A price list of one line that ends it, and the command that loads it; `usd` is empty where nobody knows it."""

    header: str
    line: str
    usd: str

    @property
    def command(self) -> str:
        """Return the command for a shell."""
        text = shlex.quote(f"{self.header}\\n{self.line}\\n")
        return f"printf {text} > price.csv && trainfare prices load price.csv"


class UnpricedTimes:
    """When usage had no price: five minutes by their beginnings, ascending."""

    def __init__(self, five_minutes: Mapping[UnpricedUsage, Sequence[int]]) -> None:
        self._found = {usage: sorted(begins) for usage, begins in five_minutes.items()}

    @property
    def is_empty(self) -> bool:
        """Return whether everything had a price."""
        return not self._found

    def at(self, at_ms: int) -> list[tuple[UnpricedUsage, int]]:
        """Return what had no price in the window before an instant, and the first such five minutes of each."""
        found: list[tuple[UnpricedUsage, int]] = []
        for usage, begins in self._found.items():
            place = bisect_left(begins, at_ms - WINDOW_MS)
            if place < len(begins) and begins[place] < at_ms:
                found.append((usage, begins[place]))
        return found


class MissingPriceFinder:
    """Finds which price is missing, by one book; remembers what it found, as nothing else determines it."""

    def __init__(self, book: PriceBook) -> None:
        self.book = book
        self._nearest: dict[tuple[Context, int], Nearest | None] = {}

    def nearest(self, usage: UnpricedUsage, first_ms: int) -> Nearest | None:
        """Return the nearest price of GPU-time."""
        asked = usage.context, first_ms
        if asked not in self._nearest:
            self._nearest[asked] = nearest(self.book, *asked)
        return self._nearest[asked]

    def missing(self, usage: UnpricedUsage, first_ms: int) -> MissingPrice:
        """Return which price is missing for usage that had none from `first_ms` on."""
        if usage.component != _GPU:
            return MissingPrice(TRAFFIC_KIND, f"{usage.component} {usage.unit}")
        gpu_type = usage.context[GPU_TYPE]
        name = product(gpu_type) if gpu_type else "(no gpu_type)"
        found = self.nearest(usage, first_ms)
        if found is None:
            return MissingPrice(GPU_KIND, name)
        fields = found.fields + (("effective",) if found.is_later else ())
        return MissingPrice(GPU_KIND, name, tuple(sorted(fields)) or ("names",))

    def mend(self, usage: UnpricedUsage, first_ms: int) -> PriceMend | None:
        """Return what mends it; None: the price fields do not say what it is, or are not fit for a command."""
        if usage.component != _GPU:
            sku = self._new_sku(f"{usage.component}-{usage.unit}")
            line = f"{sku},{usage.component},USD,{_PER.get(usage.unit, 'gib')},"
            return PriceMend("sku,component,usd,per,from", line, "")
        gpu_type, found = usage.context[GPU_TYPE], self.nearest(usage, first_ms)
        if not gpu_type:
            return None
        match, sku = {"gpu_type": gpu_type}, self._new_sku(gpu_type)
        if found is not None and not found.fields:
            values = dict(zip(MATCH_FIELDS, usage.context, strict=True))
            # As narrow as the one that is there, which begins later; or prices of two names of it differ, and one
            # for this name goes before them.
            match = {name: values[name] or "" for name in found.event.match} | match
            if found.is_later:
                match, sku = dict(found.event.match), found.event.sku
        if not all(_PLAIN.fullmatch(value) for value in (sku, *match.values())):
            return None
        is_same_gpu = found is not None and "gpu_type" not in found.fields and found.event.usd_nano
        usd = _usd_per_gpu(found.event) if found is not None and is_same_gpu else ""
        line = ",".join([sku, *match.values(), usd or "USD", "gpu_hour", ""])
        return PriceMend(",".join(["sku", *match, "usd", "per", "from"]), line, usd)

    def _new_sku(self, name: str) -> str:
        known = {event.sku for event in self.book.events}
        base = _NOT_IN_SKU.sub("-", name.lower()).strip("-")[:40] or "gpu"
        number, sku = 1, base
        while sku in known:
            number += 1
            sku = f"{base}-{number}"
        return sku


def _usd_per_gpu(event: PriceEvent) -> str:
    """Return the price of a GPU-hour in dollars, with up to nine decimals."""
    nano = event.usd_nano // (event.gpus or 1)
    text = f"{nano // NANO_PER_USD}.{nano % NANO_PER_USD:09d}".rstrip("0").rstrip(".")
    return text if nano else ""
