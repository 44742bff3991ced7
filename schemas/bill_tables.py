"""The columns of the tables of bills: part of `schemas.tables`."""

from typing import Final

import pyarrow as pa

from schemas.column_types import BILLED, DOLLARS, LABELS, MILLI, SECOND, TEXT, schema_of

BILL_LINES: Final = "bill_lines"
BILL_LOADS: Final = "bill_loads"
FX_RATES: Final = "fx_rates"
BILL_PARTS: Final = "bill_parts"
JOB_BILLS: Final = "job_bills"
ALLOCATED_MONTHS: Final = "allocated_months"
CLOSED_MONTHS: Final = "closed_months"
CLOSED_CHARGES: Final = "closed_charges"

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
        exported=SECOND,  # the newest line; 0: not every line says when
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
    BILL_PARTS: schema_of(
        month=SECOND,
        allocation=pa.int64(),  # of the month, by `allocated_months`
        load_id=TEXT,
        line=pa.int64(),
        kind=TEXT,  # jobs, idle, unallocated, unused, shared
        job_id=TEXT,
        cluster=TEXT,  # of idle time
        gpu_type=TEXT,
        account=TEXT,  # of what nobody used; a credit may follow other services than its own
        provider=TEXT,
        service=TEXT,
        how=TEXT,  # resource, tag, account, rule; empty: nobody used it
        cost=TEXT,  # billed, effective, list
        usd=BILLED,
        team=TEXT,  # of kinds `unused` and `shared`
        rule=TEXT,  # by name, of how `rule`
        version=pa.uint64(),
    ),
    JOB_BILLS: schema_of(
        month=SECOND,
        allocation=pa.int64(),
        job_id=TEXT,
        metered_usd=BILLED,  # what a provider bills of it: GPUs, compute, network, storage
        only_metered_usd=BILLED,  # of it, what no bill covers yet
        billed_usd=BILLED,
        effective_usd=BILLED,
        list_usd=BILLED,
        causes=DOLLARS,  # what the variance of the effective cost comes from
        version=pa.uint64(),
    ),
    ALLOCATED_MONTHS: schema_of(
        month=SECOND,
        allocation=pa.int64(),  # the one that counts
        jobs=pa.int64(),
        parts=pa.int64(),
        metered_usd=BILLED,
        time=MILLI,
        version=pa.uint64(),
    ),
    CLOSED_MONTHS: schema_of(
        month=SECOND,
        closed=MILLI,
        manifest=TEXT,  # JSON, as it was signed
        signature=TEXT,
        key_id=TEXT,
        version=pa.uint64(),
    ),
    CLOSED_CHARGES: schema_of(
        month=SECOND,
        of_month=SECOND,  # another one than `month`: what came later for it
        kind=TEXT,
        team=TEXT,
        project=TEXT,
        owner=TEXT,
        experiment=TEXT,
        job_id=TEXT,
        account=TEXT,  # of kinds `unallocated`, `unused` and `shared`
        provider=TEXT,
        service=TEXT,
        gpu_milli_ms=pa.int64(),
        cost_usd=BILLED,
        idle_usd=BILLED,
        overcommitted_cost_usd=BILLED,
        billed_usd=BILLED,
        unallocated_usd=BILLED,
        only_metered_usd=BILLED,
        license_cost_usd=BILLED,
        labor_cost_usd=BILLED,
        overhead_cost_usd=BILLED,
        charge_usd=BILLED,
        reason=TEXT,  # of an adjustment
        version=pa.uint64(),
    ),
}

KEYS: Final[dict[str, tuple[str, ...]]] = {
    BILL_LINES: ("load_id", "line"),
    BILL_LOADS: ("load_id", "invoice_issuer_name", "billing_account_id", "billing_period_start"),
    FX_RATES: ("currency", "day"),
    BILL_PARTS: (
        *("month", "allocation", "load_id", "line", "kind", "job_id", "cluster", "gpu_type"),
        *("account", "provider", "service", "how", "cost", "team"),
    ),
    JOB_BILLS: ("month", "allocation", "job_id"),
    ALLOCATED_MONTHS: ("month",),
    CLOSED_MONTHS: ("month",),
    CLOSED_CHARGES: (
        *("month", "of_month", "kind", "team", "project", "owner", "experiment", "job_id"),
        *("account", "provider", "service"),
    ),
}
