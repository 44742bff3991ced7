"""Lists that do not have all that is sold, or have it in a form that is not read: each says so."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.errors import WrongUseError
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceList
from tests.prices.given import NOW_MS

HERE = Path(__file__).parent / "clouds"
OPENCOST = {"provider": "custom", "CPU": "0.03", "RAM": "0.004", "GPU": "0.95"}
HEADER = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region\n"


def read(content: Any, name: str = "p.json", cloud: str | None = None) -> tuple[list[str], dict[str, int]]:
    """Return the SKUs that are read, and what is left out by reason."""
    text = content if isinstance(content, str) else json.dumps(content)
    given = PriceList(name, text.encode(), cloud)
    return [
        each.event.sku for each in records_of(given, format_of(given), NOW_MS)
    ], given.offers.total().reasons


@pytest.mark.parametrize(
    ("name", "field"),
    [("aws", "NextToken"), ("aws-spot", "NextToken"), ("azure", "NextPageLink"), ("gcp", "nextPageToken")],
)
def test_a_page_that_is_not_the_last_one_says_so(name: str, field: str) -> None:
    page = json.loads((HERE / f"{name}.json").read_bytes())
    skus, whole = read(page | {field: None})
    assert "more_pages" not in whole
    assert read(page | {field: ""}) == (skus, whole)
    assert read(page | {field: "abc"}) == (skus, whole | {"more_pages": 1})


def test_a_meter_of_azure_that_has_ended_is_no_price() -> None:
    page = json.loads((HERE / "azure.json").read_bytes())
    skus, before = read(page)
    page["Items"][0]["effectiveEndDate"] = "2100-01-01T00:00:00Z"
    assert read(page) == (skus, before), "it has not ended yet"
    page["Items"][0]["effectiveEndDate"] = "2024-01-01T00:00:00Z"
    left, reasons = read(page)
    assert left == skus[1:]
    assert reasons["no_plain_price"] > before.get("no_plain_price", 0), "nothing else prices it there"


@pytest.mark.parametrize(
    "description",
    [
        "RTX 6000 96GB running in Iowa",
        "TpuV5e chip hour in Iowa",
        "NVIDIA RTX Pro 6000 running in Iowa",
    ],
)
def test_accelerators_of_google_in_other_words_are_no_parts_of_hosts(description: str) -> None:
    page = json.loads((HERE / "gcp.json").read_bytes())
    skus, before = read(page)
    category = {"resourceGroup": "Compute", "usageType": "OnDemand"}
    page["skus"].append(page["skus"][0] | {"description": description, "category": category, "skuId": "X"})
    assert read(page) == (skus, before | {"unlisted_gpu": before.get("unlisted_gpu", 0) + 1})


def test_prices_of_opencost_in_another_currency_are_refused() -> None:
    assert len(read(OPENCOST | {"currencyCode": "USD"})[0]) == len(read(OPENCOST)[0]) == 3
    with pytest.raises(WrongUseError, match="currencyCode 'EUR', expected USD"):
        read(OPENCOST | {"currencyCode": "EUR"})


def test_discounts_and_other_prices_of_opencost_are_said() -> None:
    others = {
        "discount": "30%",
        "negotiatedDiscount": "0%",
        "natGatewayEgress": "0.045",
        "defaultLBPrice": 0.025,
    }
    skus, reasons = read(OPENCOST | others | {"firstFiveForwardingRulesCost": "0", "description": "1 Price"})
    assert (len(skus), reasons) == (3, {"discount": 1, "unlisted_price": 2})


@pytest.mark.parametrize("row", ["p5.48xlarge,,,192,2048,98.3,,r1", "a4-highgpu-8g,,,224,3968,10,4,r1"])
def test_a_row_of_a_catalogue_that_lacks_its_gpus_is_no_price_of_the_instance(row: str) -> None:
    skus, reasons = read(f"{HEADER}{row}\nc5.large,,,2,4,0.1,,r1\n", "vms.csv", "aws")
    assert (skus, reasons) == (["aws.c5.large.r1"], {"host_without_gpus": 1})
