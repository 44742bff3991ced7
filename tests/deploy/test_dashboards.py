"""The dashboards are what the code makes, and every statement in them gives the figures of a fleet worked by hand.

Burn rates, from 10:00 on (in $/h now): job a of team red 10 at 10:00, then 40 at 10:20 (no row between 10:11 and
10:20, so nothing burns then); job b, of no team, 6 at 10:05, then a row of zeros at 10:10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from deploy.grafana.make_dashboards import FOLDER, files, statement
from schemas.tables import (
    ALERTS,
    ATTEMPT_GPUS,
    ATTEMPTS,
    BURN_RATES,
    DEAD_LETTERS,
    DELIVERIES,
    JOB_CHECKPOINTS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
)
from sinks.clickhouse import ClickHouseStore
from sinks.query.limits import QueryLimits
from streams.panels.registry import PANELS
from tests.deploy.grafana import DASHBOARDS, Target, expanded, targets
from tests.sinks import canary_rows
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded

BEGIN = instant("2026-03-01 10:00")
BEGIN_S = int(BEGIN.timestamp())
GPU_HOUR = 3_600_000_000
SIXTH_OF_7 = Decimal("1.166666666")

#: Panels about the end of the range, or its day: a range that ends a week later has none.
AT_THE_END = {PANELS[name].title for name in ("live_jobs", "ratios", "today_by_component")}


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def burn(job: str, minutes: float, now: float, version: int = 1, ratio: float = 0.0) -> dict[str, Any]:
    money = {
        "usd_per_hour_now": Decimal(str(now)),
        "usd_per_hour_15m": Decimal(str(now)),
        "usd_per_hour_1h": Decimal(str(now)) / 2,
        "usd_per_hour_6h": Decimal(str(now)) / 4,
        "expected_usd_per_hour": Decimal(5),
    }
    return {"job_id": job, "time": at(minutes), "ratio_15m": ratio, "version": version, **money}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(Path(tmp_path_factory.mktemp("engine"))) as opened:
        fill(opened)
        yield opened


def fill(store: ClickHouseStore) -> None:
    alert = {"severity": "page", "rule": "burn_fast", "started": at(21), "changed": at(21), "ratio": 8.0}
    hour = {"hour": BEGIN, "attempt": 1, "wall_clock_ms": 1_800_000, "sampled_gpu_ms": 960_000}
    tables: Mapping[str, list[dict[str, Any]]] = {
        BURN_RATES: [
            burn("a", 0, 99, version=1),
            burn("a", 0, 10, version=2),
            burn("a", 20, 40, ratio=8.0),
            burn("b", 5, 6, ratio=1.2),
            burn("b", 10, 0),
        ],
        JOBS: [
            {"job_id": "a", "team": "red", "owner": "ann", "state": "running", "gpu_count": Decimal(8)},
            {"job_id": "b", "state": "completed"},
        ],
        ATTEMPTS: [
            {"job_id": "a", "attempt": 1, "state": "preempted", "started": at(0), "ended": at(9)},
            {"job_id": "a", "attempt": 2, "state": "running", "started": at(12), "wall_clock_ms": 1_080_000},
        ],
        JOB_HOURS: [
            {
                **hour,
                "job_id": "a",
                "gpu_cost_usd": Decimal(7),
                "lost_cost_usd": Decimal(2),
                "gpu_milli_ms": GPU_HOUR * 3 // 2,
                "unpriced_gpu_milli_ms": GPU_HOUR // 2,
                "productive_gpu_ms": 840_000,
                "queued_ms": 60_000,
                "starting_ms": 30_000,
                "gpu_type": "H100",
            },
            {**hour, "job_id": "b", "network_cost_usd": Decimal(1), "wall_clock_ms": 900_000},
        ],
        JOB_MINUTES: [
            {
                "job_id": "a",
                "minute": at(1),
                "node": "n1",
                "component": "gpu",
                "unit": "gpu_milli_ms",
                "quantity": 480_000_000,
                "cost_usd": Decimal(7),
                "sku": "h100",
            },
            {
                "job_id": "a",
                "minute": at(2),
                "component": "storage",
                "unit": "requests",
                "op": "read",
                "quantity": 900,
            },
            {
                "job_id": "a",
                "minute": at(2),
                "component": "network",
                "unit": "bytes",
                "path": "internet",
                "quantity": 5_000,
            },
            {"job_id": "a", "minute": at(3), "quantity": 0, "cost_usd": Decimal(0)},
        ],
        JOB_USAGE_MINUTES: [
            {
                "job_id": "a",
                "node": "n1",
                "minute": at(1),
                "sampled_gpu_s": 480,
                "productive_gpu_ms": 360_000,
                "memory_used_mib_max": 7,
            },
            {
                "job_id": "a",
                "node": "n1",
                "minute": at(2),
                "sampled_gpu_s": 480,
                "productive_gpu_ms": 480_000,
            },
        ],
        JOB_CHECKPOINTS: [
            {"job_id": "a", "attempt": 1, "time": at(4), "duration_ms": 3_000},
            {"job_id": "a", "attempt": 1, "time": at(6), "duration_ms": 5_000},
            {"job_id": "a", "attempt": 2, "time": at(20), "duration_ms": None},
        ],
        # n1 is paid from 10:00 on, n2 in minutes 2 and 3.
        NODE_MINUTES: [
            *(
                {
                    "node": "n1",
                    "minute": at(minute),
                    "quantity": 1,
                    "cost_usd": Decimal(1),
                    "unit": "gpu_milli_ms",
                }
                for minute in range(30)
            ),
            *(
                {
                    "node": "n2",
                    "minute": at(minute),
                    "quantity": 1,
                    "cost_usd": Decimal(1),
                    "unit": "gpu_milli_ms",
                }
                for minute in (2, 3)
            ),
        ],
        NODE_HOURS: [
            {
                "node": "n1",
                "hour": BEGIN,
                "paid_ms": 1_800_000,
                "starting_ms": 90_000,
                "cost_usd": Decimal(30),
                "gpu_type": "H100",
            },
            {"node": "n2", "hour": BEGIN, "paid_ms": 120_000, "cost_usd": Decimal(2), "gpu_type": "H100"},
        ],
        ATTEMPT_GPUS: [
            {"job_id": "a", "attempt": attempt, "node": "n1", "gpu": gpu}
            for attempt in (1, 2)
            for gpu in ("GPU-b", "GPU-a")
        ],
        ALERTS: [
            {"alert_id": "1", "status": "firing", "subject_kind": "job", "subject_name": "a", **alert},
            {"alert_id": "2", "status": "resolved", **alert, "resolved": at(22), "severity": "ticket"},
            {
                "alert_id": "3",
                "status": "resolved",
                **alert,
                "resolved": at(-999),
                "changed": at(-999),
                "started": at(-1_000),
            },
        ],
        DELIVERIES: [
            {"alert_id": "1", "time": at(21), "attempt": 1, "outcome": "retrying"},
            {"alert_id": "1", "time": at(21.5), "attempt": 2, "outcome": "delivered"},
        ],
        DEAD_LETTERS: [{"topic": "jobs", "offset": 5, "reason": "too_late", "time": at(3)}],
    }
    for table, values in tables.items():
        store.insert(table, rows(table, *values), f"fill {table}")
    # The canary, in the range of the figures: no panel shows it.
    canary_rows.load(store, at(5))


def asked(
    store: ClickHouseStore, panel: str, *, minutes: int = 30, interval_s: int = 60
) -> list[dict[str, Any]]:
    """The answer that Grafana's user gets, who does not read with `final` by himself."""
    return sent(store, statement(PANELS[panel]), minutes, interval_s)


def sent(store: ClickHouseStore, sql: str, minutes: int, interval_s: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.query(
        expanded(sql, BEGIN_S, BEGIN_S + minutes * 60, interval_s)
    ).to_pylist()
    return found


def step(row: dict[str, Any]) -> int:
    """Minutes since the begin; the engine's Arrow has instants in seconds."""
    return (int(row["time"]) - BEGIN_S) // 60


def all_targets() -> list[Target]:
    return [target for path in sorted(DASHBOARDS.glob("*.json")) for target in targets(path)]


def test_the_files_are_what_the_code_makes() -> None:
    """If not: python -m deploy.grafana.make_dashboards."""
    assert {path: path.read_text(encoding="utf-8") for path in sorted(FOLDER.iterdir())} == files()


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.panel)
@pytest.mark.parametrize(("interval_s", "minutes"), [(1, 30), (10, 30), (3_600, 30), (3_600, 10_000)])
def test_every_statement_runs_and_has_rows(
    store: ClickHouseStore, target: Target, interval_s: int, minutes: int
) -> None:
    found = sent(store, target.sql, minutes, interval_s)
    assert found or (minutes > 30 and target.panel in AT_THE_END)
    assert not found or not target.is_time_series or "time" in found[0]


def test_a_range_without_rows_is_no_fault(store: ClickHouseStore) -> None:
    for target in all_targets():
        store.query(expanded(target.sql, 1_600_000_000, 1_600_003_600, 60))
        store.query(expanded(target.sql, 1_600_000_000, 1_610_000_000, 60))


@pytest.mark.parametrize("panel", ["burn", "burn_by_team", "cost_per_training_hour"])
def test_a_window_of_many_jobs_keeps_no_rows(store: ClickHouseStore, panel: str) -> None:
    """The worker's limits make it so; a sort of all rows takes more memory than a query may."""
    sql = f"EXPLAIN PIPELINE {expanded(statement(PANELS[panel]), BEGIN_S, BEGIN_S + 1_800, 60)}"
    kept = {**QueryLimits().of_product(is_own=True).settings(), "optimize_read_in_window_order": "0"}
    for limits, is_sorted in ((QueryLimits().of_product(is_own=True).settings(), False), (kept, True)):
        plan = "\n".join(str(line) for (line,) in store.ask(sql, settings=limits).rows())
        read = plan.rpartition("WindowTransform")[2]
        assert ("MergeSortingTransform" in read) == is_sorted


def test_macros_that_nobody_knows_are_found() -> None:
    with pytest.raises(ValueError, match=r"\$__timeGroup"):
        expanded("SELECT $__timeGroup(time, 5m)", 0, 1, 1)


def test_a_job_in_a_statement_is_quoted_by_grafana() -> None:
    assert all(panel.needs_job == ("${job:sqlstring}" in statement(panel)) for panel in PANELS.values())


def test_the_fleet_burns_what_its_jobs_burn_and_nothing_outlives_eleven_minutes(
    store: ClickHouseStore,
) -> None:
    found = {step(row): (row["now"], row["1 h"], row["expected"]) for row in asked(store, "burn")}
    assert found[0] == (10, 0, 5)  # the one minute that cost something begins at 10:01
    assert found[4] == (10, 7, 5)
    assert found[5] == (16, 7, 10)
    assert found[10] == (10, 7, 10)
    assert found[12] == (0, 7, 5)  # only b's row of zeros stands
    assert found[20] == (40, 7, 10)
    assert found[30] == (40, 7, 5)
    assert max(found) == 30


def test_beyond_six_hours_the_ledger_says_what_was_burnt(store: ClickHouseStore) -> None:
    (row,) = asked(store, "burn", minutes=420, interval_s=3_600)
    assert (step(row), row["now"], row["1 h"], row["expected"]) == (0, None, 8, None)
    (cut,) = asked(store, "burn", minutes=420, interval_s=86_400)
    assert step(cut) == -600
    assert float(cut["1 h"]) == pytest.approx(8 / 7)  # seven hours of the day are asked for
    teams = {row["series"]: row["$/h"] for row in asked(store, "burn_by_team", minutes=420, interval_s=3_600)}
    assert teams == {"red": 7, "(no team)": 1}


def test_teams_add_up_to_the_fleet(store: ClickHouseStore) -> None:
    found = {(step(row), row["series"]): row["$/h"] for row in asked(store, "burn_by_team")}
    assert found[5, "red"] == 10
    assert found[5, "(no team)"] == 6
    assert found[20, "red"] == 40


def test_burn_now_is_that_of_jobs_with_a_recent_row(store: ClickHouseStore) -> None:
    assert asked(store, "burn_now") == [{"now": 40, "1 h": 7, "6 h": SIXTH_OF_7, "jobs that burn": 1}]
    # At the end of an earlier range others burnt.
    assert asked(store, "burn_now", minutes=6) == [
        {"now": 16, "1 h": 7, "6 h": SIXTH_OF_7, "jobs that burn": 2}
    ]


def test_jobs_by_burn_rate_say_whose_they_are(store: ClickHouseStore) -> None:
    (row,) = asked(store, "live_jobs")
    assert (row["job"], row["owner"], row["team"], row["state"], row["GPUs"]) == (
        "a",
        "ann",
        "red",
        "running",
        8,
    )
    assert (row["$/h now"], row["ratio"], row["cost so far"]) == (40, 8.0, 7)


def test_ratios_are_those_of_jobs_that_were_judged(store: ClickHouseStore) -> None:
    found = {(step(row), row["series"]): row["ratio"] for row in asked(store, "ratios")}
    assert found[20, "a"] == 8.0
    assert found[5, "b"] == 1.2


def test_unproductive_is_what_was_not_productive(store: ClickHouseStore) -> None:
    assert [(step(row), row["unproductive"]) for row in asked(store, "unproductive")] == [(1, 0.25), (2, 0.0)]
    (row,) = asked(store, "unproductive", minutes=420)
    assert row["unproductive"] == pytest.approx(1 - 840 / 1920)


def test_unpriced_time_and_costs_of_the_day(store: ClickHouseStore) -> None:
    assert asked(store, "unpriced") == [{"GPU-hours": 0.5}]
    assert asked(store, "spent") == [{"today": 8, "range": 8}]
    assert asked(store, "today_by_component") == [
        {"component": "gpu", "cost": 7},
        {"component": "network", "cost": 1},
    ]


def test_nodes_begin_and_end(store: ClickHouseStore) -> None:
    found = {step(row): (row["begun"], row["ended"], row["paid"]) for row in asked(store, "nodes")}
    assert (found[0], found[1], found[2], found[3], found[4]) == (
        (1, 0, 1),
        (0, 0, 1),
        (1, 0, 2),
        (0, 0, 2),
        (0, 1, 1),
    )
    assert max(found) == 29  # n1 goes on: it did not end with what is stored
    (row,) = asked(store, "nodes", minutes=420)
    assert (row["begun"], row["ended"], row["paid"]) == (2, 0, 2)


def test_how_long_nodes_took_is_a_mean_over_those_that_started(store: ClickHouseStore) -> None:
    (row,) = asked(store, "node_starts")
    assert (row["nodes"], row["mean seconds"]) == (1, 90)


def test_how_long_jobs_wait_is_a_mean_over_those_that_waited(store: ClickHouseStore) -> None:
    (row,) = asked(store, "waiting")
    assert (row["in the queue"], row["starting"]) == (60.0, 30.0)


def test_alerts_deliveries_and_dead_letters(store: ClickHouseStore) -> None:
    assert asked(store, "alerts_firing") == [{"pages": 1, "tickets": 0}]
    assert [(row["severity"], row["status"]) for row in asked(store, "alerts")] == [
        ("page", "firing"),
        ("ticket", "resolved"),
    ]
    opened = [(step(row), row["series"], row["alerts"]) for row in asked(store, "alerts_opened")]
    assert opened == [(21, "page", 1), (21, "ticket", 1)]
    made = [(step(row), row["series"], row["deliveries"]) for row in asked(store, "deliveries")]
    assert made == [(21, "delivered", 1), (21, "retrying", 1)]
    assert asked(store, "dead_letters_count") == [{"dead letters": 1}]
    (letter,) = asked(store, "dead_letters")
    assert (step(letter), letter["series"]) == (3, "too_late")


def test_months_without_a_whole_day_before_are_not_forecast(store: ClickHouseStore) -> None:
    (month,) = asked(store, "month")
    assert (month["so far"], month["forecast"], month["last month"]) == (8, None, 0)
    (row,) = asked(store, "months")
    assert (row["spent"], row["forecast of the rest"]) == (8, None)


def test_cost_per_training_hour_is_of_jobs(store: ClickHouseStore) -> None:
    (row,) = asked(store, "cost_per_training_hour")
    assert {row["median"], row["p95"]} <= {14.0, 4.0}
    assert row["p95"] == 14.0
    assert asked(store, "cost_per_training_hour", minutes=60 * 24 * 40, interval_s=60) == [row]
    teams = {row["series"]: row["cost"] for row in asked(store, "cost_by_team")}
    assert teams == {"red": 7, "(no team)": 1}
    first, second = asked(store, "top_jobs")
    assert (first["job"], first["cost"], first["per training hour"], first["lost"]) == ("a", 7, 14.0, 2)
    assert (second["job"], second["cost"]) == ("b", 1)


def test_the_unallocated_share_is_that_of_nodes_and_of_jobs_without_a_team(store: ClickHouseStore) -> None:
    (short,) = asked(store, "unallocated")
    assert (short["idle nodes"], short["jobs without a team"]) == (pytest.approx(31 / 32), 1 / 8)
    (long,) = asked(store, "unallocated", minutes=3_000)
    assert (long["idle nodes"], long["jobs without a team"]) == (pytest.approx(25 / 32), 1 / 8)


def test_one_job_has_its_attempts_nodes_and_traffic(store: ClickHouseStore) -> None:
    (facts,) = asked(store, "job_facts")
    assert (facts["state"], facts["preempted"], facts["ran for"], facts["cost so far"]) == (
        "running",
        1,
        0.5,
        7,
    )
    attempts = asked(store, "job_attempts")
    assert [(row["attempt"], row["state"]) for row in attempts] == [(2, "running"), (1, "preempted")]
    assert (attempts[1]["queue"], attempts[1]["start"], attempts[1]["cost"]) == (60.0, 30.0, 7)
    (node,) = asked(store, "job_nodes")
    assert (node["node"], node["GPUs"], node["productive"]) == ("n1", 8.0, 0.875)
    assert node["memory in use, at most"] == 7 * 2**20
    assert (node["node start-up"], node["GPU ids"]) == (90, "GPU-a GPU-b")
    assert [(step(row), row["series"], row["requests"]) for row in asked(store, "job_requests")] == [
        (2, "read", 900)
    ]
    assert [(step(row), row["series"], row["bytes"]) for row in asked(store, "job_bytes")] == [
        (2, "out, internet", 5_000)
    ]
    (cost,) = asked(store, "job_cost")
    assert (step(cost), cost["series"], cost["$/h"]) == (1, "gpu", 420)
    assert [row["productive"] for row in asked(store, "job_gpu_use")] == [0.75, 1.0]


def test_checkpoints_say_how_often_and_how_long(store: ClickHouseStore) -> None:
    assert [step(row) for row in asked(store, "job_checkpoints")] == [4, 6, 20]
    saves = [(step(row), row["mean"], row["longest"]) for row in asked(store, "job_saves")]
    assert saves == [(4, 3.0, 3.0), (6, 5.0, 5.0)]
    # The first of an attempt has none before it.
    assert [(step(row), row["mean"]) for row in asked(store, "job_intervals")] == [(6, 120.0)]
