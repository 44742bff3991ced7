"""Google Cloud's detailed billing export: the BigQuery table as JSON lines, Parquet or CSV.

In CSV what is nested is JSON in a cell, or columns such as `service.id` or `service_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Final

from streams.bills import values
from streams.bills.columns import USD
from streams.bills.formats.record import BillFormat, BillRecord, Charge, next_month

_GOOGLE: Final = "Google Cloud"
_CATEGORIES: Final = {
    "regular": "Usage",
    "tax": "Tax",
    "adjustment": "Adjustment",
    "rounding_error": "Adjustment",
    "rounding error": "Adjustment",
}
#: A credit on the fee of a commitment for as much of it as usage took: what is left of the fee is what nothing used.
_FEE_USED: Final = "FEE_UTILIZATION_OFFSET"
#: Consumption models at whose prices no commitment is used.
_NO_MODEL: Final = frozenset({"", "default"})
#: Credits that are a lower price of the usage; others, such as a promotion, are charges of their own.
_DISCOUNTS: Final = frozenset(
    {
        "COMMITTED_USAGE_DISCOUNT",
        "COMMITTED_USAGE_DISCOUNT_DOLLAR_BASE",
        "DISCOUNT",
        _FEE_USED,
        "RESELLER_MARGIN",
        "SUBSCRIPTION_BENEFIT",
        "SUSTAINED_USAGE_DISCOUNT",
    }
)
_SERVICES: Final = {
    "Compute Engine": "Compute",
    "Kubernetes Engine": "Compute",
    "Cloud Run": "Compute",
    "Vertex AI": "AI and Machine Learning",
    "Cloud TPU": "AI and Machine Learning",
    "Cloud Storage": "Storage",
    "Cloud Filestore": "Storage",
    "Cloud SQL": "Databases",
    "Cloud Spanner": "Databases",
    "Networking": "Networking",
    "BigQuery": "Analytics",
    "Cloud Logging": "Management and Governance",
    "Cloud Monitoring": "Management and Governance",
}
_COLUMNS: Final = {
    "billing_account_id": ("billing_account_id",),
    "sub_account_id": ("project.id",),
    "sub_account_name": ("project.name",),
    "charge_description": ("sku.description",),
    "billing_currency": ("currency",),
    "list_unit_price": ("price.list_price",),
    "pricing_quantity": ("usage.amount_in_pricing_units",),
    "pricing_unit": ("usage.pricing_unit",),
    "consumed_quantity": ("usage.amount",),
    "consumed_unit": ("usage.unit",),
    "commitment_discount_id": ("subscription.instance_id",),
    "service_name": ("service.description", "service.id"),
    "resource_id": ("resource.global_name", "resource.name"),
    "resource_name": ("resource.name",),
    "region_id": ("location.region", "location.location"),
    "availability_zone": ("location.zone",),
    "sku_id": ("sku.id",),
}


def _charges(record: BillRecord, charge: Charge) -> Iterator[Charge]:
    kind = record.text("cost_type").lower()
    category = _CATEGORIES.get(kind)
    if category is None:
        category = "Adjustment"
        record.findings.note(f"of the unknown cost_type {kind[:60]!r}: taken for adjustments")
    cost = record.cost("cost")
    list_cost = record.number("cost_at_list")
    month = record.month("invoice.month")
    service = record.text("service.description")
    credits_ = [_credit(each) for each in record.objects("credits")]
    billed = values.total([cost, *(amount for kind, _, amount in credits_ if kind in _DISCOUNTS)])
    covered_by = _covered_by(record, credits_)
    is_unused = any(kind == _FEE_USED for kind, _, _ in credits_)
    status = "Unused" if is_unused else "Used" if covered_by else None
    is_correction = any(
        record.text(f"adjustment_info.{each}") for each in ("id", "type", "mode", "description")
    )
    charge |= {
        "invoice_issuer_name": _GOOGLE,
        "provider_name": _GOOGLE,
        "publisher_name": record.text("seller_name") or _GOOGLE,
        "billing_period_start": month,
        "billing_period_end": next_month(month),
        "charge_period_start": record.instant("usage_start_time"),
        "charge_period_end": record.instant("usage_end_time"),
        "charge_category": category,
        "charge_class": "Correction" if is_correction else None,
        "charge_frequency": "Usage-Based" if category == "Usage" else "One-Time",
        "units_per_usd": None
        if charge["billing_currency"] == USD
        else record.number("currency_conversion_rate"),
        "billed_cost": billed,
        "effective_cost": billed,
        "contracted_cost": Decimal(0) if is_unused else cost,
        "list_cost": Decimal(0) if is_unused else cost if list_cost is None else list_cost,
        "pricing_category": ("Committed" if status else _pricing_category(charge))
        if category == "Usage"
        else "",
        "commitment_discount_id": charge["commitment_discount_id"] or covered_by,
        "commitment_discount_status": status,
        "service_category": next(
            (found for name, found in _SERVICES.items() if service.startswith(name)), "Other"
        ),
        "tags": {
            **record.pairs("project.labels"),
            **record.pairs("tags"),
            **record.pairs("labels"),
        },
    }
    yield charge
    for kind, name, amount in credits_:
        if kind not in _DISCOUNTS:
            yield charge | {
                "charge_category": "Credit",
                "charge_frequency": "One-Time",
                "charge_description": name or kind or "credit",
                "billed_cost": amount,
                "effective_cost": amount,
                "contracted_cost": amount,
                "list_cost": amount,
                "list_unit_price": None,
                "pricing_category": "",
                "pricing_quantity": None,
                "pricing_unit": None,
                "consumed_quantity": None,
                "consumed_unit": None,
                "commitment_discount_id": None,
                "commitment_discount_status": None,
            }


def _credit(found: dict[str, object]) -> tuple[str, str, Decimal]:
    """Kind, name and amount of a credit."""
    if found.get("amount") is None:
        raise values.BadValueError("a credit has no amount")
    return (
        values.text(found.get("type")).upper(),
        values.text(found.get("full_name") or found.get("name")),
        values.number(found["amount"])[0],
    )


def _covered_by(record: BillRecord, credits_: Sequence[tuple[str, str, Decimal]]) -> str:
    """What names the commitment that covers usage, by a credit or, in exports since 2025, by its price; empty: none does."""
    for kind, name, _ in credits_:
        if kind.startswith("COMMITTED_USAGE_DISCOUNT"):
            return name or kind
    model = record.text("consumption_model.description")
    return "" if model.lower() in _NO_MODEL else model


def _pricing_category(charge: Charge) -> str:
    what = str(charge["charge_description"] or "")
    return "Dynamic" if what.startswith(("Spot ", "Preemptible ")) else "Standard"


DETAILED: Final = BillFormat(
    "gcp",
    "Google Cloud detailed billing export",
    ("billing_account_id", "cost", "usage_start_time"),
    _COLUMNS,
    _charges,
    is_nested=True,
)
