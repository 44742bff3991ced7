"""Azure's cost details of an Enterprise Agreement and of a Microsoft Customer Agreement, actual and amortized.

Both kinds have the same columns; each line says by its charge type and pricing model which cost it has.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from typing import Final

import msgspec

from streams.bills import values
from streams.bills.columns import USD
from streams.bills.formats.record import BillFormat, BillRecord, Charge

_MICROSOFT: Final = "Microsoft"
_CATEGORIES: Final = {
    "usage": "Usage",
    "unusedreservation": "Usage",
    "unusedsavingsplan": "Usage",
    "purchase": "Purchase",
    "refund": "Adjustment",
    "adjustment": "Adjustment",
    "roundingadjustment": "Adjustment",
    "tax": "Tax",
    "credit": "Credit",
}
_COMMITTED: Final = frozenset({"reservation", "savingsplan"})
_FREQUENCIES: Final = {"usagebased": "Usage-Based", "onetime": "One-Time", "recurring": "Recurring"}
_SERVICES: Final = {
    "compute": "Compute",
    "containers": "Compute",
    "storage": "Storage",
    "networking": "Networking",
    "databases": "Databases",
    "analytics": "Analytics",
    "aiandmachinelearning": "AI and Machine Learning",
    "aimachinelearning": "AI and Machine Learning",
    "managementandgovernance": "Management and Governance",
}
#: What a line of either kind of export is about.
_ACTUAL: Final = "of commitments as the actual export has them: covered usage has no effective cost; for it load the amortized export"
_AMORTIZED: Final = "of commitments as the amortized export has them: purchases of commitments stand in the actual export alone"
_COLUMNS: Final = {
    "invoice_id": ("invoiceId",),
    "billing_account_id": ("BillingAccountId",),
    "billing_account_name": ("BillingAccountName",),
    "sub_account_id": ("SubscriptionId",),
    "sub_account_name": ("SubscriptionName",),
    "charge_description": ("ProductName", "Product", "MeterName"),
    "billing_currency": ("BillingCurrencyCode", "BillingCurrency"),
    "list_unit_price": ("PayGPrice",),
    "pricing_quantity": ("Quantity",),
    "pricing_unit": ("UnitOfMeasure",),
    "resource_id": ("ResourceId", "InstanceId"),
    "resource_name": ("ResourceName",),
    "region_id": ("ResourceLocation", "Location"),
    "availability_zone": ("AvailabilityZone",),
    "sku_id": ("MeterId",),
    "sku_price_id": ("PartNumber", "ProductId"),
}


def _charges(record: BillRecord, charge: Charge) -> Iterator[Charge]:
    kind = _word(record.text("ChargeType"))
    category = _CATEGORIES.get(kind)
    if category is None:
        category = "Adjustment"
        record.findings.note(f"of the unknown ChargeType {kind[:60]!r}: taken for adjustments")
    cost = record.cost("CostInBillingCurrency")
    day = record.us_day("Date")
    is_usage = category == "Usage"
    publisher = record.text("PublisherName")
    service = record.text("MeterCategory", "ConsumedService", "ProductName")
    contracted = _contracted(record) if is_usage else None
    in_dollars = record.text("pricingCurrency") == USD and charge["billing_currency"] != USD
    charge |= {
        "invoice_issuer_name": _MICROSOFT,
        "provider_name": _MICROSOFT,
        "publisher_name": publisher or _MICROSOFT,
        "billing_period_start": record.us_day("BillingPeriodStartDate"),
        # The last day of the period.
        "billing_period_end": record.us_day("BillingPeriodEndDate") + timedelta(days=1),
        "charge_period_start": day,
        "charge_period_end": day + timedelta(days=1),
        "charge_category": category,
        "charge_frequency": _FREQUENCIES.get(_word(record.text("Frequency")))
        or ("Usage-Based" if is_usage else "One-Time"),
        "units_per_usd": record.number("exchangeRatePricingToBilling") if in_dollars else None,
        "billed_cost": cost,
        "effective_cost": cost,
        "contracted_cost": cost if contracted is None else contracted,
        "list_cost": _list_cost(record) or cost if is_usage else cost,
        "pricing_category": _pricing_category(record) if is_usage else "",
        "consumed_quantity": charge["pricing_quantity"] if is_usage else None,
        "consumed_unit": charge["pricing_unit"] if is_usage else None,
        "service_category": _SERVICES.get(_word(record.text("ServiceFamily")), "Other"),
        "service_name": service or _MICROSOFT,
        "tags": _tags(record),
    }
    _put_commitments(record, charge, kind)
    yield charge


def _put_commitments(record: BillRecord, charge: Charge, kind: str) -> None:
    """Cash stands on purchases, amortised cost on covered usage and on what is not used, whichever export has the line."""
    model = _word(record.text("PricingModel"))
    id_ = record.text("benefitId", "ReservationId")
    if model not in _COMMITTED and not kind.startswith("unused"):
        return
    charge["commitment_discount_id"] = id_ or record.text("benefitName", "ReservationName", "ProductOrderId")
    cost: Decimal = charge["billed_cost"]
    if charge["charge_category"] == "Usage":
        is_unused = kind.startswith("unused")
        charge |= {
            "billed_cost": Decimal(0),
            "commitment_discount_status": "Unused" if is_unused else "Used",
            "pricing_category": "Committed",
        }
        if is_unused:
            charge |= {"list_cost": Decimal(0), "contracted_cost": Decimal(0)}
        is_amortized = bool(cost) or is_unused
    else:
        charge["effective_cost"] = Decimal(0)
        is_amortized = False
    record.findings.note(_AMORTIZED if is_amortized else _ACTUAL)
    # Covered usage without a price costs nothing in either.
    if is_amortized or charge["list_cost"]:
        record.findings.kind = "amortized" if is_amortized else "actual"


def _list_cost(record: BillRecord) -> Decimal | None:
    """What the public price would be; Azure writes 0 where there is none."""
    return record.number("paygCostInBillingCurrency") or values.product(
        record.number("PayGPrice"), record.number("Quantity")
    )


def _contracted(record: BillRecord) -> Decimal | None:
    """Unit price by quantity, where the price is in the currency of the bill."""
    priced, billed = record.text("pricingCurrency"), record.text("BillingCurrencyCode", "BillingCurrency")
    if priced and priced != billed:
        return None
    return values.product(record.number("UnitPrice"), record.number("Quantity"))


def _pricing_category(record: BillRecord) -> str:
    return "Dynamic" if _word(record.text("PricingModel")) == "spot" else "Standard"


def _tags(record: BillRecord) -> dict[str, str]:
    """Tags of either agreement: one of them writes its JSON objects without braces."""
    found = record.cell("Tags")
    if found is None:
        return {}
    if isinstance(found, str) and not found.lstrip().startswith("{"):
        found = f"{{{found}}}"
        try:
            msgspec.json.decode(found, type=dict[str, object])
        except (msgspec.MsgspecError, RecursionError):
            raise values.BadValueError(f"{values.shown(found)} are no tags") from None
    return dict(values.tags(found))


def _word(text: str) -> str:
    return "".join(each for each in text.lower() if each.isalnum())


_SIGNATURE: Final = (
    "ChargeType",
    "PricingModel",
    "CostInBillingCurrency",
    "MeterId",
    "BillingPeriodStartDate",
)
ENTERPRISE: Final = BillFormat("azure-ea", "Azure cost details (EA)", _SIGNATURE, _COLUMNS, _charges)
CUSTOMER: Final = BillFormat(
    "azure-mca", "Azure cost details (MCA)", (*_SIGNATURE, "costInUsd"), _COLUMNS, _charges
)
