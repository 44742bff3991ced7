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


def test_a_catalogue_with_another_number_of_gpus_than_an_instance_has_is_not_believed() -> None:
    """skypilot-org/skypilot-catalog#50: with 12 GPUs in place of 8 each of them costs a third less."""
    header = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,Price,SpotPrice,Region"
    rows = [
        f"{H100},H100,{count},96,1900,117.984,29.496,{region}" for count, region in ((12, "r1"), (8, "r2"))
    ]
    given = PriceList("vms.csv", "\n".join([header, *rows]).encode(), "azure")
    records = records_of(given, format_of(given), NOW_MS)
    assert {each.event.sku for each in records} == {f"azure.{H100}.r2", f"azure.{H100}.r2.spot"}
    account = given.offers.total()
    assert (account.reasons, account.said) == (
        {"gpus_differ": 1},
        [f"{H100} in r1: 12 GPUs, and it has 8"],
    )


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
    assert "1 price read as aws" in done.out
    assert "read 2: 1 metered, 1 free, 0 not understood\n" in done.err
    assert "free: 1 capacity_block (a capacity block: paid in advance" in done.err


def of_type(type_: str, usd: str, region: str = "us-west-2", **attributes: str) -> dict[str, Any]:
    """Return an offer of GetProducts; attributes that are empty are left out."""
    offer: dict[str, Any] = json.loads(json.loads((HERE / "aws.json").read_bytes())["PriceList"][0])
    found = offer["product"]["attributes"] | {"instanceType": type_, "regionCode": region} | attributes
    offer["product"]["attributes"] = {name: text for name, text in found.items() if text}
    offer["product"]["sku"] = f"{type_}/{region}"
    priced: dict[str, Any] = json.loads(json.dumps(offer).replace("55.0400000000", usd))
    return priced


def test_the_price_of_a_local_zone_is_that_of_its_zones() -> None:
    """Its nodes have the region beside it (vantage-sh/ec2instances.info#573 and #616)."""
    plain = of_type("g4dn.2xlarge", "0.752", gpu="1")
    offers = [plain, of_type("g4dn.2xlarge", "0.902", "us-west-2-lax-1", gpu="1")]
    given = PriceList("p.json", json.dumps({"PriceList": offers}).encode())
    found = [each.event for each in records_of(given, format_of(given), NOW_MS)]
    assert [(each.match["region"], each.match.get("zone", ""), each.usd_nano / 1e9) for each in found] == [
        ("us-west-2", "", 0.752),
        ("us-west-2", "us-west-2-lax-1a", 0.902),
        ("us-west-2", "us-west-2-lax-1b", 0.902),
    ]


def test_accelerators_that_aws_does_not_count_are_counted() -> None:
    """Without the attribute `gpu` they were priced as machines without any."""
    types = {"trn1.32xlarge": 16, "inf2.48xlarge": 12, "dl1.24xlarge": 8, "p4d.24xlarge": 8, "m5.large": 0}
    offers = [of_type(type_, "2.5", gpu="") for type_ in (*types, "p9.48xlarge")]
    given = PriceList("p.json", json.dumps({"PriceList": offers}).encode())
    found = [each.event for each in records_of(given, format_of(given), NOW_MS)]
    assert {each.match["instance_type"]: each.gpus or 0 for each in found} == types
    assert given.offers.total().reasons == {"unlisted_instance": 1}


@pytest.mark.parametrize(
    ("description", "usage", "sku"),
    [
        ("Nvidia H100 80GB Mega GPU running in Americas", "OnDemand", "H100-MEGA.r"),
        ("Nvidia H100 80GB Plus GPU running in Americas", "OnDemand", "H100-MEGA.r"),
        ("Nvidia H100 Mega 80GB GPU attached to Spot Preemptible VMs running in X", "Preemptible", "H100-MEGA.r.spot"),
        ("H200 141GB GPU running in Americas", "OnDemand", "H200.r"),
        ("A4 Nvidia B200 (1 gpu slice) running in Iowa", "OnDemand", "B200.r"),
        ("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Iowa", "OnDemand", "B200.r.spot"),
        ("Nvidia Tesla T4 GPU running in APAC", "OnDemand", "T4.r"),
        ("Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in X", "OnDemand", ""),
        ("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "OnDemand", ""),
        ("Commitment v1: A4 Nvidia B200 (1 gpu slice) in Iowa for 1 Year", "OnDemand", ""),
        ("RTX 6000 96GB running in Iowa", "OnDemand", ""),
    ],
)  # fmt: skip
def test_gpus_of_google_by_their_descriptions(description: str, usage: str, sku: str) -> None:
    """Cyclenerd/google-cloud-pricing-cost-calculator#249: A3 Mega is `Mega` in one region and `Plus` in another."""
    page = json.loads((HERE / "gcp.json").read_bytes())
    plain = page["skus"][0]
    other = plain | {"description": description, "serviceRegions": ["r"], "skuId": "another"}
    other["category"] = plain["category"] | {"usageType": usage}
    found, left_out = dollars(json.dumps({"skus": [plain, other]}).encode())
    assert sorted(found.keys() - {"gcp.gpu.H100.us-central1", "gcp.gpu.H100.us-east4"}) == [
        f"gcp.gpu.{each}" for each in (sku,) if each
    ]
    assert left_out == ({} if sku else {"unlisted_gpu": 1})
