"""What the nodes cost beside what their jobs are billed."""

from decimal import Decimal
from typing import Any

import pytest

from schemas.tables import JOB_MINUTES, NODE_HOURS, NODE_MINUTES, UNATTRIBUTED_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.sinks import fleet
from tests.sinks.rows import dicts, instant, rows


def test_node_balance(meter: ClickHouseStore) -> None:
    found = dicts(meter, "SELECT * EXCEPT (minute) FROM node_balance WHERE node_cost_usd > 0 ORDER BY node")
    assert found == [
        {
            "node": node,
            "node_cost_usd": cost,
            "job_cost_usd": jobs,
            "idle_cost_usd": idle,
            "overcommitted_cost_usd": over,
            "overcommitted": int(over > 0),
        }
        for node, cost, jobs, idle, over in [("n1", 10, 6, 4, 0), ("n2", 9, 12, 0, 3), ("n3", 5, 0, 5, 0)]
    ]


def test_a_job_on_a_node_that_is_not_paid_shows_as_overcommitted(meter: ClickHouseStore) -> None:
    """Job a's 4.00 at 12:00 on n1, which is paid at 10:00 only."""
    (row,) = dicts(meter, "SELECT * EXCEPT (minute) FROM node_balance WHERE node_cost_usd = 0")
    assert row == {
        "node": "n1",
        "node_cost_usd": 0,
        "job_cost_usd": 4,
        "idle_cost_usd": 0,
        "overcommitted_cost_usd": 4,
        "overcommitted": 1,
    }


def test_nodes_without_events_are_not_in_the_balance(store: ClickHouseStore) -> None:
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, fleet.line("x/1", "10:00", "gpu", "1", node="unknown")), "t")
    assert dicts(store, "SELECT * FROM node_balance") == []


@pytest.mark.parametrize(("excess_nano", "overcommitted"), [(0, 0), (4, 0), (5, 1)])
def test_rounding_of_rows_is_not_overcommitment(
    store: ClickHouseStore, excess_nano: int, overcommitted: int
) -> None:
    """Eight rows of jobs and one of the node are rounded, so the sum may be off by 9 x 0.5 nano-dollars."""
    nano = fleet.NANO
    jobs = [
        fleet.line(f"{j}/1", "10:00", "gpu", str(nano * (100 + (excess_nano if j == 0 else 0))), node="n1")
        for j in range(8)
    ]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *jobs), "jobs")
    node = {"node": "n1", "minute": instant("2026-03-01 10:00"), "quantity": 1, "cost_usd": nano * 800}
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, node), "node")
    for view in ("node_balance", "node_hour_balance"):
        (row,) = dicts(
            store, f"SELECT idle_cost_usd AS idle, overcommitted_cost_usd AS over, overcommitted FROM {view}"
        )
        assert row == {"idle": 0, "over": nano * excess_nano, "overcommitted": overcommitted}


def test_an_hour_beyond_what_64_bits_of_nano_dollars_hold_is_netted_as_a_whole(
    store: ClickHouseStore,
) -> None:
    largest = "999999999.999999999"
    jobs = [fleet.line(f"{j}/1", f"10:{j:02}", "gpu", largest, node="n1") for j in range(12)]
    jobs += [fleet.line(f"{j}/2", "10:00", "gpu", largest, node="n1") for j in range(12)]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *jobs), "jobs")
    node = {"node": "n1", "minute": instant("2026-03-01 10:30"), "quantity": 1, "cost_usd": Decimal(1)}
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, node), "node")
    (row,) = dicts(
        store, "SELECT idle_cost_usd AS idle, overcommitted_cost_usd AS over FROM node_hour_balance"
    )
    assert row == {"idle": 0, "over": 24 * Decimal(largest) - 1}


def test_nodes_are_in_the_balance_by_their_minutes_with_hours_and_without(store: ClickHouseStore) -> None:
    """A node counts that ever had GPUs or a price, also at $0, after a correction to nothing, and without hours."""
    minutes: dict[str, dict[str, Any]] = {
        "gpu": {"unit": "gpu_milli_ms", "quantity": 5},
        "zeroed": {"unit": "gpu_milli_ms", "quantity": 0},
        "free": {"unit": "instance_milli_ms", "quantity": 5, "sku": "c"},
        "unpriced": {"unit": "instance_milli_ms", "quantity": 5},
    }
    minutes |= {f"{name} without hours": values for name, values in minutes.items()}
    at = instant("2026-05-01 10:00")
    usage = [{"minute": at, "node": node, "sku": "", **values} for node, values in minutes.items()]
    store.insert(NODE_MINUTES, rows(NODE_MINUTES, *usage), "minutes")
    hours = [
        {"hour": at, "node": node, "gpu_milli_ms": values["quantity"] * (values["unit"] == "gpu_milli_ms")}
        for node, values in minutes.items()
        if not node.endswith("without hours")
    ]
    store.insert(NODE_HOURS, rows(NODE_HOURS, *hours), "hours")
    nodes = [*minutes, "unknown"]
    paid = [{"minute": at, "node": node, "quantity": 1, "cost_usd": Decimal(2)} for node in nodes]
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, *paid), "paid")
    sampled = [{"minute": at, "node": node, "gpu": "g", "productive_ms": 7} for node in nodes]
    store.insert(UNATTRIBUTED_MINUTES, rows(UNATTRIBUTED_MINUTES, *sampled), "sampled")
    counted = {node for node in minutes if not node.startswith("unpriced")}
    by_hour = dicts(store, "SELECT node, job_cost_usd, unattributed_gpu_ms FROM node_hour_balance")
    assert {each["node"] for each in by_hour if each["job_cost_usd"] == 2} == counted
    assert {each["node"] for each in by_hour if each["unattributed_gpu_ms"] == 7} == set(minutes)
    by_minute = dicts(store, "SELECT node FROM node_balance WHERE job_cost_usd = 2")
    assert {each["node"] for each in by_minute} == counted
