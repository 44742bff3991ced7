"""OpenCost's default prices: units, spot, egress by path; nothing else of the file."""

from __future__ import annotations

import pytest

from streams.errors import WrongUseError
from streams.prices.opencost import MAX_BYTES, of_opencost
from streams.prices.source import PriceFormat, PriceList
from tests.prices.given import read, read_data

TEXT = """{
  "provider": "Azure", "awsServiceKeySecret": "hunter2",
  "CPU": "0.039", "spotCPU": "0.007764", "RAM": "0.001917", "spotRAM": "0.000382",
  "GPU": "2.00", "storage": "0.00005479452", "internetNetworkEgress": "0.0725", "zoneNetworkEgress": ""
}"""


def test_each_price_becomes_a_record() -> None:
    found = {
        each.event.sku: (each.event.component, each.event.usd_nano, each.event.per, each.event.match)
        for each in read(TEXT, "azure.json")
    }
    azure = {"cloud": "azure"}
    assert found == {
        "opencost.azure.cpu": ("compute", 39_000_000, "vcpu_hour", azure),
        "opencost.azure.cpu.spot": ("compute", 7_764_000, "vcpu_hour", {**azure, "purchase": "spot"}),
        "opencost.azure.memory": ("compute", 1_917_000, "memory_gib_hour", azure),
        "opencost.azure.memory.spot": ("compute", 382_000, "memory_gib_hour", {**azure, "purchase": "spot"}),
        "opencost.azure.gpu": ("gpu", 2_000_000_000, "gpu_hour", azure),
        # 0.00005479452 an hour x 730 = 0.0399999996, which nine decimals can hold only rounded.
        "opencost.azure.storage": ("storage", 40_000_000, "gib_month", {**azure, "op": "stored"}),
        "opencost.azure.net.internet": (
            "network", 72_500_000, "gb", {**azure, "path": "internet", "direction": "egress"}
        ),
    }  # fmt: skip


def test_the_users_cloud_and_date_count() -> None:
    first, *_ = read(TEXT, cloud="mine", from_ms=1_790_812_800_000)
    assert (first.event.sku, first.event.match) == ("opencost.mine.cpu", {"cloud": "mine"})
    assert first.event.effective_ms == 1_790_812_800_000
    assert first.line == 3


def test_a_custom_provider_is_no_cloud() -> None:
    (record,) = read('{"provider": "custom", "GPU": 0.95}')
    assert (record.event.sku, record.event.match, record.event.usd_nano) == ("opencost.gpu", {}, 950_000_000)


@pytest.mark.parametrize("value", ['"free"', '"-1"', '"NaN"', '"1e99"', "[1]", "true", '"' + "9" * 65 + '"'])
def test_what_is_no_price_is_named(value: str) -> None:
    with pytest.raises(WrongUseError, match=r"p\.json line 2: field `GPU`"):
        read('{"CPU": "1",\n"GPU": ' + value + "}", "p.json")


def test_size_is_bounded() -> None:
    with pytest.raises(WrongUseError, match="more than 1048576 bytes"):
        list(of_opencost(PriceList("p", b'{"CPU": "1"}' + b" " * MAX_BYTES)))
    with pytest.raises(WrongUseError, match="not OpenCost's prices"):
        list(of_opencost(PriceList("p", b"[" * 100_000)))


@pytest.mark.parametrize(
    ("name", "count"), [("default", 9), ("aws", 9), ("azure", 9), ("gcp", 8), ("oracle", 5), ("alibaba", 9)]
)
def test_the_real_files(name: str, count: int) -> None:
    form, records = read_data(f"opencost_defaults/{name}.json")
    assert form is PriceFormat.opencost
    assert len(records) == count
