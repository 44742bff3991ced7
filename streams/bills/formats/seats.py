"""An invoice of licences: `vendor,product,seats,period_start,period_end,usd`, one line per product and period.

What is paid for several months is amortised: the first month has the cash, and each month its days' part of the effective cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from streams.bills import values
from streams.bills.formats.plain import currency_of, tags_of
from streams.bills.formats.record import BillFormat, BillRecord, Charge, first_of_month, next_month

#: Ten years.
_MONTHS_MAX: Final = 120
_SEATS: Final = "Seats"
_COLUMNS: Final = {
    "invoice_issuer_name": ("vendor",),
    "provider_name": ("vendor",),
    "publisher_name": ("vendor",),
    "invoice_id": ("invoice",),
    "charge_description": ("description", "product"),
    "pricing_quantity": ("seats",),
    "service_name": ("product",),
    "resource_id": ("resource",),
}


def _charges(record: BillRecord, charge: Charge) -> Iterator[Charge]:
    start = record.day("period_start")
    end = record.day("period_end") + timedelta(days=1)  # its last day
    if end <= start:
        raise values.BadValueError("is before period_start")
    cost = record.cost("usd", "amount")
    account = record.text("account") or record.text("invoice") or record.text("vendor")
    currency, tags = currency_of(record), tags_of(record)
    for number, (begin, until, part) in enumerate(_months(start, end, cost)):
        yield charge | {
            "billing_account_id": account,
            "billing_period_start": first_of_month(begin),
            "billing_period_end": next_month(begin),
            "charge_period_start": begin,
            "charge_period_end": until,
            "charge_category": "Purchase",
            "charge_frequency": "Recurring",
            "billing_currency": currency,
            "billed_cost": Decimal(0) if number else cost,
            "effective_cost": part,
            "contracted_cost": part,
            "list_cost": part,
            "pricing_category": "Standard",
            "pricing_unit": _SEATS,
            "consumed_quantity": charge["pricing_quantity"],
            "consumed_unit": _SEATS,
            "service_category": "Other",
            "tags": tags,
        }


def _months(start: datetime, end: datetime, cost: Decimal) -> Iterator[tuple[datetime, datetime, Decimal]]:
    """The months of a period, and of the cost the part of each by its days; the parts sum to it."""
    units, whole, before = values.units_of(cost), (end - start).days, 0
    begin = start
    for _ in range(_MONTHS_MAX):
        until = min(next_month(begin), end)
        through = units * (until - start).days // whole
        yield begin, until, values.of_units(through - before)
        if until == end:
            return
        begin, before = until, through
    raise values.BadValueError(f"is more than {_MONTHS_MAX} months after period_start")


DATED: Final = BillFormat(
    "seats",
    "licence invoice",
    ("vendor", "product", "seats", "period_start", "period_end"),
    _COLUMNS,
    _charges,
)
