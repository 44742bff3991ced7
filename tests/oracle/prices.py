"""Which price applies at an instant, by the contract's words, trying every SKU.

It is given a component, a kind of quantity and the match fields.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from tests.oracle.gpu_types import product
from tests.oracle.model import HOUR_MS, MATCH_FIELDS, Context, Json, context_of, usd_nano

# "ties by the presence of zone, instance_type, ... in that order"
TIE_FIELDS = (
    "zone", "instance_type", "gpu_type", "region", "cluster", "account", "cloud", "purchase", "project", "team",
)  # fmt: skip

# per -> (the kind of quantity, which is also the row's unit; the divisor)
PER = {
    "gpu_hour": ("gpu_milli_ms", HOUR_MS * 1000),
    "vcpu_hour": ("cpu_milli_ms", HOUR_MS * 1000),
    "memory_gib_hour": ("memory_gib_milli_ms", HOUR_MS * 1000),
    "job_hour": ("ms", HOUR_MS),
    "gib": ("bytes", 2**30),
    "gb": ("bytes", 10**9),
    "thousand_requests": ("requests", 1000),
    "gib_month": ("mib_ms", 1024 * 730 * HOUR_MS),
}


@dataclass(frozen=True)
class Revision:
    """One revision of a SKU: "its own match fields, component and `per` hold while it is in force"."""

    sku: str
    effective_ms: int
    component: str
    unit: str
    divisor: int
    price_nano: int
    match: Context


UNPRICED = Revision("", 0, "", "", 1, 0, ())


def revision(price: Json) -> Revision:
    """A price event as a revision."""
    if price["per"] == "instance_hour":
        gpus = price.get("gpus")
        # "with `gpus`: GPU-time; the price of one GPU is usd / gpus"; without: instance_count x time
        unit = "gpu_milli_ms" if gpus else "instance_milli_ms"
        divisor = HOUR_MS * 1000 * (gpus or 1)
    else:
        unit, divisor = PER[price["per"]]
    match = context_of({name: price.get(name) for name in MATCH_FIELDS})
    return Revision(
        price["sku"], price["effective_ms"], price["component"], unit, divisor, usd_nano(price["usd"]), match
    )


def preference(candidate: Revision) -> tuple[int, tuple[bool, ...], str]:
    """The smallest wins: most match fields, then presence in the tie order, then the smallest sku."""
    present = {name for name, _ in candidate.match}
    return (-len(present), tuple(name not in present for name in TIE_FIELDS), candidate.sku)


def fits(match: Context, context: Context) -> bool:
    """All match fields but a label equal those of the usage; of `gpu_type` any name of the product does."""
    has = dict(context)
    return all(
        name in has and (product(has[name]) == product(value) if name == "gpu_type" else has[name] == value)
        for name, value in match
        if name != "label"
    )


def chosen(candidates: list[Revision], gpu_type: str | None) -> Revision | None:
    """The winner; a price for the very name of the type wins over other names, between which nothing is guessed."""
    named = [dict(each.match).get("gpu_type") for each in candidates]
    if gpu_type in named and gpu_type is not None:
        candidates = [each for each, name in zip(candidates, named, strict=True) if name in (None, gpu_type)]
    winner = min(candidates, key=preference, default=None)
    if winner is None:
        return None
    equal = [each for each in candidates if preference(each)[:2] == preference(winner)[:2]]
    best: dict[str | None, Revision] = {}
    for each in sorted(equal, key=preference):
        best.setdefault(dict(each.match).get("gpu_type"), each)
    costs = {Fraction(each.price_nano, each.divisor) for each in best.values()}
    return winner if len(costs) == 1 else None


class PriceBook:
    """All revisions, whenever they came: "A price may come after the usage it prices"."""

    def __init__(self, prices: Iterable[Json]) -> None:
        standing: dict[tuple[str, int], Json] = {}
        # By the contract, "of two records with one (sku, effective_ms) the later by (time_ms, source, id) stands".
        for price in sorted(prices, key=lambda p: (p["time_ms"], p["source"], p["id"])):
            standing[price["sku"], price["effective_ms"]] = price
        self._revisions: dict[str, list[Revision]] = {}
        for _, price in sorted(standing.items()):
            self._revisions.setdefault(price["sku"], []).append(revision(price))
        self._effective_ms = sorted({effective_ms for _, effective_ms in standing})
        self._found: dict[tuple[str, str, Context, int], Revision | None] = {}

    def in_force(self, at_ms: int) -> list[Revision]:
        """Of each SKU "the revision with the greatest `effective_ms` <= t"; none yet: no candidate."""
        latest = ([r for r in revisions if r.effective_ms <= at_ms] for revisions in self._revisions.values())
        return [revisions[-1] for revisions in latest if revisions]

    def winner(self, component: str, unit: str, context: Context, at_ms: int) -> Revision | None:
        """The SKU that wins for this component and kind at this instant; of compliance, for the label after it."""
        # Nothing changes between two effective instants, so the answer is kept per such step.
        step = bisect_right(self._effective_ms, at_ms)
        key = (component, unit, context, step)
        if key not in self._found:
            name, _, label = component.partition(" ")
            candidates = [
                r
                for r in self.in_force(at_ms)
                if r.component == name
                and r.unit == unit
                and fits(r.match, context)
                and (not label or ("label", label) in r.match)
            ]
            self._found[key] = chosen(candidates, dict(context).get("gpu_type"))
        return self._found[key]

    def steps(self, start_ms: int, end_ms: int) -> Iterator[tuple[int, int]]:
        """[start, end) cut at every instant at which any price changes."""
        cuts = [start_ms, *(t for t in self._effective_ms if start_ms < t < end_ms), end_ms]
        for a_ms, b_ms in pairwise(cuts):
            if a_ms < b_ms:
                yield a_ms, b_ms
