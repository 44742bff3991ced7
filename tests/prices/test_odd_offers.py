"""Offers of clouds that look like the price of a plain instance and are none: left out, counted by reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from streams.errors import WrongUseError
from streams.prices.records import format_of, records_of
from streams.prices.source import PriceList
from tests.cli.command import trainfare
from tests.prices.given import NOW_MS
from tests.source_cases import source_case

HERE = Path(__file__).parent / "clouds"
H100 = "Standard_ND96isr_H100_v5"


def dollars(content: bytes) -> tuple[dict[str, float], dict[str, int]]:
    """Return the only price of each SKU, and what is left out, by reason."""
    given = PriceList("p.json", content)
    records = records_of(given, format_of(given), NOW_MS)
    found = {each.event.sku: each.event.usd_nano / 1e9 for each in records}
    assert len(found) == len(records)
    return found, given.offers.total().reasons


@pytest.mark.parametrize(
    ("name", "prices"),
    [
        ("same_date", {"p5.48xlarge": 55.04}),
        ("cb_later", {"p5.48xlarge": 55.04}),
        ("metal", {"g4dn.metal": 7.824, "p4d.24xlarge": 21.95}),
        ("od", {"p5.48xlarge": 55.04, "g4dn.metal": 7.824, "g6f.large": 0.2, "p4d.24xlarge": 21.95}),
    ],
)
def test_capacity_blocks_at_0_are_no_on_demand_prices(name: str, prices: dict[str, float]) -> None:
    found, left_out = dollars((source_case("19-aws-offers") / f"{name}.json").read_bytes())
    assert found == {f"aws.{type_}.us-east-1": usd for type_, usd in prices.items()}
    assert left_out.get("capacity_block", 0) == (name != "metal")
    assert "no_plain_price" not in left_out


def aws(**attributes: str) -> bytes:
    """Return an answer of GetProducts: the p5 at $55.04, and the same a month later at $0.01 with other attributes."""
    offer = json.loads(json.loads((HERE / "aws.json").read_bytes())["PriceList"][0])
    text = json.dumps(offer).replace("2026-06-01", "2026-07-01").replace("55.0400000000", "0.01")
    other = json.loads(text)
    other["product"]["attributes"] |= attributes
    return json.dumps({"PriceList": [offer, other]}).encode()


@pytest.mark.parametrize(
    "attributes",
    [{"marketoption": "CapacityBlock"}, {"marketoption": "New"}, {"operation": "RunInstances:CB"}],
)
def test_only_what_aws_sells_on_demand_is_an_on_demand_price(attributes: dict[str, str]) -> None:
    found, left_out = dollars(aws(**attributes))
    assert found == {"aws.p5.48xlarge.us-east-1": 55.04}
    assert left_out == {"capacity_block": 1}


def test_a_price_of_0_of_a_cloud_is_none() -> None:
    found, left_out = dollars(aws(marketoption="OnDemand").replace(b'"0.01"', b'"0.0000000000"'))
    assert found == {"aws.p5.48xlarge.us-east-1": 55.04}
    assert left_out == {"zero": 1}


def test_a_price_of_0_of_google_is_none() -> None:
    page = json.loads((HERE / "gcp.json").read_bytes())
    before, _ = dollars(json.dumps(page).encode())
    for pricing in page["skus"][0]["pricingInfo"]:
        pricing["pricingExpression"]["tieredRates"][-1]["unitPrice"] |= {"units": "0", "nanos": 0}
    found, left_out = dollars(json.dumps(page).encode())
    assert found == {sku: usd for sku, usd in before.items() if ".H100." not in sku}
    assert left_out["no_plain_price"] == 1


def test_instances_of_skypilot_with_a_share_of_a_gpu_are_counted() -> None:
    header = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region"
    rows = f"{header}\ng6f.large,L4,0.125,2,8,0.2,,r1\ng6.xlarge,L4,1,4,16,0.8,,r1"
    given = PriceList("vms.csv", rows.encode(), "aws")
    records = records_of(given, format_of(given), NOW_MS)
    assert [each.event.sku for each in records] == ["aws.g6.xlarge.r1"]
    account = given.offers.total()
    assert (account.reasons, account.said) == ({"gpu_share": 1}, ["g6f.large: 0.125 L4"])


def test_a_list_of_which_all_is_left_out_says_what_and_why() -> None:
    content = aws().replace(b'"0.01"', b'"0"').replace(b"55.0400000000", b"0")
    with pytest.raises(WrongUseError, match=r"2 no_plain_price; first: p5.48xlarge in us-east-1: \$0"):
        dollars(content)


@pytest.mark.parametrize(
    ("name", "prices", "left_out"),
    [
        ("cloudservices", {"Standard_E4as_v5.northeurope": 0.226}, 1),
        ("same_date", {"Standard_E4as_v5.northeurope": 0.226}, 1),
        ("azure", {f"{H100}.eastus": 98.32, f"{H100}.eastus.spot": 36.3784}, 9),
    ],
)
def test_azures_other_meters_of_a_machine_are_not_its_price(
    name: str, prices: dict[str, float], left_out: int
) -> None:
    found, others = dollars((source_case("05-azure-retail-meters") / f"{name}.json").read_bytes())
    assert found == {f"azure.{sku}": usd for sku, usd in prices.items()}
    assert sum(others.values()) == left_out


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"productName": "NDsr H100 v5 Series CloudServices"}, "cloud_services"),
        ({"productName": "NDsr H100 v5 Series Cloud Services"}, "cloud_services"),
        ({"productName": "NDsr H100 v5 DedicatedHost"}, "dedicated"),
        ({"meterName": "ND96isr H100 v5/Dedicated Host"}, "dedicated"),
        ({"meterName": "ND96isr H100 v5 Expired"}, "expired"),
        ({"isPrimaryMeterRegion": False}, "secondary_region"),
        ({"tierMinimumUnits": 100.0}, "above_first"),
        ({"retailPrice": 0.0}, "zero"),
        ({"productName": "NDsr H100 v5 Series windows"}, "other_system"),
        ({"meterName": "ND96isr H100 v5 Low Priority"}, "low_priority"),
    ],
)
def test_a_later_meter_for_something_else_does_not_replace_the_price(
    fields: dict[str, Any], reason: str
) -> None:
    page = json.loads((HERE / "azure.json").read_bytes())
    plain = page["Items"][0]
    page["Items"].append(plain | {"effectiveStartDate": "2026-09-01T00:00:00Z", "retailPrice": 1.0} | fields)
    _, before = dollars((HERE / "azure.json").read_bytes())
    found, left_out = dollars(json.dumps(page).encode())
    assert found == {f"azure.{H100}.eastus": 98.32, f"azure.{H100}.eastus.spot": 39.328}
    assert left_out == before | {reason: before.get(reason, 0) + 1}


def test_the_command_says_what_it_left_out(tmp_path: Path) -> None:
    (tmp_path / "od.json").write_bytes(aws(marketoption="CapacityBlock"))
    done = trainfare("prices", "load", str(tmp_path / "od.json"), "--dry-run")
    assert "1 prices read as aws" in done.out
    assert "read 2: 1 metered, 1 free, 0 not understood\n" in done.err
    assert "free: 1 capacity_block (a capacity block: paid in advance" in done.err
