"""The columns of FOCUS 1.0 to 1.3 that are stored typed, and what a bill must have."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class ColumnKind(StrEnum):
    """How a cell is read."""

    TEXT = "text"
    NAME = "name"  # a text that must not be missing
    COST = "cost"  # a number that must not be missing
    NUMBER = "number"
    INSTANT = "instant"
    DAY = "day"  # a bound of a billing period
    TAGS = "tags"


class FocusColumn(NamedTuple):
    """A typed column: its name here, its kind, and its names in the file, of which the first one present is read."""

    name: str
    kind: ColumnKind
    headers: tuple[str, ...]


def _column(name: str, kind: ColumnKind, *headers: str) -> FocusColumn:
    return FocusColumn(name, kind, headers or ("".join(word.capitalize() for word in name.split("_")),))


#: In the order of the table `bill_lines`.
COLUMNS: Final = (
    _column("invoice_issuer_name", ColumnKind.NAME),
    # FOCUS 1.3 has them under other names.
    _column("provider_name", ColumnKind.TEXT, "ProviderName", "ServiceProviderName"),
    _column("publisher_name", ColumnKind.TEXT, "PublisherName", "HostProviderName"),
    _column("invoice_id", ColumnKind.TEXT),
    _column("billing_account_id", ColumnKind.NAME),
    _column("billing_account_name", ColumnKind.TEXT),
    _column("sub_account_id", ColumnKind.TEXT),
    _column("sub_account_name", ColumnKind.TEXT),
    _column("billing_period_start", ColumnKind.DAY),
    _column("billing_period_end", ColumnKind.DAY),
    _column("charge_period_start", ColumnKind.INSTANT),
    _column("charge_period_end", ColumnKind.INSTANT),
    _column("charge_category", ColumnKind.NAME),
    _column("charge_class", ColumnKind.TEXT),
    _column("charge_description", ColumnKind.TEXT),
    _column("charge_frequency", ColumnKind.TEXT),
    _column("billing_currency", ColumnKind.NAME),
    # No column of FOCUS: what its loader, or another format, says.
    _column("units_per_usd", ColumnKind.NUMBER, "x_UnitsPerUsd"),
    _column("billed_cost", ColumnKind.COST),
    _column("effective_cost", ColumnKind.COST),
    _column("contracted_cost", ColumnKind.NUMBER),
    _column("list_cost", ColumnKind.COST),
    _column("list_unit_price", ColumnKind.NUMBER),
    _column("pricing_category", ColumnKind.TEXT),
    _column("pricing_quantity", ColumnKind.NUMBER),
    _column("pricing_unit", ColumnKind.TEXT),
    _column("consumed_quantity", ColumnKind.NUMBER),
    _column("consumed_unit", ColumnKind.TEXT),
    _column("commitment_discount_id", ColumnKind.TEXT),
    _column("commitment_discount_status", ColumnKind.TEXT),
    _column("service_category", ColumnKind.NAME),
    _column("service_name", ColumnKind.NAME),
    _column("resource_id", ColumnKind.TEXT),
    _column("resource_name", ColumnKind.TEXT),
    _column("resource_type", ColumnKind.TEXT),
    _column("region_id", ColumnKind.TEXT),
    _column("availability_zone", ColumnKind.TEXT),
    _column("sku_id", ColumnKind.TEXT),
    _column("sku_price_id", ColumnKind.TEXT),
    _column("tags", ColumnKind.TAGS),
)
#: Without one of these a file is no FOCUS bill. 1.0 to 1.2 demand the names of provider and publisher, 1.3 the new ones.
MANDATORY: Final = frozenset(
    {
        "invoice_issuer_name",
        "provider_name",
        "publisher_name",
        "billing_account_id",
        "billing_account_name",
        "billing_period_start",
        "billing_period_end",
        "charge_period_start",
        "charge_period_end",
        "charge_category",
        "charge_class",
        "charge_description",
        "billing_currency",
        "billed_cost",
        "effective_cost",
        "contracted_cost",
        "list_cost",
        "pricing_quantity",
        "pricing_unit",
        "service_category",
        "service_name",
    }
)
CHARGE_CATEGORIES: Final = frozenset({"Usage", "Purchase", "Tax", "Credit", "Adjustment"})
CORRECTION: Final = "Correction"
USD: Final = "USD"
