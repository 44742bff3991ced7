"""Says why a job was billed otherwise than it was metered, in dollars by cause; the causes sum exactly to the difference.

A price is right that would have metered what was billed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from typing import Any, Final, NamedTuple

from schemas.events import MATCH_FIELDS
from streams.costs.charging import JobMetered

#: All causes, in the order in which they are shown.
CAUSES: Final = (
    "price",
    "discount",
    "tier",
    "commitment",
    "credit",
    "tax",
    "adjustment",
    "purchase",
    "late_line",
    "shared",
    "missing_tag",
    "quantity",
)
CAUSE_COLUMNS: Final = tuple(f"{cause}_usd" for cause in CAUSES)
#: Lines that stand for use: their list cost is what the meter should say at the list price.
_USES: Final = ("usage", "commitment", "tier")
#: A meter that is this near to the list price has the list price: bills count whole hours, and round.
_NEAR: Final = Fraction(1, 100)
#: A price is judged by jobs of whose metered cost it is this share.
_MOST_OF: Final = Fraction(9, 10)
#: Significant digits of a right price.
_DIGITS: Final = 6

#: What each price made of what each job was metered: sku, `effective` in ms, and nano-dollars, by job id.
PriceParts = Mapping[str, list[tuple[str, int, int]]]
PRICE_PARTS: Final = """
SELECT job_id, sku, toUnixTimestamp64Milli(price_effective) AS effective_ms, toInt64(sum(cost_usd) * 1000000000) AS usd_nano
FROM job_minutes FINAL
WHERE quantity != 0 AND job_id IN {jobs:Array(String)} AND component IN ('gpu', 'compute', 'network', 'storage')
    AND minute >= {first:String} AND minute < {until:String}
GROUP BY job_id, sku, effective_ms
"""
PRICES: Final = """
SELECT sku, component, usd, per, gpus, toUnixTimestamp64Milli(effective) AS effective_ms, match
FROM prices FINAL WHERE sku IN {skus:Array(String)}
"""


@dataclass
class JobBill:
    """What lines put on a job, in units of the bill's last digit."""

    billed: int = 0
    effective: int = 0
    list: int = 0
    #: What is charged, and what it lists for, by the lines' cause.
    charged: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    listed: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    is_tagged: bool = False  # a line of use names it


class Variance(NamedTuple):
    """Why a job was billed otherwise than metered, in units of the bill's last digit."""

    causes: dict[str, int]  # no zeros; they sum to what was billed less what was metered
    metered: int  # of it, what lines of use stand beside
    wanted: int  # what the meter should have said, if its price is wrong


def variance_of(bill: JobBill, metered: JobMetered, unit: int) -> Variance:
    """The causes of one job.

    Args:
        bill: What was billed.
        metered: What was metered; what no bill covers is left out.
        unit: How many units a nano-dollar has.
    """
    causes: dict[str, int] = defaultdict(int)
    for cause, amount in bill.charged.items():
        if cause not in _USES:
            causes[cause] += amount
    missing = 0 if bill.is_tagged else metered.without_line * unit
    causes["missing_tag"] -= missing
    found = (metered.metered - metered.only_metered) * unit - missing
    listed = sum(bill.listed[cause] for cause in _USES)
    below = {cause: bill.charged[cause] - bill.listed[cause] for cause in _USES}
    causes["commitment"] += below["commitment"]
    causes["tier"] += below["tier"]
    apart = listed - found
    if abs(apart) <= _NEAR * max(abs(listed), found) or not found or not listed:
        causes["discount"] += below["usage"]
        causes["quantity"] += apart
    else:
        causes["price"] += apart + below["usage"]
    return Variance(
        {name: amount for name, amount in causes.items() if amount}, found, listed + below["usage"]
    )


class RightPrice(NamedTuple):
    """A price that is wrong, and the one that would have metered what was billed."""

    sku: str
    effective_ms: int
    ratio: Fraction  # of the price that is right to the one that was used
    jobs: int


def right_prices(variances: Mapping[str, Variance], parts: PriceParts, unit: int) -> list[RightPrice]:
    """The prices behind the cause `price`, of jobs that one price made nearly all of; in order of their SKU and date."""
    sums: dict[tuple[str, int], list[int]] = {}
    for job, variance in variances.items():
        if "price" not in variance.causes:
            continue
        sku, effective_ms, usd_nano = max(parts.get(job, ()), key=lambda each: each[2], default=("", 0, 0))
        rest = (sum(each[2] for each in parts.get(job, ())) - usd_nano) * unit
        # Where other prices have a part in it, they are taken for right, and the bill must cover all of the job.
        if sku and (
            not rest
            or (rest + usd_nano * unit == variance.metered and usd_nano * unit >= _MOST_OF * variance.metered)
        ):
            each = sums.setdefault((sku, effective_ms), [0, 0, 0])
            each[0] += variance.wanted - rest
            each[1] += variance.metered - rest
            each[2] += 1
    return [
        RightPrice(*key, Fraction(wanted, made), jobs)
        for key, (wanted, made, jobs) in sorted(sums.items())
        if wanted > 0
    ]


def price_records(
    found: Iterable[RightPrice], prices: Iterable[Mapping[str, Any]], month_ms: int
) -> list[dict[str, Any]]:
    """The right prices as records of a price list, from the month on: what was used beside what is right."""
    known = {(row["sku"], row["effective_ms"]): row for row in prices}
    records = []
    for each in found:
        row = known.get((each.sku, each.effective_ms))
        if row is None:
            continue
        match = {name: value for name, value in dict(row["match"]).items() if name in MATCH_FIELDS}
        records.append(
            {
                "sku": each.sku,
                "component": row["component"],
                "usd": _rounded(row["usd"], each.ratio),
                "per": row["per"],
                **({"gpus": row["gpus"]} if row["per"] == "instance_hour" and row["gpus"] else {}),
                "effective_ms": max(each.effective_ms, month_ms),
                **match,
                "used_usd": row["usd"],
                "jobs": each.jobs,
            }
        )
    return records


def _rounded(usd: Decimal, ratio: Fraction) -> Decimal:
    """A price times a ratio, as people write prices: rows are rounded to nano-dollars, so more digits would be noise."""
    exact = Decimal(ratio.numerator) * usd / Decimal(ratio.denominator)
    places = max(0, min(9, _DIGITS - 1 - exact.adjusted()))
    return exact.quantize(Decimal(1).scaleb(-places)).normalize()
