"""SkyPilot's catalogue: whole instances, hosts and GPUs apart, zones only where they differ, empty spot prices."""

from __future__ import annotations

import csv
from decimal import Decimal

import pytest

from streams.errors import WrongUseError
from streams.prices.findings import findings
from streams.prices.skypilot import zone_ids
from streams.prices.source import PriceFormat
from tests.prices.given import DATA, read, read_data

HEADER = "InstanceType,AcceleratorName,AcceleratorCount,vCPUs,MemoryGiB,GpuInfo,Price,SpotPrice,Region,AvailabilityZone\n"


def prices(rows: str, cloud: str = "aws") -> dict[str, tuple[str, int, int, dict[str, str]]]:
    return {
        each.event.sku: (each.event.component, each.event.usd_nano, each.event.gpus, each.event.match)
        for each in read(HEADER + rows, "vms.csv", cloud=cloud)
    }


def test_a_zone_is_named_only_where_zones_differ() -> None:
    found = prices(
        "p5,H100,8.0,1,1,\"{'Gpus': []}\",55.04,10.5,r1,r1-a\n"
        'p5,H100,8.0,1,1,"",55.04,11.5,r1,r1-b\n'
        "p5,H100,8.0,1,1,,60.1,12,r2,r2-a\n"
        "p5,H100,8.0,1,1,,60.1,12.000000,r2,r2-b\n"
    )
    at = {"cloud": "aws", "instance_type": "p5", "gpu_type": "H100"}
    spot = {**at, "purchase": "spot"}
    assert found == {
        "aws.p5.r1": ("gpu", 55_040_000_000, 8, {**at, "region": "r1"}),
        "aws.p5.r2": ("gpu", 60_100_000_000, 8, {**at, "region": "r2"}),
        "aws.p5.r1-a.spot": ("gpu", 10_500_000_000, 8, {**spot, "region": "r1", "zone": "r1-a"}),
        "aws.p5.r1-b.spot": ("gpu", 11_500_000_000, 8, {**spot, "region": "r1", "zone": "r1-b"}),
        "aws.p5.r2.spot": ("gpu", 12_000_000_000, 8, {**spot, "region": "r2"}),
    }


def test_no_spot_where_none_is_offered() -> None:
    found = prices("p5,H100,8,1,1,,55.04,,r1,r1-a\np5,H100,8,1,1,,55.04,11,r1,r1-b\n")
    assert set(found) == {"aws.p5.r1", "aws.p5.r1-b.spot"}


def test_an_instance_without_gpus_is_compute() -> None:
    assert prices("m5,,,4,16,,0.192,,r1,\n") == {
        "aws.m5.r1": ("compute", 192_000_000, 0, {"cloud": "aws", "region": "r1", "instance_type": "m5"})
    }


def test_hosts_and_gpus_in_rows_apart_are_added() -> None:
    found = prices(
        "a3-highgpu-1g,,,26,234,,1.18251,0.36117,us,us-a\n"
        ",H100,1,,,,4.20076,2.9926,us,us-a\n"
        "a3-highgpu-2g,,,52,468,,2.3,,us,us-b\n"  # its GPUs are in no zone us-b
        "n1-standard-4,,,4,15,,0.19,0.04,us,us-a\n"  # which GPUs it has, its name does not say
        ",H200,8,,,,36.60258,38.7368,us,us-a\n",  # no host in the catalogue
        "gcp",
    )
    at = {"cloud": "gcp", "region": "us"}
    a3 = {**at, "instance_type": "a3-highgpu-1g", "gpu_type": "H100"}
    n1, h200 = {**at, "instance_type": "n1-standard-4"}, {**at, "gpu_type": "H200"}
    assert found == {
        "gcp.a3-highgpu-1g.us": ("gpu", 5_383_270_000, 1, a3),
        "gcp.a3-highgpu-1g.us.spot": ("gpu", 3_353_770_000, 1, {**a3, "purchase": "spot"}),
        "gcp.n1-standard-4.us": ("compute", 190_000_000, 0, n1),
        "gcp.n1-standard-4.us.spot": ("compute", 40_000_000, 0, {**n1, "purchase": "spot"}),
        "gcp.gpu.H200.us": ("gpu", 36_602_580_000, 8, h200),
        "gcp.gpu.H200.us.spot": ("gpu", 38_736_800_000, 8, {**h200, "purchase": "spot"}),
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEADER + "p5,H100,8,1,1,,dear,,r,\n", "line 2: column `Price`: got 'dear'"),
        (HEADER + "p5,H100,8,1,1,,1,-1,r,\n", "line 2: column `SpotPrice`: got '-1'"),
        (HEADER + "p5,H100,some,1,1,,1,1,r,\n", "line 2: column `AcceleratorCount`: got 'some'"),
        (HEADER + "p5,H100,NaN,1,1,,1,1,r,\n", "line 2: column `AcceleratorCount`: got 'NaN'"),
        (
            HEADER + "p5,H100,8,1,1,,1,,r,z\np5,H100,8,1,1,,2,,r,z\n",
            "line 3: p5 in z has other prices on line 2",
        ),
        (HEADER + "p5,H100,8\n", "line 2: 3 cells, expected 10"),
        (HEADER + ",,,1,1,,1,1,r,\n", "line 2: a row names a Region, and an InstanceType or"),
        ("InstanceType,SpotPrice\nx,1\n", "line 1: the header of a catalogue has no column acceleratorname"),
    ],
)
def test_faults_are_named_by_line_and_column(text: str, said: str) -> None:
    with pytest.raises(WrongUseError) as caught:
        read(text, "vms.csv", cloud="aws")
    assert said in str(caught.value)


def test_the_cloud_must_be_named() -> None:
    with pytest.raises(WrongUseError, match="add --cloud NAME"):
        read(HEADER + "p5,H100,8,1,1,,1,,r,\n")


@pytest.mark.parametrize(
    ("cloud", "count", "above"), [("aws", 114, 2), ("gcp", 171, 4), ("lambda", 68, 0), ("nebius", 29, 0)]
)
def test_the_real_catalogues(cloud: str, count: int, above: int) -> None:
    form, records = read_data(f"skypilot_{cloud}_vms_slice.csv", cloud=cloud)
    assert form is PriceFormat.skypilot
    found = findings([(each.line, each.event) for each in records])
    assert len(records) == count
    assert sum(each.kind == "spot above on-demand" for each in found) == above
    assert zone_ids(each.event.match.get("zone", "") for each in records) == (72 if cloud == "aws" else 0)


@pytest.mark.parametrize("cloud", ["aws", "gcp", "lambda", "nebius"])
def test_every_offer_of_the_real_catalogues_is_priced_as_listed(cloud: str) -> None:
    _, records = read_data(f"skypilot_{cloud}_vms_slice.csv", cloud=cloud)
    with (DATA / f"skypilot_{cloud}_vms_slice.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    gpus_of = {
        (row["AcceleratorName"], row["AcceleratorCount"], row["AvailabilityZone"]): row
        for row in rows
        if not row["InstanceType"]
    }
    seen = 0
    for row in rows:
        for column, purchase in (("Price", "on_demand"), ("SpotPrice", "spot")):
            gpu_type, gpus, listed = row["AcceleratorName"], row["AcceleratorCount"], row[column]
            if not gpu_type:  # a host: a3-highgpu-2g has two H100
                gpu_type, gpus = "H100", row["InstanceType"].removesuffix("g").rpartition("-")[2]
                with_gpus = gpus_of.get((gpu_type, gpus, row["AvailabilityZone"]), {}).get(column)
                listed = str(Decimal(listed) + Decimal(with_gpus)) if listed and with_gpus else ""
            usage = {
                "cloud": cloud, "region": row["Region"], "zone": row.get("AvailabilityZone", ""),
                "instance_type": row["InstanceType"], "gpu_type": gpu_type, "purchase": purchase,
            }  # fmt: skip
            able = [each.event for each in records if each.event.match.items() <= usage.items()]
            best = max(able, key=lambda event: len(event.match), default=None)
            if not listed:
                assert best is None or "purchase" not in best.match, "no spot price where none is listed"
                continue
            if best is None:  # GPUs alone that are part of every instance of their zone
                assert not row["InstanceType"]
                continue
            seen += 1
            exact = Decimal(listed) / Decimal(gpus)
            assert abs(Decimal(best.usd_nano).scaleb(-9) / best.gpus - exact) < Decimal("0.00001")
    assert seen > 25
