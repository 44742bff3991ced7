"""The dashboards are what the code makes, and every statement in them gives the figures of a fleet worked by hand.

Burn rates, from 10:00 on (in $/h now): job a of team red 10 at 10:00, then 40 at 10:20 (no row between 10:11 and
10:20, so nothing burns then); job b, of no team, 6 at 10:05, then a row of zeros at 10:10.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from deploy.grafana import live_sql
from deploy.grafana.make_dashboards import LIVE, live, text
from schemas.tables import (
    ALERTS,
    BURN_RATES,
    DEAD_LETTERS,
    DELIVERIES,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
)
from sinks.clickhouse import ClickHouseStore
from tests.deploy.grafana import DASHBOARDS, Target, expanded, targets
from tests.sinks import canary_rows
from tests.sinks.rows import instant, rows
from tests.sinks.stores import embedded

BEGIN = instant("2026-03-01 10:00")
BEGIN_S = int(BEGIN.timestamp())
GPU_HOUR = 3_600_000_000


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
    today = datetime.now(UTC).replace(second=0, microsecond=0)
    alert = {"severity": "page", "rule": "burn_fast", "started": at(21), "changed": at(21), "ratio": 8.0}
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
        JOB_MINUTES: [
            {"job_id": "a", "minute": at(1), "quantity": GPU_HOUR, "cost_usd": Decimal(7), "sku": "h100"},
            {"job_id": "a", "minute": at(2), "quantity": GPU_HOUR // 2, "cost_usd": Decimal(0)},
            {"job_id": "a", "minute": at(3), "quantity": 0, "cost_usd": Decimal(0)},
            {"job_id": "a", "minute": today, "quantity": 1, "cost_usd": Decimal(3), "sku": "h100"},
            {"job_id": "b", "minute": today, "quantity": 1, "cost_usd": Decimal(1), "component": "network"},
        ],
        JOB_USAGE_MINUTES: [
            {"job_id": "a", "minute": at(1), "sampled_gpu_s": 480, "productive_gpu_ms": 360_000},
            {"job_id": "a", "minute": at(2), "sampled_gpu_s": 480, "productive_gpu_ms": 480_000},
        ],
        ALERTS: [
            {"alert_id": "1", "status": "firing", "subject_kind": "job", "subject_name": "a", **alert},
            {"alert_id": "2", "status": "resolved", **alert, "resolved": at(22), "severity": "ticket"},
            {"alert_id": "3", "status": "resolved", **alert, "resolved": at(-999), "changed": at(-999)},
        ],
        DELIVERIES: [
            {"alert_id": "1", "time": at(21), "attempt": 1, "outcome": "retrying"},
            {"alert_id": "1", "time": at(21.5), "attempt": 2, "outcome": "delivered"},
        ],
        DEAD_LETTERS: [{"topic": "jobs", "offset": 5, "reason": "too_late", "time": at(3)}],
    }
    for table, values in tables.items():
        store.insert(table, rows(table, *values), f"fill {table}")
    # The canary, on the days of the figures: no panel shows it.
    canary_rows.load(store, at(5))
    canary_rows.load(store, today)


def asked(
    store: ClickHouseStore, sql: str, *, minutes: int = 30, interval_s: int = 60
) -> list[dict[str, Any]]:
    """The answer that Grafana's user gets, who does not read with `final` by himself."""
    statement = expanded(sql, BEGIN_S, BEGIN_S + minutes * 60, interval_s)
    found: list[dict[str, Any]] = store.query(statement).to_pylist()
    return found


def step(row: dict[str, Any]) -> int:
    """Minutes since the begin; the engine's Arrow has instants in seconds."""
    return (int(row["time"]) - BEGIN_S) // 60


def all_targets() -> list[Target]:
    return [target for path in sorted(DASHBOARDS.glob("*.json")) for target in targets(path)]


def test_the_file_is_what_the_code_makes() -> None:
    """If not: python -m deploy.grafana.make_dashboards."""
    assert LIVE.read_text(encoding="utf-8") == text(live())


@pytest.mark.parametrize("target", all_targets(), ids=lambda target: target.panel)
@pytest.mark.parametrize("interval_s", [1, 10, 3_600])
def test_every_statement_runs(store: ClickHouseStore, target: Target, interval_s: int) -> None:
    found = asked(store, target.sql, interval_s=interval_s)
    assert found
    assert not target.is_time_series or "time" in found[0]


def test_a_range_without_rows_is_no_fault(store: ClickHouseStore) -> None:
    for target in all_targets():
        store.query(expanded(target.sql, 1_600_000_000, 1_600_003_600, 60))


def test_macros_that_nobody_knows_are_found() -> None:
    with pytest.raises(ValueError, match=r"\$__timeGroup"):
        expanded("SELECT $__timeGroup(time, 5m)", 0, 1, 1)


def test_the_fleet_burns_what_its_jobs_burn_and_nothing_outlives_eleven_minutes(
    store: ClickHouseStore,
) -> None:
    found = {
        step(row): (row["now"], row["1 h"], row["expected"]) for row in asked(store, live_sql.FLEET_OVER_TIME)
    }
    assert found[0] == (10.0, 5.0, 5.0)
    assert found[4] == (10.0, 5.0, 5.0)
    assert found[5] == (16.0, 8.0, 10.0)
    assert found[10] == (10.0, 5.0, 10.0)
    assert found[12] == (0.0, 0.0, 5.0)  # only b's row of zeros stands
    assert found[20] == (40.0, 20.0, 10.0)
    assert found[30] == (40.0, 20.0, 5.0)
    assert max(found) == 30


def test_teams_add_up_to_the_fleet(store: ClickHouseStore) -> None:
    found = {(step(row), row["series"]): row["$/h"] for row in asked(store, live_sql.BY_TEAM_OVER_TIME)}
    assert found[5, "red"] == 10.0
    assert found[5, "(no team)"] == 6.0
    assert found[20, "red"] == 40.0


def test_burn_now_is_that_of_jobs_with_a_recent_row(store: ClickHouseStore) -> None:
    assert asked(store, live_sql.BURN_NOW) == [{"now": 40.0, "1 h": 20.0, "6 h": 10.0}]


def test_jobs_by_burn_rate_say_whose_they_are(store: ClickHouseStore) -> None:
    (row,) = asked(store, live_sql.TOP_JOBS)
    assert (row["job"], row["owner"], row["team"], row["state"], row["GPUs"]) == (
        "a",
        "ann",
        "red",
        "running",
        8.0,
    )
    assert (row["$/h now"], row["ratio"], row["cost so far"]) == (40.0, 8.0, 10.0)


def test_ratios_are_those_of_jobs_that_were_judged(store: ClickHouseStore) -> None:
    found = {(step(row), row["series"]): row["ratio"] for row in asked(store, live_sql.RATIO_OVER_TIME)}
    assert found[20, "a"] == 8.0
    assert found[5, "b"] == 1.2


def test_unproductive_is_what_was_not_productive(store: ClickHouseStore) -> None:
    assert [(step(row), row["unproductive"]) for row in asked(store, live_sql.IDLE_OVER_TIME)] == [
        (1, 0.25),
        (2, 0.0),
    ]


def test_unpriced_time_and_costs_of_the_day(store: ClickHouseStore) -> None:
    assert asked(store, live_sql.UNPRICED_GPU_HOURS) == [{"GPU-hours": 0.5}]
    assert asked(store, live_sql.SPEND_TODAY) == [{"today": 4.0}]
    assert asked(store, live_sql.COST_TODAY_BY_COMPONENT) == [
        {"component": "gpu", "usd": 3.0},
        {"component": "network", "usd": 1.0},
    ]


def test_alerts_deliveries_and_dead_letters(store: ClickHouseStore) -> None:
    assert asked(store, live_sql.ALERTS_FIRING) == [{"pages": 1, "tickets": 0}]
    assert [(row["severity"], row["status"]) for row in asked(store, live_sql.ALERTS)] == [
        ("page", "firing"),
        ("ticket", "resolved"),
    ]
    made = [
        (step(row), row["outcome"], row["deliveries"]) for row in asked(store, live_sql.DELIVERIES_OVER_TIME)
    ]
    assert made == [(21, "delivered", 1), (21, "retrying", 1)]
    assert asked(store, live_sql.DEAD_LETTERS_COUNT) == [{"dead letters": 1}]
    (letter,) = asked(store, live_sql.DEAD_LETTERS_OVER_TIME)
    assert (step(letter), letter["reason"]) == (3, "too_late")
