"""Charges a month to those who caused it: their cost, their share of idle time, and their part of the bill.

It must not read a store nor round: parts sum exactly to what is shared out.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Final, NamedTuple

from streams.costs.shares import Rule, largest_remainder, share_out

JOBS: Final = "jobs"
IDLE: Final = "idle"
UNMETERED: Final = "unmetered"
_NANO_PLACES: Final = 9

Names = tuple[str, ...]


class Charge(NamedTuple):
    """What one group bears; money in dollars.

    `kind` is `jobs`; `idle` of idle time that nobody bears; `unmetered` of a bill beside which nothing was metered.
    """

    kind: str
    names: Names
    cost_usd: Decimal
    idle_usd: Decimal
    metered_usd: Decimal  # both
    billed_usd: Decimal | None  # the part of the bill; None: there is none
    charge_usd: Decimal  # the part of the bill, else what was metered


def charges(
    cost_nano: Mapping[Names, int], idle_nano: int, rule: Rule, billed_usd: Decimal | None
) -> list[Charge]:
    """Return what each group bears, by its names; idle time by the rule, the bill in proportion to both.

    A group's part of the bill is rounded to the last digit that the bill itself has (a nano-dollar at least), by
    largest remainder. A group that idle time below zero has put below zero bears none of it.
    """
    idle = dict.fromkeys(cost_nano, 0)
    if cost_nano:
        idle = share_out(idle_nano, cost_nano, rule)
    left = idle_nano - sum(idle.values())
    found = {(JOBS, names): (cost, idle[names]) for names, cost in cost_nano.items()}
    width = len(next(iter(cost_nano), ("",)))
    nobody = ("",) * width
    if left:
        found[IDLE, nobody] = (0, left)
    weights = {key: max(0, cost + share) for key, (cost, share) in found.items()}
    parts: dict[tuple[str, Names], Decimal] = {}
    if billed_usd is not None:
        if not any(weights.values()):
            found[UNMETERED, nobody] = (0, 0)
            weights = {(UNMETERED, nobody): 1}
        places = max(_NANO_PLACES, -_exponent(billed_usd))
        shared = largest_remainder(int(billed_usd.scaleb(places)), weights)
        parts = {key: Decimal(part).scaleb(-places) for key, part in shared.items()}
    return [
        _charge(key, cost, share, None if billed_usd is None else parts.get(key, Decimal(0)))
        for key, (cost, share) in sorted(found.items(), key=lambda each: (each[0][0] != JOBS, each[0]))
    ]


def _charge(key: tuple[str, Names], cost_nano: int, idle_nano: int, billed_usd: Decimal | None) -> Charge:
    kind, names = key
    cost, idle = (Decimal(nano).scaleb(-_NANO_PLACES) for nano in (cost_nano, idle_nano))
    metered = cost + idle
    return Charge(kind, names, cost, idle, metered, billed_usd, metered if billed_usd is None else billed_usd)


def _exponent(amount: Decimal) -> int:
    """Return the place of the last digit that is not 0."""
    found = amount.normalize().as_tuple().exponent
    assert isinstance(found, int)  # an amount is finite
    return found
