"""Drawn usage without a price and drawn price lists: the alerts `missing_price` are those of the plain oracle, in any cut."""

from __future__ import annotations

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from tests.oracle.gpu_types import product
from tests.oracle.missing_price import FIVE_MINUTES_MS, Lack, Offer, missing
from tests.property.profile import EXAMPLES, PROFILE
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0
from tests.worker.test_fleet_rules import World, shared
from tests.worker.test_missing_price import stands, unpriced, without_gpus

__all__ = ["shared"]

#: What an alert calls a product.
NAMES = {
    "H100": "h100/sxm/80gb",
    "h100": "h100/sxm/80gb",
    "NVIDIA B200": "b200/sxm/180gb",
    "made up": "made up",
    "": "(no gpu_type)",
}
FIELDS = {"region": ("us", "eu"), "purchase": ("spot", "on_demand"), "cluster": ("c1",)}
LENGTH_MINUTES = 26 * 60

minutes = st.integers(0, LENGTH_MINUTES - 10)
fields = st.fixed_dictionaries(
    {"gpu_type": st.sampled_from(sorted(NAMES))},
    optional={name: st.sampled_from(of) for name, of in FIELDS.items()},
)
instances = st.fixed_dictionaries({"instance_type": st.sampled_from(["", "m5.large"])})
holders = st.sampled_from(["job", "node"])
usages = st.lists(st.tuples(minutes, fields | instances, holders), min_size=1, max_size=5)
matches = st.fixed_dictionaries(
    {},
    optional={"gpu_type": st.sampled_from(["H100", "B200"])}
    | {name: st.sampled_from(of) for name, of in FIELDS.items()},
)
offers = st.lists(
    st.tuples(st.integers(-60, LENGTH_MINUTES), st.integers(-60, LENGTH_MINUTES), matches), max_size=4
)
cuts = st.lists(st.integers(1, LENGTH_MINUTES - 1), max_size=2, unique=True)

Told = list[tuple[int, str, str, str]]


def expected(lacks: list[Lack], known: list[Offer]) -> Told:
    found: Told = []
    before: set[tuple[str, str]] = set()
    names: dict[object, str] = {product(key) if key else None: name for key, name in NAMES.items()}
    of_kind: dict[str, dict[object, str]] = {
        "gpu_type": names,
        "instance_type": {None: "(no instance_type)", "m5.large": "m5.large"},
    }
    for at_ms in range(T0 + FIVE_MINUTES_MS, T0 + LENGTH_MINUTES * MINUTE_MS + 1, FIVE_MINUTES_MS):
        now = {
            (kind, " ".join([of_kind[kind][what], "+".join(differing)]).strip())
            for kind, what, differing in missing(lacks, known, at_ms)
        }
        found += [(at_ms, "firing", *each) for each in now - before]
        found += [(at_ms, "resolved", *each) for each in before - now]
        before = now
    return sorted(found)


@example([(0, {"gpu_type": ""}, "job")], [(255, 255, {})], [])  # exactly at one of the five minutes
@example([(59, {"gpu_type": "H100"}, "job")], [], [])  # over the end of an hour
@example([(59, {"instance_type": ""}, "node")], [], [60])
@example([(70, {"gpu_type": "H100"}, "node")], [(100, 90, {"gpu_type": "H100"})], [119])
@settings(PROFILE, max_examples=max(EXAMPLES // 6, 5))
@given(usages, offers, cuts)
def test_the_alerts_are_those_of_the_oracle(
    shared: Any,
    drawn: list[tuple[int, dict[str, str], str]],
    prices: list[tuple[int, int, dict[str, str]]],
    at: list[int],
) -> None:
    empty(shared.target)
    world = World(shared)
    for number, (known, effective, match) in enumerate(sorted(prices, key=lambda each: each[0])):
        world.price(f"p{number}", 1.5, effective, known, match)
    lacks = []
    for number, (minute, has, holder) in enumerate(drawn):
        measure = ("gpu", "gpu_milli_ms") if "gpu_type" in has else ("compute", "instance_milli_ms")
        named = {"region": "", **has}
        if holder == "node":
            stands(world, f"node-{number}", minute, measure[1], **named)
        else:
            store = unpriced if "gpu_type" in has else without_gpus
            store(world, f"job-{number}", minute, **named)
        at_ms = [T0 + (minute + more) * MINUTE_MS for more in (0, 1)]
        lacks += [Lack(*measure, tuple(sorted(named.items())), each, holder == "node") for each in at_ms]
    known_offers = [
        Offer(f"p{number}", T0 + known * MINUTE_MS, T0 + effective * MINUTE_MS, match)
        for number, (known, effective, match) in enumerate(sorted(prices, key=lambda each: each[0]))
    ]
    seen: Told = []
    for until in [*sorted(at), LENGTH_MINUTES]:
        changes = world.look((T0 + until * MINUTE_MS - world.since_ms) / HOUR_MS)
        seen += [
            (a.changed_ms, a.status, a.subject_kind, a.subject_name)
            for a in changes
            if a.rule == "missing_price"
        ]
    assert sorted(seen) == expected(lacks, known_offers)
