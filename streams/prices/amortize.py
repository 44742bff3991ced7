"""Prices per GPU-hour from what owned GPUs cost: straight-line depreciation, power, staff.

Money is integer cents and nano-dollars; nothing is a float.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.units import HOURS_PER_MONTH, NANO_PER_USD
from streams.engine.pricing.ownership import owned_costs

MONTHS_PER_YEAR: Final = 12
CENTS_PER_USD: Final = 100
MAX_MONTHS: Final = 600


class Purchase(NamedTuple):
    """What was bought, and what running it costs. All rates are exact decimals."""

    purchase_cents: int
    salvage_cents: int
    months: int  # of its life
    gpus: int
    use_ratio: Decimal  # the share of all hours in which a GPU is expected to be paid for
    kw: Decimal = Decimal(0)  # average draw of all GPUs and their hosts together, idle hours included
    pue: Decimal = Decimal(1)
    usd_per_kwh: Decimal = Decimal(0)
    staff_usd_per_year: Decimal = Decimal(0)

    @property
    def used_gpu_hours(self) -> Fraction:
        """The GPU-hours that are expected to be paid for over the whole life; a month has 730 h."""
        return Fraction(self.use_ratio) * self.gpus * self.months * HOURS_PER_MONTH


class HourPrices(NamedTuple):
    """Nano-dollars per GPU-hour, each rounded half to even."""

    hardware: int
    power: int
    staff: int


class DepreciationPeriod(NamedTuple):
    """One line of the schedule, in cents. Closing is opening less depreciation."""

    number: int  # from 1
    months: int
    opening: int
    depreciation: int
    closing: int


def hour_prices(bought: Purchase) -> HourPrices:
    """What one paid GPU-hour must cost so that all of it is paid for over the whole life."""
    costs = owned_costs(
        Fraction(bought.purchase_cents - bought.salvage_cents, CENTS_PER_USD),
        bought.months * HOURS_PER_MONTH,
        kw=bought.kw,
        pue=bought.pue,
        usd_per_kwh=bought.usd_per_kwh,
        staff_usd_per_year=bought.staff_usd_per_year,
    )
    return HourPrices(*(_nano(usd / bought.used_gpu_hours) for usd in costs))


def schedule(bought: Purchase, months_per_period: int) -> list[DepreciationPeriod]:
    """The straight-line schedule; the last period is shorter where the life is no multiple of a period.

    Depreciation sums to purchase less salvage exactly.
    """
    lengths = [months_per_period] * (bought.months // months_per_period)
    if rest := bought.months % months_per_period:
        lengths.append(rest)
    found: list[DepreciationPeriod] = []
    opening = bought.purchase_cents
    parts = largest_remainder(bought.purchase_cents - bought.salvage_cents, lengths)
    for number, (months, part) in enumerate(zip(lengths, parts, strict=True), start=1):
        found.append(DepreciationPeriod(number, months, opening, part, opening - part))
        opening -= part
    return found


def largest_remainder(total: int, weights: Sequence[int]) -> list[int]:
    """Integers in proportion to the weights that sum to the total; of equal remainders the earlier is rounded up."""
    whole = sum(weights)
    parts = [total * weight // whole for weight in weights]
    order = sorted(range(len(weights)), key=lambda at: (-(total * weights[at] % whole), at))
    for at in order[: total - sum(parts)]:
        parts[at] += 1
    return parts


def _nano(usd: Fraction) -> int:
    exact = usd * NANO_PER_USD
    return round(exact)  # of a Fraction: half to even
