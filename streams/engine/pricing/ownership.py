"""What machines that are owned cost over a time, as exact fractions of dollars."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

HOURS_PER_YEAR: Final = 8_760


class OwnedCosts(NamedTuple):
    """Dollars over the time, by what they are for."""

    hardware: Fraction
    power: Fraction
    staff: Fraction


def owned_costs(
    loss_usd: Fraction,
    hours: int,
    *,
    kw: Decimal = Decimal(0),
    pue: Decimal = Decimal(1),
    usd_per_kwh: Decimal = Decimal(0),
    staff_usd_per_year: Decimal = Decimal(0),
) -> OwnedCosts:
    """What owning costs for so many hours: what the hardware loses in value, power, staff.

    Args:
        loss_usd: Purchase less salvage.
        hours: The whole time.
        kw: Average draw of all machines together.
        pue: All power / power of the machines.
        usd_per_kwh: Price of power.
        staff_usd_per_year: Of a year of 8,760 hours.
    """
    power_usd = Fraction(kw) * Fraction(pue) * Fraction(usd_per_kwh) * hours
    return OwnedCosts(loss_usd, power_usd, Fraction(staff_usd_per_year) * hours / HOURS_PER_YEAR)
