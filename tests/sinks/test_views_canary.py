"""No view that users read changes by a row or a cent when the canary runs."""

from __future__ import annotations

from schemas.reserved import CANARY_JOB_PREFIX
from schemas.tables import BURN_RATES, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES
from sinks.clickhouse import ClickHouseStore
from tests.sinks import canary_rows, fleet
from tests.sinks.rows import MINUTE, rows

#: Every view there is: a new one must leave the canary out too, or give a reason here.
VIEWS = {
    "attempt_costs",
    "bill_reconciliation",
    "burn_now",
    "chargeback",
    "cost_days",
    "cost_hours",
    "focus_charges",
    "job_costs",
    "ledger",
    "level_costs",
    "lost_work",
    "m10_cost_variance",
    "m1_cost_per_wall_clock_hour",
    "m2_cost_per_gpu_hour",
    "m4_burn_rate",
    "m5_retry_overhead",
    "m6_storage_cost_per_hour",
    "m7_egress_cost_per_hour",
    "m8_utilization_adjusted_cost",
    "m9_cost_per_experiment",
    "metered_days",
    "node_balance",
    "traffic_hours",
    "usage",
}


def shown(store: ClickHouseStore) -> dict[str, list[tuple[object, ...]]]:
    names = store.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase() AND engine = 'View'"
    )["name"].to_pylist()
    assert set(names) >= VIEWS
    return {name: sorted(store.ask(f"SELECT * FROM {name}").rows(), key=repr) for name in names}


def test_no_view_shows_the_canary(store: ClickHouseStore) -> None:
    fleet.load(store)
    store.insert(BURN_RATES, rows(BURN_RATES, {"job_id": "a", "time": MINUTE}), "burn")
    before = shown(store)
    assert all(before[name] for name in VIEWS), "a view without rows would show nothing of the canary either"

    canary_rows.load(store, MINUTE)

    assert shown(store) == before
    # The tables themselves have it, and so it can be looked into.
    (found,) = store.ask(f"SELECT count() FROM job_minutes WHERE job_id = '{canary_rows.JOB}'").rows()
    assert found == (6,)


def test_a_name_that_is_only_like_the_canary_s_is_shown(store: ClickHouseStore) -> None:
    names = [CANARY_JOB_PREFIX[:-1], "trainfare-canaryX1", "a.trainfare-canary.1", "Trainfare-canary.1"]
    for table in (JOB_MINUTES, JOB_USAGE_MINUTES, JOB_HOURS):
        values = ({"job_id": name, "quantity": 1, "sampled_gpu_s": 1, "wall_clock_ms": 1} for name in names)
        fitting = [{k: v for k, v in each.items() if k in rows(table).column_names} for each in values]
        store.insert(table, rows(table, *fitting), "t")
    for view in ("ledger", "usage", "attempt_costs", "cost_hours"):
        found = [str(row[0]) for row in store.ask(f"SELECT DISTINCT job_id FROM {view}").rows()]
        assert sorted(found) == sorted(names), view
