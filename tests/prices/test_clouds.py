"""Documents of clouds: which prices they hold, for what, from when; and what of them is none of a job's."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.errors import WrongUseError
from streams.prices.records import PriceRecord, format_of, records_of
from streams.prices.source import PriceFormat, PriceList
from tests.prices.given import NOW_MS, read

HERE = Path(__file__).parent / "clouds"
JUNE_MS = 1_780_272_000_000
CLOUDS = ("aws", "aws-spot", "azure", "gcp")


def text(name: str) -> str:
    return (HERE / f"{name}.json").read_text()


def shown(records: list[PriceRecord]) -> list[tuple[Any, ...]]:
    return [
        (
            each.event.sku,
            each.event.component,
            each.event.usd_nano,
            each.event.gpus,
            each.event.effective_ms - JUNE_MS,
        )
        for each in records
    ]


@pytest.mark.parametrize("name", CLOUDS)
def test_the_format_is_recognised(name: str) -> None:
    assert format_of(PriceList("p.json", text(name).encode())) is PriceFormat(name)


def test_aws_on_demand() -> None:
    found = read(text("aws"), "p.json")
    assert shown(found) == [
        ("aws.p5.48xlarge.us-east-1", "gpu", 55_040_000_000, 8, 0),
        ("aws.c5.large.eu-west-1", "compute", 96_000_000, 0, 0),
    ]
    assert found[0].event.match == {"cloud": "aws", "region": "us-east-1", "instance_type": "p5.48xlarge"}
    assert [each.line for each in found] == [4, 6]


def test_aws_of_the_bulk_api_and_entries_that_are_objects() -> None:
    offers = [json.loads(each) for each in json.loads(text("aws"))["PriceList"]]
    bulk = {
        "formatVersion": "v1.0",
        "disclaimer": "x" * 300,
        "offerCode": "AmazonEC2",
        "products": {each["product"]["sku"]: each["product"] for each in offers},
        "terms": {"OnDemand": {each["product"]["sku"]: each["terms"]["OnDemand"] for each in offers}},
    }
    wanted = shown(read(text("aws"), "p.json"))
    assert shown(read(json.dumps(bulk, indent=1), "p.json")) == wanted
    assert shown(read(json.dumps({"PriceList": offers}), "p.json")) == wanted


def test_aws_spot_by_zone_and_time() -> None:
    found = read(text("aws-spot"), "p.json")
    assert shown(found) == [
        ("aws.p5.48xlarge.us-east-1a.spot", "gpu", 14_250_000_000, 8, 36_000_000),
        ("aws.p5.48xlarge.us-east-1a.spot", "gpu", 15_500_000_000, 8, 43_200_000),
        ("aws.g4dn.xlarge.us-west-2-lax-1a.spot", "gpu", 157_800_000, 1, 43_200_000),
    ]
    assert found[0].event.match == {
        "cloud": "aws",
        "region": "us-east-1",
        "zone": "us-east-1a",
        "instance_type": "p5.48xlarge",
        "purchase": "spot",
    }
    assert found[2].event.match["region"] == "us-west-2"


def test_azure() -> None:
    found = read(text("azure"), "p.json")
    assert [row[:4] for row in shown(found)] == [
        ("azure.Standard_ND96isr_H100_v5.eastus", "gpu", 98_320_000_000, 8),
        ("azure.Standard_ND96isr_H100_v5.eastus.spot", "gpu", 39_328_000_000, 8),
    ]
    assert found[1].event.match["purchase"] == "spot"


def test_gcp_in_every_region() -> None:
    found = read(text("gcp"), "p.json")
    assert shown(found) == [
        ("gcp.gpu.H100.us-central1", "gpu", 9_000_796_553, 1, 36_000_123),
        ("gcp.gpu.H100.us-east4", "gpu", 9_000_796_553, 1, 36_000_123),
        ("gcp.gpu.A100-80GB.europe-west4.spot", "gpu", 1_570_000_000, 1, 36_000_000),
    ]
    assert found[2].event.match == {
        "cloud": "gcp",
        "region": "europe-west4",
        "gpu_type": "A100-80GB",
        "purchase": "spot",
    }


@pytest.mark.parametrize("name", CLOUDS)
def test_the_users_date_and_cloud_count(name: str) -> None:
    for each in read(
        text(name).replace("2026-06-01T12", "2026-06-01T10").replace("15.50", "14.25"), "p.json", "mine", 5
    ):
        assert each.event.effective_ms == 5
        assert each.event.match["cloud"] == "mine"


@pytest.mark.parametrize(
    ("name", "old", "new", "said"),
    [
        ("aws-spot", "14.250000", "-1", "line 3: got '-1', expected a number of dollars"),
        ("aws-spot", '"SpotPrice": "14.25', '"Spot": "14.25', "line 3: not a spot price"),
        ("aws", "55.0400000000", "many", "line 4: got 'many'"),
        (
            "azure",
            '"USD","tierMinimumUnits"',
            '"EUR","tierMinimumUnits"',
            "line 2: currencyCode 'EUR', expected USD",
        ),
        ("gcp", '"USD"', '"CHF"', "line 3: currencyCode 'CHF', expected USD"),
        ("gcp", "Nvidia", "AMD", "no price of a plain instance or GPU"),
    ],
)
def test_what_cannot_be_read_is_said_with_its_line(name: str, old: str, new: str, said: str) -> None:
    with pytest.raises(WrongUseError) as fault:
        read(text(name).replace(old, new), "p.json")
    assert said in str(fault.value)


@pytest.mark.parametrize("name", CLOUDS)
@given(data=st.data())
def test_bytes_changed_at_random_are_prices_or_refused(name: str, data: st.DataObject) -> None:
    content = bytearray((HERE / f"{name}.json").read_bytes())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 9))] = data.draw(st.binary(max_size=9))
    given_list = PriceList("p.json", bytes(content))
    with suppress(WrongUseError):
        assert records_of(given_list, PriceFormat(name), NOW_MS)
