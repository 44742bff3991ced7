"""The columns of the tables of bills: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import BILLED, LABELS, MILLI, SECOND, TEXT, schema_of

BILL_LINES: Final = "bill_lines"
BILL_LOADS: Final = "bill_loads"
FX_RATES: Final = "fx_rates"

SCHEMAS: Final[dict[str, pa.Schema]] = {
    BILL_LINES: schema_of(
        load_id=TEXT,
        line=pa.int64(),  # where it begins in its file; of Parquet the row; counts on after a line of several charges
        invoice_issuer_name=TEXT,
        provider_name=TEXT,
        publisher_name=TEXT,
        invoice_id=TEXT,
        billing_account_id=TEXT,
        billing_account_name=TEXT,
        sub_account_id=TEXT,
        sub_account_name=TEXT,
        billing_period_start=SECOND,
        billing_period_end=SECOND,
        charge_period_start=SECOND,
        charge_period_end=SECOND,
        charge_category=TEXT,
        charge_class=TEXT,
        charge_description=TEXT,
        charge_frequency=TEXT,
        billing_currency=TEXT,
        units_per_usd=BILLED,  # the invoice's own rate, where it has one
        billed_cost=BILLED,
        effective_cost=BILLED,
        contracted_cost=BILLED,
        list_cost=BILLED,
        list_unit_price=BILLED,
        pricing_category=TEXT,
        pricing_quantity=BILLED,
        pricing_unit=TEXT,
        consumed_quantity=BILLED,
        consumed_unit=TEXT,
        commitment_discount_id=TEXT,
        commitment_discount_status=TEXT,
        service_category=TEXT,
        service_name=TEXT,
        resource_id=TEXT,
        resource_name=TEXT,
        resource_type=TEXT,
        region_id=TEXT,
        availability_zone=TEXT,
        sku_id=TEXT,
        sku_price_id=TEXT,
        tags=LABELS,
        other=LABELS,  # all other columns that have a value, by their names in the file
        version=pa.uint64(),
    ),
    BILL_LOADS: schema_of(
        load_id=TEXT,  # SHA-256 of the unpacked file, and of how it was read if it is not FOCUS
        invoice_issuer_name=TEXT,
        billing_account_id=TEXT,
        billing_period_start=SECOND,
        billing_period_end=SECOND,
        file=TEXT,
        format=TEXT,
        status=TEXT,  # loaded, replaced
        lines=pa.int64(),
        correction_lines=pa.int64(),
        other_currency_lines=pa.int64(),
        billed_usd=BILLED,
        time=MILLI,
        version=pa.uint64(),
    ),
    FX_RATES: schema_of(
        currency=TEXT,
        day=SECOND,
        units=BILLED,  # so many of the currency
        dollars=BILLED,  # cost so many dollars
        source=TEXT,  # the file
        time=MILLI,
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    BILL_LINES: ("load_id", "line"),
    BILL_LOADS: ("load_id", "invoice_issuer_name", "billing_account_id", "billing_period_start"),
    FX_RATES: ("currency", "day"),
}
