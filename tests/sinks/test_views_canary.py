"""No view that users read changes by a row or a cent when the canary runs."""

from __future__ import annotations

from decimal import Decimal

from schemas.reserved import CANARY_JOB_PREFIX, USERS_JOBS
from schemas.tables import BURN_RATES, JOB_HOURS, JOB_MINUTES, JOB_USAGE_MINUTES, JOBS
from sinks.clickhouse import ClickHouseStore
from sinks.clickhouse.view_files import shipped_views
from streams.selfcheck.audit import ledger_checks, tables
from streams.selfcheck.audit.live import asking
from tests.sinks import canary_rows, fleet
from tests.sinks.rows import MINUTE, rows

#: Views that have no rows of these tests' fleet, so that they could not show the canary: they are of bills, sources, events of
#: nodes and runs that name themselves, and the canary makes none of these.
#: What they say is of all rows of a day, whose they are or not.
OF_DAYS = {"balance_days", "netted_days"}
EMPTY = {
    "bill_allocations",
    "billed_accounts",
    "billed_days",
    "billed_jobs",
    "billed_lines",
    "carbon_hours",
    "commitment_hours",
    "commitment_use",
    "forgotten_nodes",
    "node_accounts",
    "provisioning_bursts",
    "run_costs",
    "source_accounts",
}


def shown(store: ClickHouseStore) -> dict[str, list[tuple[object, ...]]]:
    return {
        view.name: sorted(store.ask(f"SELECT * FROM {view.name}").rows(), key=repr)
        for view in shipped_views()
        if view.name not in OF_DAYS
    }


def test_no_view_shows_the_canary(store: ClickHouseStore) -> None:
    fleet.load(store)
    store.insert(BURN_RATES, rows(BURN_RATES, {"job_id": "a", "time": MINUTE}), "burn")
    before = shown(store)
    assert {name for name, found in before.items() if not found} == EMPTY

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


def test_every_view_excludes_it_by_the_one_condition(store: ClickHouseStore) -> None:
    """Written in another way, or by a text of its own, it would not be what the meter guards."""
    found = store.ask(
        "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND engine = 'View'"
    ).rows()
    told = {str(name): str(text) for name, text in found}
    used = {name for name, text in told.items() if "trainfare-canary" in text}
    assert used >= {"ledger", "usage", "job_costs", "cost_hours"}
    for name in used:
        left = told[name].replace(USERS_JOBS.removeprefix("NOT "), "")
        assert "trainfare-canary" not in left, name


def test_the_audit_s_totals_leave_nothing_out_and_say_what_the_views_do(store: ClickHouseStore) -> None:
    job = {"job_id": "a", "gpu_cost_usd": Decimal(3), "gpu_milli_ms": 3_600_000_000}
    run = {
        "job_id": f"{CANARY_JOB_PREFIX}1.2",
        "gpu_cost_usd": Decimal("0.000001"),
        "gpu_milli_ms": 10_000_000,
    }
    for each in (job, run):
        minute = {
            "job_id": each["job_id"],
            "cost_usd": each["gpu_cost_usd"],
            "quantity": each["gpu_milli_ms"],
        }
        store.insert(JOB_HOURS, rows(JOB_HOURS, each), f"h{each['job_id']}")
        store.insert(JOB_MINUTES, rows(JOB_MINUTES, minute), f"m{each['job_id']}")
        store.insert(JOBS, rows(JOBS, {"job_id": each["job_id"]}), f"j{each['job_id']}")
    good = tables.totals(asking(store))
    (finding,) = ledger_checks.totals(good)
    assert finding.ok, finding
    assert (
        "both sums are $3.000001, with $0.000001 of 1 job of the canary, which views leave out"
        in finding.detail
    )
    assert ledger_checks.totals(good, 202601)[0].ok, "by the hours, too"
    assert not ledger_checks.totals(good._replace(canary_ledger_usd="0"))[0].ok

    # What an earlier version let in under the canary's name: $1,536 that no view shows.
    hidden = {
        "job_id": f"{CANARY_JOB_PREFIX}x",
        "gpu_cost_usd": Decimal(1536),
        "gpu_milli_ms": 768 * 3_600_000_000,
    }
    unpriced = {"job_id": f"{CANARY_JOB_PREFIX}y", "gpu_milli_ms": 100 * 3_600_000_000}
    for each in (hidden, unpriced):
        store.insert(JOB_HOURS, rows(JOB_HOURS, each), f"h{each['job_id']}")
    minute = {"job_id": hidden["job_id"], "cost_usd": Decimal(1536), "quantity": hidden["gpu_milli_ms"]}
    store.insert(JOB_MINUTES, rows(JOB_MINUTES, minute), "hidden")
    faults = ledger_checks.totals(tables.totals(asking(store)))
    assert [each.subject for each in faults] == [hidden["job_id"], unpriced["job_id"]]
    assert "it cost $1536 for 768 GPU-hours" in faults[0].detail
    assert "it cost $0 for 100 GPU-hours" in faults[1].detail
