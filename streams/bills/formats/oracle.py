"""Oracle Cloud's cost reports in CSV; its FOCUS reports are read as FOCUS."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from streams.bills.formats.record import BillFormat, BillRecord, Charge, first_of_month, next_month

_ORACLE: Final = "Oracle Cloud Infrastructure"
_SERVICES: Final = {
    "COMPUTE": "Compute",
    "BLOCK_STORAGE": "Storage",
    "OBJECTSTORE": "Storage",
    "FILE_STORAGE": "Storage",
    "NETWORK": "Networking",
    "DATABASE": "Databases",
    "TELEMETRY": "Management and Governance",
    "LOGGING": "Management and Governance",
}
_COLUMNS: Final = {
    "billing_account_id": ("lineItem/tenantId",),
    "sub_account_id": ("product/compartmentId",),
    "sub_account_name": ("product/compartmentName",),
    "charge_description": ("product/Description", "cost/skuUnitDescription"),
    "billing_currency": ("cost/currencyCode",),
    "list_unit_price": ("cost/unitPrice",),
    "pricing_quantity": ("usage/billedQuantity",),
    "pricing_unit": ("cost/billingUnitReadable", "cost/skuUnitDescription"),
    "consumed_quantity": ("usage/billedQuantity",),
    "consumed_unit": ("cost/billingUnitReadable", "cost/skuUnitDescription"),
    "service_name": ("product/service",),
    "resource_id": ("product/resourceId",),
    "region_id": ("product/region",),
    "availability_zone": ("product/availabilityDomain",),
    "sku_id": ("cost/productSku",),
}


def _charges(record: BillRecord, charge: Charge) -> Iterator[Charge]:
    start = record.instant("lineItem/intervalUsageStart")
    cost = record.cost("cost/myCost")
    is_correction = record.text("lineItem/isCorrection").lower() == "true"
    yield charge | {
        "invoice_issuer_name": _ORACLE,
        "provider_name": _ORACLE,
        "publisher_name": _ORACLE,
        "billing_period_start": first_of_month(start),
        "billing_period_end": next_month(start),
        "charge_period_start": start,
        "charge_period_end": record.instant("lineItem/intervalUsageEnd"),
        "charge_category": "Usage",
        "charge_class": "Correction" if is_correction else None,
        "charge_frequency": "Usage-Based",
        "billed_cost": cost,
        "effective_cost": cost,
        "contracted_cost": cost,
        "list_cost": cost,
        "pricing_category": "Standard",
        "service_category": _SERVICES.get(record.text("product/service").upper(), "Other"),
        "tags": record.with_prefix("tags/"),
    }


COSTS: Final = BillFormat(
    "oracle",
    "Oracle Cloud cost report",
    ("lineItem/intervalUsageStart", "cost/myCost", "lineItem/tenantId"),
    _COLUMNS,
    _charges,
)
