from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import JOB_HOURS, JOB_MINUTES, PRICES
from sinks.clickhouse import ClickHouseStore
from tests.sinks import fleet
from tests.sinks.rows import MINUTE, dicts, instant, rows

LEVELS = ["job", "owner", "team", "project", "experiment", "cluster", "region", "purchase"]


def at(store: ClickHouseStore, view: str, level: str, name: str) -> dict[str, Any]:
    (row,) = dicts(
        store, f"SELECT * EXCEPT (level, name) FROM {view} WHERE level = '{level}' AND name = '{name}'"
    )
    return row


# ------------------------------------------------------------------------------------------ ledger and usage


def test_the_ledger_shows_current_rows_only_and_none_of_quantity_zero(meter: ClickHouseStore) -> None:
    assert dicts(meter, "SELECT count() AS n, sum(cost_usd) AS usd, min(quantity) AS least FROM ledger") == [
        {"n": 10, "usd": Decimal(34), "least": 1}
    ]


def test_the_ledger_names_the_job_and_the_attempt(meter: ClickHouseStore) -> None:
    columns = "owner, team, project, experiment, state, labels, cluster, region, purchase"
    assert dicts(
        meter, f"SELECT DISTINCT attempt, {columns} FROM ledger WHERE job_id = 'a' ORDER BY attempt"
    ) == [
        {"attempt": attempt, "owner": "ann", "team": "red", "project": "p", "experiment": "e1"}
        | {
            "state": "completed",
            "labels": {"k": "v"},
            "cluster": cluster,
            "region": "r1",
            "purchase": purchase,
        }
        for attempt, cluster, purchase in [(1, "c1", "spot"), (2, "c2", "on_demand")]
    ]


def test_a_ledger_row_without_its_job_still_shows(store: ClickHouseStore) -> None:
    """Money may be stored a moment before the job's row is."""
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, fleet.line("x/1", "10:00", "gpu", "1")), "t")
    assert dicts(store, "SELECT job_id, team, cost_usd FROM ledger") == [
        {"job_id": "x", "team": "", "cost_usd": Decimal(1)}
    ]
    store.insert(JOB_HOURS, rows(JOB_HOURS, fleet.hour("x/1", "10:00", gpu="1")), "t")
    assert at(store, "m1_cost_per_wall_clock_hour", "job", "x")["cost_usd"] == Decimal(1)


def test_the_ledger_names_the_purchase_of_the_price(meter: ClickHouseStore) -> None:
    """a/1 and b/1 are spot, a/2 is on demand; the newer revision of gpu-sku is of spot."""
    skus = [
        {"sku": "gpu-sku", "effective": MINUTE, "match": [("purchase", "spot")]},
        {"sku": "gpu-sku", "effective": instant("2026-01-01"), "match": [("purchase", "on_demand")]},
        {"sku": "compute-sku", "effective": MINUTE},
    ]
    meter.insert(PRICES, rows(PRICES, *skus), "prices")
    old = fleet.line("b/1", "10:05", "gpu", "1", price_effective=instant("2026-01-01"))
    unpriced = fleet.line("b/1", "10:06", "gpu", "0", sku="")
    meter.insert(JOB_MINUTES, rows(JOB_MINUTES, old, unpriced), "more")
    columns = "job_id, attempt, component, sku, price_basis, toBool(price_fallback) AS fallback"
    found = {
        tuple(row.values())
        for row in dicts(
            meter, f"SELECT {columns} FROM ledger WHERE component IN ('gpu', 'compute', 'network')"
        )
    }
    assert found == {
        ("a", 1, "gpu", "gpu-sku", "spot", False),
        ("a", 2, "gpu", "gpu-sku", "spot", False),
        ("a", 2, "network", "network-sku", "", False),
        ("b", 1, "gpu", "gpu-sku", "spot", False),
        ("b", 1, "gpu", "gpu-sku", "on_demand", True),
        ("b", 1, "gpu", "", "", False),
        ("b", 1, "compute", "compute-sku", "", True),
        ("b", 1, "network", "network-sku", "", False),
    }


def test_traffic_is_summed_by_hour_and_way(store: ClickHouseStore) -> None:
    def moved(clock: str, usd: str, **more: object) -> dict[str, Any]:
        return fleet.line("a/1", clock, "network", usd, unit="bytes", path="internet", **more)

    lines = [
        moved("10:00", "1", quantity=3, direction="egress"),
        moved("10:59", "2", quantity=4, direction="egress", lost_cost_usd=Decimal("0.5")),
        moved("10:59", "0", quantity=5, direction="ingress"),
        moved("11:00", "4", quantity=6, direction="egress"),
        fleet.line("a/1", "10:00", "storage", "8", unit="requests", op="list", storage_class="cold"),
        fleet.line("a/1", "10:00", "gpu", "16"),
    ]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *lines), "t")
    columns = (
        "toHour(hour) AS hour, path, direction, op, storage_class, unit, quantity, cost_usd, lost_cost_usd"
    )
    found = [tuple(row.values()) for row in dicts(store, f"SELECT {columns} FROM traffic_hours ORDER BY ALL")]
    assert found == [
        (10, "", "", "list", "cold", "requests", 1, Decimal(8), Decimal(0)),
        (10, "internet", "egress", "", "", "bytes", 7, Decimal(3), Decimal("0.5")),
        (10, "internet", "ingress", "", "", "bytes", 5, Decimal(0), Decimal(0)),
        (11, "internet", "egress", "", "", "bytes", 6, Decimal(4), Decimal(0)),
    ]


def test_usage_is_summed_over_nodes(meter: ClickHouseStore) -> None:
    (row,) = dicts(meter, "SELECT * FROM usage WHERE job_id = 'a'")
    assert row == {
        "minute": instant("2026-03-01 10:00"),
        "job_id": "a",
        "attempt": 2,
        "sampled_gpu_s": 7200,
        "productive_gpu_ms": 5_400_000,
        "sm_gpu_ms": 0,
        "sm_sampled_gpu_s": 0,
        "tensor_gpu_ms": 2_700_000,
        "tensor_sampled_gpu_s": 7200,
        "memory_used_mib_max": 30,
        "power_w_max": 30,
    }


# ------------------------------------------------------------------------------------------ job costs


def test_job_costs(meter: ClickHouseStore) -> None:
    (row,) = dicts(meter, "SELECT * FROM job_costs WHERE job_id = 'a'")
    expected = {
        "owner": "ann",
        "team": "red",
        "state": "completed",
        "attempts": 2,
        "wall_clock_s": Decimal("10800.001"),
        "gpu_s": Decimal("10800.000000"),  # 2 + 1 GPU-hours
        "productive_gpu_s": Decimal("5400.000"),
        "cost_usd": Decimal("12"),
        "gpu_cost_usd": Decimal("10"),
        "compute_cost_usd": Decimal(0),
        "network_cost_usd": Decimal("0.5"),
        "storage_cost_usd": Decimal("0.25"),
        "license_cost_usd": Decimal("0.125"),
        "labor_cost_usd": Decimal("0.125"),
        "overhead_cost_usd": Decimal("1"),
        "infra_cost_usd": Decimal("11.75"),  # all but licence and labour
        "lost_cost_usd": Decimal("7"),
    }
    assert {name: row[name] for name in expected} == expected


def test_a_job_without_cost_has_a_row_of_zeros(meter: ClickHouseStore) -> None:
    (row,) = dicts(meter, "SELECT state, cost_usd, gpu_s, wall_clock_s FROM job_costs WHERE job_id = 'c'")
    assert row == {"state": "queued", "cost_usd": 0, "gpu_s": 0, "wall_clock_s": 0}


def test_every_job_has_one_row(meter: ClickHouseStore) -> None:
    assert dicts(
        meter, "SELECT groupArray(job_id) AS ids FROM (SELECT job_id FROM job_costs ORDER BY job_id)"
    ) == [{"ids": ["a", "b", "c"]}]


def test_gpu_seconds_are_exact_to_a_thousandth_of_a_gpu_millisecond(store: ClickHouseStore) -> None:
    fleet.load(store)
    extra = fleet.hour("b/1", "11:00", gpu="0.000000001", gpu_milli_ms=1)
    store.insert(JOB_HOURS, rows(JOB_HOURS, extra), "one more")
    (row,) = dicts(store, "SELECT gpu_s, cost_usd FROM job_costs WHERE job_id = 'b'")
    assert row == {"gpu_s": Decimal("14400.000001"), "cost_usd": Decimal("22.000000001")}


def test_sums_beyond_64_bits_do_not_wrap(store: ClickHouseStore) -> None:
    more = [
        fleet.hour("a/1", f"{clock:02}:00", gpu="999999999.999999999", lost_cost_usd="1", gpu_milli_ms=2**62)
        for clock in range(13, 23)
    ]
    fleet.load(store)
    store.insert(JOB_HOURS, rows(JOB_HOURS, *more), "huge")
    (row,) = dicts(store, "SELECT gpu_s, gpu_cost_usd FROM job_costs WHERE job_id = 'a'")
    assert row["gpu_s"] == Decimal(10 * 2**62 + 3 * fleet.GPU_HOUR).scaleb(-6)
    assert row["gpu_cost_usd"] == 10 * Decimal("999999999.999999999") + 10
    assert at(store, "level_costs", "job", "a")["gpu_cost_usd"] == row["gpu_cost_usd"]


# ------------------------------------------------------------------------------------------ metrics


def test_m1_by_job_and_by_cluster(meter: ClickHouseStore) -> None:
    assert at(meter, "m1_cost_per_wall_clock_hour", "job", "b") == {
        "cost_usd": Decimal(22),
        "infra_cost_usd": Decimal(22),
        "wall_clock_h": 1.0,
        "usd_per_hour": 22.0,
        "infra_usd_per_hour": 22.0,
        "untimed_cost_usd": Decimal(0),
        "compliance_cost_usd": Decimal(0),
        "compliance_usd_per_hour": 0.0,
    }
    # Cluster c1: a/1 (7.00, 1 h) and b/1 (22.00, 1 h).
    by_cluster = at(meter, "m1_cost_per_wall_clock_hour", "cluster", "c1")
    assert by_cluster["cost_usd"] == Decimal(29)
    assert by_cluster["usd_per_hour"] == 14.5
    by_team = at(meter, "m1_cost_per_wall_clock_hour", "team", "red")
    assert by_team["infra_cost_usd"] == Decimal("33.75")
    assert by_team["wall_clock_h"] == pytest.approx(4 + 1 / 3_600_000, rel=1e-12)


def test_m2(meter: ClickHouseStore) -> None:
    # Team red: gpu 6 + 4 + 12, overhead 1, over 2 + 1 + 4 GPU-hours.
    assert at(meter, "m2_cost_per_gpu_hour", "team", "red") == {
        "gpu_and_overhead_cost_usd": Decimal(23),
        "gpu_h": 7.0,
        "usd_per_gpu_hour": pytest.approx(23 / 7),
    }


def test_m5(meter: ClickHouseStore) -> None:
    assert at(meter, "m5_retry_overhead", "job", "a") == {
        "lost_cost_usd": Decimal(7),
        "cost_usd": Decimal(12),
        "ratio": pytest.approx(7 / 12),
        "retry_cost_usd": Decimal(7),
        "retry_ratio": pytest.approx(7 / 12),
    }
    assert at(meter, "m5_retry_overhead", "job", "b")["ratio"] == 0


def test_m6_and_m7(meter: ClickHouseStore) -> None:
    # Region r2 is b alone: network 8.00 in one hour.
    row = at(meter, "m7_egress_cost_per_hour", "region", "r2")
    assert (row["network_cost_usd"], row["wall_clock_h"], row["usd_per_hour"]) == (Decimal(8), 1.0, 8.0)
    # On demand is a/2 alone: storage 0.25 in 2 h and a millisecond.
    row = at(meter, "m6_storage_cost_per_hour", "purchase", "on_demand")
    assert row["storage_cost_usd"] == Decimal("0.25")
    assert row["usd_per_hour"] == pytest.approx(0.125)


def test_m8(meter: ClickHouseStore) -> None:
    # Job a: 2 of 3 GPU-hours sampled, 3/4 of them productive: 12.00 / (3 x 3/4); tensor 3/8. 2 of 3 GPU-hours lost.
    assert at(meter, "m8_utilization_adjusted_cost", "job", "a") == {
        "cost_usd": Decimal(12),
        "productive_gpu_h": 1.5,
        "usd_per_productive_gpu_hour": pytest.approx(12 / 2.25),
        "tensor_gpu_h": 0.75,
        "usd_per_tensor_gpu_hour": pytest.approx(12 / 1.125),
        "goodput_gpu_h": pytest.approx(1),
        "usd_per_goodput_gpu_hour": pytest.approx(12),
        "gpu_h": 3.0,
        "sampled_gpu_h": 2.0,
        "coverage_ratio": pytest.approx(2 / 3),
        "productive_ratio": 0.75,
        "goodput_ratio": pytest.approx(1 / 3),
    }


def test_m9(meter: ClickHouseStore) -> None:
    assert at(meter, "m9_cost_per_experiment", "experiment", "e1") == {
        "jobs": 2,
        "successful_jobs": 1,
        "cost_usd": Decimal(34),
        "usd_per_job": 17.0,
        "usd_per_successful_job": 34.0,
        "quality_gained": {},
        "usd_per_quality_gained": {},
        "progress": {},
        "usd_per_progress": {},
    }
    # A job with attempts in two clusters is a job of both.
    assert at(meter, "m9_cost_per_experiment", "cluster", "c1")["jobs"] == 2
    assert at(meter, "m9_cost_per_experiment", "cluster", "c2")["jobs"] == 1
    # Job c waits: it never ran, and cost nothing.
    assert at(meter, "m9_cost_per_experiment", "experiment", "e2")["jobs"] == 0


def test_m10(meter: ClickHouseStore) -> None:
    # Team red: 10 h has 6 + 1 + 12 + 2 = 21 in two hours of run time, 12 h has 5 in one, 13 h nothing in one and a
    # millisecond; in 15 h none ran. Mean 26 in 4 = 6.5; deviation: sqrt((2 x 4^2 + 1 x 1.5^2 + 1 x 6.5^2) / 4).
    deviation = ((2 * 16 + 2.25 + 42.25) / 4) ** 0.5
    assert at(meter, "m10_cost_variance", "team", "red") == {
        "hours": 3,
        "mean_usd_per_hour": pytest.approx(6.5),
        "stddev_usd_per_hour": pytest.approx(deviation),
        "variation": pytest.approx(deviation / 6.5),
    }
    # Job b: only 10 h, with 14.
    assert at(meter, "m10_cost_variance", "job", "b")["stddev_usd_per_hour"] == pytest.approx(0)


@pytest.mark.parametrize(
    ("view", "rates"),
    [
        ("m1_cost_per_wall_clock_hour", ["usd_per_hour", "infra_usd_per_hour"]),
        ("m2_cost_per_gpu_hour", ["usd_per_gpu_hour"]),
        ("m5_retry_overhead", ["ratio"]),
        ("m6_storage_cost_per_hour", ["usd_per_hour"]),
        ("m7_egress_cost_per_hour", ["usd_per_hour"]),
        (
            "m8_utilization_adjusted_cost",
            ["usd_per_productive_gpu_hour", "usd_per_tensor_gpu_hour", "usd_per_goodput_gpu_hour"],
        ),
        ("m9_cost_per_experiment", ["usd_per_successful_job"]),
    ],
)
def test_a_division_by_zero_is_null(meter: ClickHouseStore, view: str, rates: list[str]) -> None:
    row = at(meter, view, "job", "c")
    assert {name: row[name] for name in rates} == dict.fromkeys(rates)


@pytest.mark.parametrize(
    "view", ["m1_cost_per_wall_clock_hour", "m9_cost_per_experiment", "m5_retry_overhead"]
)
def test_every_level_adds_up_to_the_whole(meter: ClickHouseStore, view: str) -> None:
    found = dicts(meter, f"SELECT level, sum(cost_usd) AS usd FROM {view} GROUP BY level")
    assert {row["level"]: row["usd"] for row in found} == dict.fromkeys(LEVELS, Decimal(34))


def test_chargeback(meter: ClickHouseStore) -> None:
    (row,) = dicts(meter, "SELECT * FROM chargeback WHERE owner = 'ann'")
    assert str(row.pop("month")) == "2026-03-01"
    assert row == {
        "team": "red",
        "project": "p",
        "owner": "ann",
        "experiment": "e1",
        "jobs": 1,
        "gpu_h": 3.0,
        "cost_usd": Decimal("12"),
        "infra_cost_usd": Decimal("11.75"),
        "gpu_cost_usd": Decimal("10"),
        "compute_cost_usd": Decimal(0),
        "network_cost_usd": Decimal("0.5"),
        "storage_cost_usd": Decimal("0.25"),
        "license_cost_usd": Decimal("0.125"),
        "labor_cost_usd": Decimal("0.125"),
        "overhead_cost_usd": Decimal("1"),
        "compliance_cost_usd": Decimal(0),
        "lost_cost_usd": Decimal("7"),
    }
    assert dicts(meter, "SELECT sum(cost_usd) AS usd FROM chargeback") == [{"usd": Decimal(34)}]
