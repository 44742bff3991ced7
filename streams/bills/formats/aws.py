"""AWS's Cost and Usage Report: CUR 2.0 of Data Exports, and the legacy one, in CSV or Parquet.

Both have the same columns under names that differ in case and punctuation; 2.0 has maps where the legacy one has columns.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from streams.bills import values
from streams.bills.formats.record import BillFormat, BillRecord, Charge

_AWS: Final = "AWS"
_CATEGORIES: Final = {
    "Usage": "Usage",
    "DiscountedUsage": "Usage",
    "SavingsPlanCoveredUsage": "Usage",
    "Fee": "Purchase",
    "RIFee": "Purchase",
    "SavingsPlanRecurringFee": "Purchase",
    "SavingsPlanUpfrontFee": "Purchase",
    "Tax": "Tax",
    "Credit": "Credit",
    "Refund": "Adjustment",
}
_RECURRING: Final = ("RIFee", "SavingsPlanRecurringFee")
#: By the start of the code of a service.
_SERVICES: Final = {
    "AmazonEC2": "Compute",
    "AmazonECS": "Compute",
    "AmazonEKS": "Compute",
    "AWSLambda": "Compute",
    "AmazonSageMaker": "AI and Machine Learning",
    "AmazonBedrock": "AI and Machine Learning",
    "AmazonS3": "Storage",
    "AmazonEFS": "Storage",
    "AmazonFSx": "Storage",
    "AWSBackup": "Storage",
    "AmazonRDS": "Databases",
    "AmazonDynamoDB": "Databases",
    "AmazonElastiCache": "Databases",
    "AmazonVPC": "Networking",
    "AmazonCloudFront": "Networking",
    "AWSDataTransfer": "Networking",
    "AWSELB": "Networking",
    "AmazonRoute53": "Networking",
    "AmazonCloudWatch": "Management and Governance",
    "AmazonAthena": "Analytics",
    "AWSGlue": "Analytics",
}
_COLUMNS: Final = {
    "invoice_issuer_name": ("bill/InvoicingEntity",),
    "publisher_name": ("lineItem/LegalEntity",),
    "invoice_id": ("bill/InvoiceId",),
    "billing_account_id": ("bill/PayerAccountId",),
    "billing_account_name": ("bill/PayerAccountName",),
    "sub_account_id": ("lineItem/UsageAccountId",),
    "sub_account_name": ("lineItem/UsageAccountName",),
    "charge_description": ("lineItem/LineItemDescription",),
    "billing_currency": ("lineItem/CurrencyCode",),
    "list_unit_price": ("pricing/publicOnDemandRate",),
    "pricing_quantity": ("lineItem/UsageAmount",),
    "pricing_unit": ("pricing/unit",),
    "resource_id": ("lineItem/ResourceId",),
    "region_id": ("product/regionCode", "product/region"),
    "availability_zone": ("lineItem/AvailabilityZone",),
    "sku_id": ("product/sku",),
    "sku_price_id": ("pricing/RateId",),
}


def _charges(record: BillRecord, charge: Charge) -> Iterator[Charge]:
    kind = record.text("lineItem/LineItemType")
    cost = record.cost("lineItem/UnblendedCost")
    findings = record.findings
    if kind == "SavingsPlanNegation":
        # It takes back the price of covered usage, which is no charge here in the first place.
        findings.taken_back_units += values.units_of(cost)
        findings.note("of type SavingsPlanNegation, which takes back the price of covered usage: no charge")
        return
    if record.text("splitLineItem/ParentResourceId") and not cost:
        findings.note("of pods and tasks without a cost: their part stands on the line of their instance")
    category = _CATEGORIES.get(kind)
    if category is None:
        category = "Adjustment"
        if not kind.endswith("Discount"):
            findings.note(f"of the unknown type {kind[:60]!r}: taken for adjustments")
    service = record.text("lineItem/ProductCode")
    product = record.pairs("product")
    is_usage = category == "Usage"
    list_cost = record.number("pricing/publicOnDemandCost") if is_usage else None
    charge |= {
        "invoice_issuer_name": charge["invoice_issuer_name"] or _AWS,
        "provider_name": _AWS,
        "publisher_name": charge["publisher_name"] or _AWS,
        "billing_period_start": record.instant("bill/BillingPeriodStartDate"),
        "billing_period_end": record.instant("bill/BillingPeriodEndDate"),
        "charge_period_start": record.instant("lineItem/UsageStartDate"),
        "charge_period_end": record.instant("lineItem/UsageEndDate"),
        "charge_category": category,
        "charge_frequency": "Usage-Based" if is_usage else "Recurring" if kind in _RECURRING else "One-Time",
        "billed_cost": cost,
        "effective_cost": cost,
        "contracted_cost": cost,
        "list_cost": cost if list_cost is None else list_cost,
        "pricing_category": _pricing_category(record, is_usage=is_usage),
        "consumed_quantity": charge["pricing_quantity"] if is_usage else None,
        "consumed_unit": charge["pricing_unit"] if is_usage else None,
        "service_category": next(
            (found for code, found in _SERVICES.items() if service.startswith(code)), "Other"
        ),
        "service_name": record.text("product/ProductName") or product.get("product_name") or service or _AWS,
        "region_id": charge["region_id"] or product.get("region"),
        "tags": _tags(record),
    }
    yield from _committed(record, charge, kind)


def _committed(record: BillRecord, charge: Charge, kind: str) -> Iterator[Charge]:
    """Put what a commitment pays for where FOCUS has it: cash on its purchase, amortised cost on use and on what is not used."""
    plan, reservation = record.text("savingsPlan/SavingsPlanARN"), record.text("reservation/ReservationARN")
    unused = Decimal(0)
    if kind == "SavingsPlanCoveredUsage":
        record.findings.taken_back_units += values.units_of(charge["billed_cost"])
        charge["billed_cost"] = Decimal(0)
        charge["effective_cost"] = record.cost("savingsPlan/SavingsPlanEffectiveCost")
    elif kind == "DiscountedUsage":
        charge["effective_cost"] = record.cost("reservation/EffectiveCost")
    elif kind == "SavingsPlanRecurringFee":
        unused = values.difference(
            _number(record, "savingsPlan/TotalCommitmentToDate"),
            _number(record, "savingsPlan/UsedCommitment"),
        )
    elif kind == "RIFee":
        unused = values.total(
            _number(record, f"reservation/Unused{each}")
            for each in ("AmortizedUpfrontFeeForBillingPeriod", "RecurringFee")
        )
    elif not (kind == "Fee" and reservation) and kind != "SavingsPlanUpfrontFee":
        yield charge
        return
    is_use = charge["charge_category"] == "Usage"
    charge["commitment_discount_id"] = plan or reservation
    if is_use:
        charge |= {"commitment_discount_status": "Used", "pricing_category": "Committed"}
    else:
        charge["effective_cost"] = Decimal(0)
    yield charge
    if unused > 0:
        yield charge | {
            "charge_category": "Usage",
            "charge_frequency": "Usage-Based",
            "billed_cost": Decimal(0),
            "effective_cost": unused,
            "contracted_cost": Decimal(0),
            "list_cost": Decimal(0),
            "commitment_discount_status": "Unused",
            "pricing_category": "Committed",
            "pricing_quantity": None,
            "pricing_unit": None,
        }


def _number(record: BillRecord, column: str) -> Decimal:
    return record.number(column) or Decimal(0)


def _pricing_category(record: BillRecord, *, is_usage: bool) -> str:
    if not is_usage:
        return ""
    return "Dynamic" if "SpotUsage" in record.text("lineItem/UsageType") else "Standard"


def _tags(record: BillRecord) -> dict[str, str]:
    """Tags of users under the names that they gave them."""
    found = record.pairs("resource_tags") or {
        **record.with_prefix("resourceTags/"),
        **record.with_prefix("resource_tags_"),
    }
    return {key.removeprefix("user:").removeprefix("user_"): text for key, text in found.items() if text}


_SIGNATURE: Final = ("lineItem/LineItemType", "lineItem/UnblendedCost", "bill/PayerAccountId")
LEGACY: Final = BillFormat("aws-cur", "AWS Cost and Usage Report (legacy)", _SIGNATURE, _COLUMNS, _charges)
#: Only it names accounts.
TWO: Final = BillFormat(
    "aws-cur-2", "AWS Cost and Usage Report 2.0", (*_SIGNATURE, "bill_payer_account_name"), _COLUMNS, _charges
)
