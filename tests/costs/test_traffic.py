"""M6 and M7 by what only traffic has: requests by class, directions and pairs of regions; and levels that do not fit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.costs.request import request_of
from streams.errors import WrongUseError
from tests.cli.command import trainfare
from tests.oracle.cases import job, network, price, storage

T0 = 1_780_308_000_000
HOUR_MS = 3_600_000


def lines() -> Iterator[dict[str, Any]]:
    """Two jobs for two hours: one reads and writes, one sends across regions and takes in."""
    found = [
        price("g", "0.60"),
        price("net", "0.10", component="network", per="gb"),
        price("get", "0.004", component="storage", per="thousand_requests", op="read"),
        price("put", "0.02", component="storage", per="thousand_requests", op="write"),
    ]
    for name in ("reader", "sender"):
        found.append(job(name, "started", T0, gpu_count=1, team=name))
        found.append(job(name, "completed", T0 + 2 * HOUR_MS))
    kind: dict[str, Any] = {"storage_class": "standard", "bytes": 0}
    found.append(storage("reader", T0 + HOUR_MS, HOUR_MS, "read", requests=50_000, **kind))
    found.append(storage("reader", T0 + 2 * HOUR_MS, HOUR_MS, "write", requests=10_000, **kind))
    pair: dict[str, Any] = {"path": "cross_region", "region": "eu", "dst_region": "us"}
    found.append(network("sender", T0 + HOUR_MS, HOUR_MS, bytes=12 * 10**9, direction="egress", **pair))
    found.append(network("sender", T0 + HOUR_MS, HOUR_MS, bytes=12 * 10**8, direction="ingress", **pair))
    for line in sorted(found, key=lambda line: line.value["time_ms"] if isinstance(line.value, dict) else 0):
        yield {"topic": line.topic, "value": line.value}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("traffic")
    (root / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines()))
    done = trainfare("replay", root / "log.jsonl", "--data", root / "meter", "--partitions", "1")
    assert done.code == 0, done.err
    return root / "meter"


def asked(data: Path, *words: str) -> list[dict[str, Any]]:
    done = trainfare("costs", *words, "--data", data, "--format", "json")
    assert done.code == 0, done.err
    found: list[dict[str, Any]] = json.loads(done.out)
    return found


def test_requests_by_class_and_hour(data: Path) -> None:
    rows = asked(data, "--metric", "m6", "--by", "op,storage_class", "--per", "hour")
    assert [(row["period_start"][11:13], row["op"], row["storage_cost_usd"]) for row in rows] == [
        ("10", "read", "0.200000000"),
        ("11", "write", "0.200000000"),
    ]
    assert [float(row["requests"]) for row in rows] == [50_000, 10_000]
    assert [row["requests_per_hour"] for row in rows] == [25_000, 5_000], "two jobs ran in each hour"
    assert {row["storage_class"] for row in rows} == {"standard"}
    assert all(row["cost_usd"] == row["storage_cost_usd"] for row in rows)


def test_tables_say_bytes_in_gib_and_units_in_words(data: Path) -> None:
    """12 GB are 11.176 GiB. JSON and CSV keep the bytes."""
    done = trainfare("costs", "--metric", "m7", "--where", "team=sender", "--data", data)
    head, row = done.out.splitlines()
    found = dict(zip(head.split(), row.split(), strict=True))
    assert (found["egress_gib"], found["ingress_gib"]) == ("11.176", "1.118")
    span = (
        "--from",
        "2026-06-01T11:00",
        "--to",
        "2026-06-01T12:00",
        "--compare",
        "previous",
        "--drivers",
        "2",
    )
    done = trainfare("costs", *span, "--data", data)
    drivers = done.out.partition("Drivers of the change")[2]
    assert "GPU-h" in drivers
    assert "gpu_milli_ms" not in drivers


def test_ingress_apart_from_egress_by_pair_of_regions(data: Path) -> None:
    (row,) = asked(data, "--metric", "m7", "--by", "region,dst_region,path", "--where", "team=sender")
    assert (row["region"], row["dst_region"], row["path"]) == ("eu", "us", "cross_region")
    assert (row["egress_cost_usd"], row["ingress_cost_usd"]) == ("1.200000000", "0.120000000")
    assert (float(row["egress_bytes"]), float(row["ingress_bytes"])) == (1.2e10, 1.2e9)
    assert row["usd_per_hour"] == pytest.approx(1.32 / 2)


def test_without_levels_of_traffic_a_cell_costs_everything(data: Path) -> None:
    rows = {row["team"]: row for row in asked(data, "--metric", "m7", "--by", "team")}
    assert (rows["sender"]["cost_usd"], rows["sender"]["network_cost_usd"]) == ("2.520000000", "1.320000000")
    assert (rows["reader"]["cost_usd"], rows["reader"]["network_cost_usd"]) == ("1.600000000", "0.000000000")


def test_traffic_is_what_a_job_costs_beyond_the_expected_rate(data: Path) -> None:
    """A GPU at $0.60 is quoted; the sender's traffic costs $1.32 in two hours."""
    (row,) = asked(data, "--metric", "m10", "--expected", "--where", "team=sender")
    assert row["expected_usd_per_hour"] == pytest.approx(0.6)
    assert row["to_expected_ratio"] == pytest.approx((1.2 + 1.32) / 1.2)


@pytest.mark.parametrize(
    ("metric", "by", "message"),
    [
        ("m1", "path", "by: level path is of metric m7"),
        ("m6", "direction", "by: level direction is of metric m7"),
        ("m7", "op", "by: level op is of metric m6"),
        ("m7", "purchase,path", "by: purchase is not known of traffic"),
    ],
)
def test_a_level_that_the_metric_does_not_have(metric: str, by: str, message: str) -> None:
    with pytest.raises(WrongUseError, match=message):
        request_of({"metric": [metric], "by": [by]})
