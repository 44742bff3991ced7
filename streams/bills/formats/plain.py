"""A plain list of costs: `date,resource,usd`, as somebody makes it of the invoice of a neocloud or of a colocation.

`date` is a day, or a month such as 2026-10 of which the cost is. Instead of `usd` there may be `amount` and `currency`. A line of
category `correction` came after its bill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from streams.bills.columns import CORRECTION, USD
from streams.bills.formats.record import BillFormat, BillRecord, Charge, first_of_month, next_month

_MONTH: Final = re.compile(r"\d{4}-\d{2}", re.ASCII)
#: Whom the file is from, where neither it nor its reader says.
NO_ISSUER: Final = "invoice"
TAG_COLUMNS: Final = {
    "job": "trainfare_job",
    "node": "trainfare_node",
    "owner": "owner",
    "team": "team",
    "project": "project",
}
_COLUMNS: Final = {
    "invoice_id": ("invoice",),
    "sub_account_id": ("account",),
    "charge_description": ("description",),
    "pricing_quantity": ("quantity",),
    "pricing_unit": ("unit",),
    "consumed_quantity": ("quantity",),
    "consumed_unit": ("unit",),
    "resource_id": ("resource",),
    "region_id": ("region",),
    "sku_id": ("sku",),
}


def _charges(record: BillRecord, charge: Charge) -> Iterator[Charge]:
    text = record.text("date")
    if _MONTH.fullmatch(text):
        start = record.month("date")
        end = next_month(start)
    else:
        start = record.day("date")
        end = start + timedelta(days=1)
    cost = record.cost("usd", "amount")
    issuer = record.text("provider") or record.issuer or NO_ISSUER
    category = record.text("category").capitalize() or "Usage"
    is_correction = category == CORRECTION
    yield charge | {
        "invoice_issuer_name": issuer,
        "provider_name": issuer,
        "publisher_name": issuer,
        "billing_account_id": record.text("account") or issuer,
        "billing_period_start": first_of_month(start),
        "billing_period_end": next_month(start),
        "charge_period_start": start,
        "charge_period_end": end,
        "charge_category": "Adjustment" if is_correction else category,
        "charge_class": CORRECTION if is_correction else None,
        "charge_frequency": "Usage-Based",
        "billing_currency": currency_of(record),
        "billed_cost": cost,
        "effective_cost": cost,
        "contracted_cost": cost,
        "list_cost": cost,
        "pricing_category": "Standard",
        "service_category": "Other",
        "service_name": record.text("service") or issuer,
        "tags": {**record.pairs("tags"), **tags_of(record)},
    }


def tags_of(record: BillRecord) -> dict[str, str]:
    """Tags of the columns that say whose a line is."""
    return {tag: text for column, tag in TAG_COLUMNS.items() if (text := record.text(column))}


def currency_of(record: BillRecord) -> str:
    """The currency: of `usd` always the dollar."""
    return USD if record.cell("usd") is not None else record.text("currency") or USD


DATED: Final = BillFormat("plain", "plain list of costs", ("date", "resource", "usd"), _COLUMNS, _charges)
AMOUNTS: Final = BillFormat(
    "plain", "plain list of costs", ("date", "resource", "amount", "currency"), _COLUMNS, _charges
)
