"""The same charges in the form of each provider's export, with the columns that its documentation names."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Callable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from typing import NamedTuple

MONTH = date(2026, 10, 1)
MONTH_END = date(2026, 11, 1)


class Bill(NamedTuple):
    """One charge of a day of October 2026, in words that every provider has."""

    resource: str
    cost: str
    day: int = 1
    kind: str = "usage"  # adjustment: money back
    quantity: str = "24"
    rate: str = "1.5"
    tags: Mapping[str, str] = {}
    account: str = "account-1"
    currency: str = "USD"

    @property
    def start(self) -> date:
        return date(2026, 10, self.day)

    @property
    def end(self) -> date:
        return self.start + timedelta(days=1)

    @property
    def is_usage(self) -> bool:
        return self.kind == "usage"


#: Amounts with as many digits as exports have, tags with what CSV and JSON must escape.
BILLS = (
    Bill("node-1", "36.0123456789", tags={"team": "vision", "trainfare_job": 'job "7", of 9'}),
    Bill("node-1", "0.000000000000123", day=2, quantity="0.5"),
    Bill("=cmd|' /C calc'!A0", "12.34567890123456", day=31, rate="0.1234567891"),
    Bill("node-2", "-3.25", day=3, kind="adjustment"),
    Bill("node-3", "0", day=4, rate="0", account="account-2", tags={"team": "språk"}),
)
SERVICE, SKU, REGION, UNIT, DESCRIPTION, PAYER = (
    "Compute Engine", "SKU-1", "eu-central-1", "Hours", "an hour of a node", "payer-1",
)  # fmt: skip


def csv_text(rows: Sequence[Mapping[str, str]]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(
        out, list(dict.fromkeys(name for row in rows for name in row)), lineterminator="\n"
    )
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def focus(bills: Sequence[Bill], provider: str = "AWS") -> str:
    """FOCUS 1.2."""
    return csv_text(
        [
            {
                "InvoiceIssuerName": provider,
                "ProviderName": provider,
                "PublisherName": provider,
                "BillingAccountId": PAYER,
                "BillingAccountName": "",
                "SubAccountId": each.account,
                "BillingPeriodStart": f"{MONTH}T00:00:00Z",
                "BillingPeriodEnd": f"{MONTH_END}T00:00:00Z",
                "ChargePeriodStart": f"{each.start}T00:00:00Z",
                "ChargePeriodEnd": f"{each.end}T00:00:00Z",
                "ChargeCategory": "Usage" if each.is_usage else "Adjustment",
                "ChargeClass": "",
                "ChargeDescription": DESCRIPTION,
                "ChargeFrequency": "Usage-Based" if each.is_usage else "One-Time",
                "BillingCurrency": each.currency,
                "BilledCost": each.cost,
                "EffectiveCost": each.cost,
                "ContractedCost": each.cost,
                "ListCost": each.cost,
                "ListUnitPrice": each.rate if each.is_usage else "",
                "PricingCategory": "Standard" if each.is_usage else "",
                "PricingQuantity": each.quantity if each.is_usage else "",
                "PricingUnit": UNIT if each.is_usage else "",
                "ConsumedQuantity": each.quantity if each.is_usage else "",
                "ConsumedUnit": UNIT if each.is_usage else "",
                "ServiceCategory": "Compute",
                "ServiceName": SERVICE,
                "ResourceId": each.resource,
                "RegionId": REGION,
                "SkuId": SKU,
                "Tags": json.dumps(dict(each.tags)),
            }
            for each in bills
        ]
    )


def _cur(each: Bill) -> dict[str, str]:
    return {
        "identity/LineItemId": "x7",
        "identity/TimeInterval": f"{each.start}T00:00:00Z/{each.end}T00:00:00Z",
        "bill/InvoiceId": "",
        "bill/InvoicingEntity": "AWS",
        "bill/BillingEntity": "AWS",
        "bill/BillType": "Anniversary",
        "bill/PayerAccountId": PAYER,
        "bill/BillingPeriodStartDate": f"{MONTH}T00:00:00Z",
        "bill/BillingPeriodEndDate": f"{MONTH_END}T00:00:00Z",
        "lineItem/UsageAccountId": each.account,
        "lineItem/LineItemType": "Usage" if each.is_usage else "Refund",
        "lineItem/UsageStartDate": f"{each.start}T00:00:00Z",
        "lineItem/UsageEndDate": f"{each.end}T00:00:00Z",
        "lineItem/ProductCode": "AmazonEC2",
        "lineItem/UsageType": "EUC1-BoxUsage:p5.48xlarge",
        "lineItem/Operation": "RunInstances",
        "lineItem/AvailabilityZone": "",
        "lineItem/ResourceId": each.resource,
        "lineItem/UsageAmount": each.quantity if each.is_usage else "",
        "lineItem/CurrencyCode": each.currency,
        "lineItem/UnblendedRate": each.rate,
        "lineItem/UnblendedCost": each.cost,
        "lineItem/BlendedCost": "7",
        "lineItem/LineItemDescription": DESCRIPTION,
        "lineItem/LegalEntity": "AWS",
        "product/ProductName": SERVICE,
        "product/region": REGION,
        "product/sku": SKU,
        "pricing/publicOnDemandCost": each.cost,
        "pricing/publicOnDemandRate": each.rate if each.is_usage else "",
        "pricing/unit": UNIT if each.is_usage else "",
        "reservation/ReservationARN": "",
        "savingsPlan/SavingsPlanARN": "",
    }


def aws_legacy(bills: Sequence[Bill]) -> str:
    keys = sorted({key for each in bills for key in each.tags})
    return csv_text(
        [
            {**_cur(each), **{f"resourceTags/user:{key}": each.tags.get(key, "") for key in keys}}
            for each in bills
        ]
    )


def aws_two(bills: Sequence[Bill]) -> str:
    """The columns of CUR 2.0 have other case and punctuation, and maps."""
    rows = []
    for each in bills:
        row = {_snake(name): text for name, text in _cur(each).items() if name != "product/ProductName"}
        row["product"] = json.dumps({"product_name": SERVICE, "instance_type": "p5.48xlarge"})
        row["resource_tags"] = json.dumps({f"user_{key}": text for key, text in each.tags.items()})
        row |= {"bill_payer_account_name": "", "line_item_usage_account_name": "", "cost_category": "{}"}
        rows.append(row)
    return csv_text(rows)


def _snake(name: str) -> str:
    group, _, rest = name.partition("/")
    words = "".join(f"_{each.lower()}" if each.isupper() else each for each in f"{group}/{rest}")
    return words.replace("/_", "_").replace("/", "_").replace("_a_r_n", "_arn")


def gcp_records(bills: Sequence[Bill]) -> list[dict[str, object]]:
    """Rows of the BigQuery table, as it writes them in JSON: instants with UTC, empty columns left out."""
    return [
        {
            "billing_account_id": PAYER,
            "service": {"id": "6F81-5844-456A", "description": SERVICE},
            "sku": {"id": SKU, "description": DESCRIPTION},
            "usage_start_time": f"{each.start} 00:00:00 UTC",
            "usage_end_time": f"{each.end} 00:00:00 UTC",
            "project": {"id": each.account, "number": "1", "labels": [], "ancestors": []},
            "labels": [{"key": key, "value": text} for key, text in each.tags.items()],
            "system_labels": [{"key": "compute.googleapis.com/machine_spec", "value": "a3-highgpu-8g"}],
            "location": {"location": REGION, "country": "DE", "region": REGION},
            "tags": [],
            "resource": {"global_name": each.resource},
            **({"price": {"list_price": each.rate, "tier_start_amount": "0"}} if each.is_usage else {}),
            "cost": float(each.cost) if len(each.cost) < 12 else each.cost,
            "currency": each.currency,
            "currency_conversion_rate": 1.0,
            **(
                {
                    "usage": {
                        "amount": each.quantity,
                        "unit": UNIT,
                        "amount_in_pricing_units": each.quantity,
                        "pricing_unit": UNIT,
                    }
                }
                if each.is_usage
                else {}
            ),
            "credits": [],
            "invoice": {"month": "202610", "publisher_type": "GOOGLE"},
            "cost_type": "regular" if each.is_usage else "adjustment",
            "export_time": "2026-11-02 00:00:00 UTC",
            "cost_at_list": each.cost,
            "transaction_type": "GOOGLE",
        }
        for each in bills
    ]


def gcp_json(bills: Sequence[Bill]) -> str:
    return "".join(json.dumps(each) + "\n" for each in gcp_records(bills))


def gcp_csv(bills: Sequence[Bill]) -> str:
    """What is nested is JSON in a cell, as `bq query --format=csv` writes it."""
    return csv_text(
        [
            {name: value if isinstance(value, str) else json.dumps(value) for name, value in each.items()}
            for each in gcp_records(bills)
        ]
    )


def gcp_flat_csv(bills: Sequence[Bill]) -> str:
    """What is nested has columns of its own, as a query with aliases makes them."""
    rows = []
    for each in gcp_records(bills):
        row: dict[str, str] = {}
        for name, value in each.items():
            inner = (
                {f"{name}.{key}": found for key, found in value.items()}
                if isinstance(value, dict)
                else {name: value}
            )
            row |= {
                key: found if isinstance(found, str) else json.dumps(found) for key, found in inner.items()
            }
        rows.append(row)
    return csv_text(rows)


def _azure(each: Bill) -> dict[str, str]:
    return {
        "InvoiceSectionName": "ml",
        "SubscriptionId": each.account,
        "SubscriptionName": "",
        "Date": f"{each.start:%m/%d/%Y}",
        "ProductName": DESCRIPTION,
        "MeterCategory": SERVICE,
        "MeterSubCategory": "ND",
        "MeterId": SKU,
        "MeterName": "ND96 v5",
        "MeterRegion": "DE",
        "UnitOfMeasure": UNIT if each.is_usage else "",
        "Quantity": each.quantity if each.is_usage else "",
        "EffectivePrice": each.rate,
        "CostInBillingCurrency": each.cost,
        "CostCenter": "",
        "ConsumedService": "Microsoft.Compute",
        "ResourceId": each.resource,
        "AdditionalInfo": "",
        "ReservationId": "",
        "ReservationName": "",
        "Term": "",
        "PublisherType": "Azure",
        "PublisherName": "",
        "ChargeType": "Usage" if each.is_usage else "Refund",
        "Frequency": "UsageBased" if each.is_usage else "OneTime",
        "PricingModel": "OnDemand",
        "BillingAccountId": PAYER,
        "BillingAccountName": "",
        "BillingPeriodStartDate": "10/01/2026",
        "BillingPeriodEndDate": "10/31/2026",
        "PayGPrice": each.rate if each.is_usage else "",
        "ServiceFamily": "Compute",
        "benefitId": "",
        "benefitName": "",
    }


def azure_ea(bills: Sequence[Bill]) -> str:
    """Tags without braces, and no price but that of the list."""
    return csv_text(
        [
            {
                **_azure(each),
                "AccountOwnerId": "owner",
                "OfferId": "MS-AZR-0017P",
                "ResourceLocation": REGION,
                "ResourceName": "",
                "PartNumber": "",
                "BillingCurrencyCode": each.currency,
                "paygCostInBillingCurrency": each.cost,
                "Tags": json.dumps(dict(each.tags))[1:-1],
            }
            for each in bills
        ]
    )


def azure_mca(bills: Sequence[Bill]) -> str:
    return csv_text(
        [
            {
                **{name[:1].lower() + name[1:]: text for name, text in _azure(each).items()},
                "invoiceId": "",
                "resourceLocation": REGION,
                "billingCurrency": each.currency,
                "pricingCurrency": "USD",
                "costInPricingCurrency": each.cost,
                "costInUsd": each.cost,
                "paygCostInBillingCurrency": each.cost,
                "exchangeRatePricingToBilling": "1",
                "tags": json.dumps(dict(each.tags)),
                "provider": "Azure",
            }
            for each in bills
        ]
    )


def oracle(bills: Sequence[Bill]) -> str:
    keys = sorted({key for each in bills for key in each.tags})
    return csv_text(
        [
            {
                "lineItem/referenceNo": "V2.7",
                "lineItem/tenantId": PAYER,
                "lineItem/intervalUsageStart": f"{each.start}T00:00Z",
                "lineItem/intervalUsageEnd": f"{each.end}T00:00Z",
                "product/service": "COMPUTE",
                "product/compartmentId": each.account,
                "product/compartmentName": "",
                "product/region": REGION,
                "product/availabilityDomain": "",
                "product/resourceId": each.resource,
                "usage/billedQuantity": each.quantity,
                "usage/billedQuantityOverage": "",
                "cost/subscriptionId": "42",
                "cost/productSku": SKU,
                "product/Description": DESCRIPTION,
                "cost/unitPrice": each.rate,
                "cost/myCost": each.cost,
                "cost/myCostOverage": "",
                "cost/currencyCode": each.currency,
                "cost/billingUnitReadable": UNIT,
                "lineItem/isCorrection": "false",
                **{f"tags/{key}": each.tags.get(key, "") for key in keys},
            }
            for each in bills
        ]
    )


def plain_list(bills: Sequence[Bill]) -> str:
    return csv_text(
        [
            {
                "date": str(each.start),
                "resource": each.resource,
                "amount": each.cost,
                "currency": each.currency,
                "account": each.account,
                "service": SERVICE,
                "tags": json.dumps(dict(each.tags)),
            }
            for each in bills
        ]
    )


class Export(NamedTuple):
    """How one format writes the charges."""

    format: str
    title: str
    ending: str
    text: Callable[[Sequence[Bill]], str]
    cost_column: str
    provider: str
    can_say_all: bool = True  # every column that FOCUS has of these charges


EXPORTS = {
    "focus": Export("focus", "FOCUS", "csv", focus, "BilledCost", "AWS"),
    "aws-cur": Export(
        "aws-cur", "AWS Cost and Usage Report (legacy)", "csv", aws_legacy, "lineItem/UnblendedCost", "AWS"
    ),
    "aws-cur-2": Export(
        "aws-cur-2", "AWS Cost and Usage Report 2.0", "csv", aws_two, "line_item_unblended_cost", "AWS"
    ),
    "gcp json": Export(
        "gcp", "Google Cloud detailed billing export", "jsonl", gcp_json, "cost", "Google Cloud"
    ),
    "gcp csv": Export("gcp", "Google Cloud detailed billing export", "csv", gcp_csv, "cost", "Google Cloud"),
    "gcp flat": Export(
        "gcp", "Google Cloud detailed billing export", "csv", gcp_flat_csv, "cost", "Google Cloud"
    ),
    "azure-ea": Export(
        "azure-ea", "Azure cost details (EA)", "csv", azure_ea, "CostInBillingCurrency", "Microsoft"
    ),
    "azure-mca": Export(
        "azure-mca", "Azure cost details (MCA)", "csv", azure_mca, "costInBillingCurrency", "Microsoft"
    ),
    "oracle": Export(
        "oracle", "Oracle Cloud cost report", "csv", oracle, "cost/myCost", "Oracle Cloud Infrastructure", can_say_all=False
    ),
    "plain": Export("plain", "plain list of costs", "csv", plain_list, "amount", "invoice", can_say_all=False),
}  # fmt: skip


def total_of(bills: Sequence[Bill]) -> Decimal:
    return sum((Decimal(each.cost) for each in bills), Decimal(0))
