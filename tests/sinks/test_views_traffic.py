"""The views of M3, M6, M7, M8 and M9 say of traffic, bills, samples and measures what `trainfare costs` says."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import JOB_HOURS, JOB_MINUTES, JOBS, NODE_HOURS, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.bills.bill import line as bill_line
from tests.bills.bill import loaded, written
from tests.sinks.fleet import hour, line
from tests.sinks.rows import MINUTE, dicts, rows

WAYS: list[dict[str, Any]] = [
    line("a/1", "10:00", "network", "3", unit="bytes", quantity=30, path="nat", direction="egress")
    | {"region": "eu", "dst_region": "us"},
    line("a/1", "10:01", "network", "1", unit="bytes", quantity=10, path="internet", direction="ingress")
    | {"region": "us", "dst_region": "eu"},
    line("b/1", "10:02", "network", "2", unit="bytes", quantity=20, path="nat")
    | {"region": "eu", "dst_region": "us"},
    line("a/1", "10:03", "storage", "0.5", unit="requests", quantity=100, storage_class="cold"),
    line("b/1", "10:04", "storage", "0.25", unit="mib_ms", quantity=7, storage_class="hot"),
    line("b/1", "10:05", "storage", "0.75", unit="bytes", quantity=9, storage_class="cold"),
]


@pytest.fixture
def store(store: ClickHouseStore) -> ClickHouseStore:
    """Two jobs of one team and experiment; a is sampled, and both report measures."""
    jobs: list[dict[str, Any]] = [
        {
            "job_id": "a",
            "team": "red",
            "experiment": "e",
            "quality": [("acc", 0.5)],
            "progress": [("step", 10.0)],
        },
        {"job_id": "b", "team": "red", "experiment": "e", "quality": [("acc", 0.75), ("f1", 0.5)]}
        | {"progress": [("step", 30.0), ("epoch", 0.0)]},
        {"job_id": "c", "team": "blue"},
    ]
    store.insert(JOBS, rows(JOBS, *jobs), "jobs")
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *WAYS), "minutes")
    time = {"wall_clock_ms": 3_600_000, "gpu_milli_ms": 3_600_000_000, "cluster": "c1"}
    hours = [
        hour("a/1", "10:00", network="4", storage="0.5", gpu="1", **time, sampled_gpu_ms=3_600_000),
        hour("b/1", "10:00", network="2", storage="1", gpu="1.5", **time),
        hour("c/1", "10:00", gpu="5", **time),
    ]
    store.insert(JOB_HOURS, rows(JOB_HOURS, *hours), "hours")
    return store


def at(store: ClickHouseStore, view: str, level: str, name: str) -> dict[str, Any]:
    (row,) = dicts(store, f"SELECT * FROM {view} WHERE level = '{level}' AND name = '{name}'")
    return row


def test_m6_has_requests_and_storage_classes(store: ClickHouseStore) -> None:
    row = at(store, "m6_storage_cost_per_hour", "team", "red")
    assert (row["storage_cost_usd"], row["requests"], row["requests_per_hour"], row["bytes"]) == (
        Decimal("1.5"),
        100,
        50,
        9,
    )
    assert row["storage_class_cost_usd"] == {"cold": Decimal("1.25"), "hot": Decimal("0.25")}
    silent = at(store, "m6_storage_cost_per_hour", "team", "blue")
    assert (silent["requests"], silent["storage_class_cost_usd"]) == (0, {})


def test_m7_has_paths_pairs_of_regions_and_directions(store: ClickHouseStore) -> None:
    row = at(store, "m7_egress_cost_per_hour", "team", "red")
    assert (row["egress_cost_usd"], row["egress_bytes"]) == (Decimal(5), 50), (
        "what says no direction goes out"
    )
    assert (row["ingress_cost_usd"], row["ingress_bytes"]) == (Decimal(1), 10)
    assert row["path_cost_usd"] == {"internet": Decimal(1), "nat": Decimal(5)}
    assert row["regions_cost_usd"] == {"eu > us": Decimal(5), "us > eu": Decimal(1)}
    assert (
        sum(row["path_cost_usd"].values()) == sum(row["regions_cost_usd"].values()) == row["network_cost_usd"]
    )


def test_traffic_does_not_know_price_fields(store: ClickHouseStore) -> None:
    storage = at(store, "m6_storage_cost_per_hour", "cluster", "c1")
    assert (storage["storage_cost_usd"], storage["requests"], storage["bytes"]) == (
        Decimal("1.5"),
        None,
        None,
    )
    network = at(store, "m7_egress_cost_per_hour", "cluster", "c1")
    assert (network["egress_bytes"], network["path_cost_usd"]) == (None, {})


def test_what_was_not_sampled_is_null(store: ClickHouseStore) -> None:
    unknown, idle = (at(store, "m8_utilization_adjusted_cost", "job", job) for job in ("b", "a"))
    assert (unknown["productive_gpu_h"], unknown["tensor_gpu_h"], unknown["productive_ratio"]) == (
        None,
        None,
        None,
    )
    assert (idle["productive_gpu_h"], idle["tensor_gpu_h"], idle["productive_ratio"]) == (0, None, 0)


def test_m9_has_quality_and_progress(store: ClickHouseStore) -> None:
    row = at(store, "m9_cost_per_experiment", "experiment", "e")
    assert row["cost_usd"] == Decimal(10)
    assert row["quality_gained"] == {"acc": 0.25, "f1": 0}
    assert row["usd_per_quality_gained"] == {"acc": 40, "f1": None}, (
        "one trial alone gained nothing that is known"
    )
    assert (row["progress"], row["usd_per_progress"]) == ({"step": 40}, {"step": 0.25})
    assert at(store, "m9_cost_per_experiment", "cluster", "c1")["usd_per_quality_gained"]["acc"] == 15 / 0.25
    assert at(store, "m9_cost_per_experiment", "job", "c")["quality_gained"] == {}


def test_m3_has_what_bills_say_of_the_nodes(store: ClickHouseStore, tmp_path: Path) -> None:
    paid = {"node": "n1", "paid_ms": 3_600_000, "gpu_milli_ms": 3_600_000_000, "cost_usd": Decimal(3)}
    store.insert(NODE_HOURS, rows(NODE_HOURS, {**paid, "hour": MINUTE}), "hours")
    node = {"node": "n1", "minute": MINUTE, "quantity": 1, "cost_usd": Decimal(3)}
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, node), "minutes")
    (day,) = dicts(store, "SELECT bill_usd FROM m3_unallocated_ratio")
    assert day == {"bill_usd": None}
    correction = line_of(resource="n1", billed="-0.25", charge_class="Correction")
    loaded(store, written(tmp_path / "f.csv", line_of("n1", "2.75"), line_of("other", "9"), correction))
    (day,) = dicts(store, "SELECT bill_usd FROM m3_unallocated_ratio")
    assert day == {"bill_usd": Decimal("2.5")}


def line_of(resource: str, billed: str, charge_class: str = "") -> dict[str, str]:
    return bill_line(ResourceId=resource, BilledCost=billed, ChargeClass=charge_class)
