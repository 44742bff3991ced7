"""What clouds' own logs say times a price, to the nano-dollar, is what the meter books."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from streams.collect.flow_logs.aws.collector import open_collector as open_aws
from streams.collect.flow_logs.aws.options import Options as AwsOptions
from streams.collect.s3_access_logs.collector import open_collector as open_s3
from tests.collect.flow_logs.polling import polled
from tests.collect.flow_logs.world import RECORDED, common
from tests.collect.s3_access_logs.world import ACCESS_LOG, options
from tests.harness import meter
from tests.oracle.model import Line

AS_OF_MS = 1_780_400_000_000


def price(sku: str, component: str, usd: str, per: str, **match: str) -> Line:
    base = {"id": sku, "source": "s", "time_ms": 1_780_000_000_000, "effective_ms": 0}
    return Line("prices", {**base, "sku": sku, "component": component, "usd": usd, "per": per, **match})


def costs_nano(topic: str, events: list[dict[str, Any]], *prices: Line) -> dict[tuple[str, str], int]:
    """Cost by job and SKU."""
    tables = meter([*prices, *(Line(topic, event) for event in events)], as_of_ms=AS_OF_MS)
    assert not tables.dead
    found: dict[tuple[str, str], int] = {}
    for key, row in tables.ledger.items():
        found[key.job_id, key.sku] = found.get((key.job_id, key.sku), 0) + row.cost_nano
    return found


def test_traffic_of_a_flow_log(tmp_path: Path) -> None:
    found = polled(open_aws(AwsOptions(**common(tmp_path, [str(RECORDED / "aws-v5.txt")]))))
    cost = costs_nano(
        "network",
        found.events,
        price("net", "network", "0.09", "gb", path="internet", direction="egress"),
        price("zone", "network", "0.01", "gb", path="cross_zone"),
        price("region", "network", "0.02", "gb", path="cross_region", direction="egress"),
        price("free", "network", "0", "gb", path="same_zone"),
        price("in", "network", "0", "gb", path="internet", direction="ingress"),
    )
    assert cost == {
        ("train-a", "net"): 180_000,  # 2 MB x $0.09/GB
        ("train-a", "zone"): 8_000_000,  # 800 MB x $0.01/GB, by the sender
        ("train-b", "zone"): 8_000_000,  # and by the receiver
        ("train-b", "region"): 1_200_000,  # 60 MB x $0.02/GB
        ("train-a", "free"): 0,
        ("train-a", "in"): 0,
    }


def test_requests_of_an_access_log(tmp_path: Path) -> None:
    found = polled(open_s3(options(tmp_path, [str(ACCESS_LOG)])))
    cost = costs_nano(
        "storage",
        found.events,
        price("get", "storage", "0.0004", "thousand_requests", op="read"),
        price("list", "storage", "0.005", "thousand_requests", op="list"),
        price("put", "storage", "0.005", "thousand_requests", op="write"),
        price("delete", "storage", "0", "thousand_requests", op="delete"),
    )
    assert {key: nano for key, nano in cost.items() if nano} == {
        ("run-7", "get"): 800,
        ("run-7", "list"): 5_000,
        ("run-8", "put"): 5_000,
        ("run-9", "get"): 400,
    }
