"""Months of minutes leave a real store; hours stay, and every total with them, whatever is restated later."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import JOB_MINUTES, JOB_USAGE_MINUTES
from sinks.clickhouse import ClickHouseStore
from sinks.meta import MINUTES_KEPT_FROM
from streams.worker.storing.retention import drop_old_minutes, first_month_kept
from tests.cli.command import trainfare
from tests.oracle.cases import T0, gpu, job, network, price
from tests.oracle.model import Line
from tests.sinks.stores import embedded

HOUR = 3_600_000
DAY = 24 * HOUR
SHIFT = 8 * HOUR
HOURS = "SELECT * EXCEPT (version, shard) FROM job_hours FINAL WHERE wall_clock_ms != 0 OR gpu_milli_ms != 0 ORDER BY ALL"
#: Both sums in nano-dollars, by component's column or over all.
COST_OF_HOURS = """
SELECT toString(sum(arraySum(arrayMap(usd -> toDecimal128(usd, 9), [gpu_cost_usd, compute_cost_usd, network_cost_usd,
    storage_cost_usd, license_cost_usd, labor_cost_usd, overhead_cost_usd])))) AS usd, toString(sum(gpu_milli_ms)) AS gpu,
    toString(sum(sampled_gpu_ms)) AS sampled
FROM job_hours FINAL"""
COST_OF_MINUTES = """
SELECT toString(sum(toDecimal128(cost_usd, 9))) AS usd, toString(sumIf(quantity, component = 'gpu')) AS gpu,
    (SELECT toString(1000 * sum(sampled_gpu_s)) FROM job_usage_minutes FINAL) AS sampled
FROM job_minutes FINAL"""
COST_OF_JOBS = "SELECT toString(sum(cost_usd)) AS usd FROM job_costs"


def first_log() -> list[Line]:
    """Four months and more: jobs in each but one, one over its end, attempts that overlap, one with samples only."""
    lines = [price("base", "1.23"), price("tools", "0.333333333", component="license", per="job_hour")]
    for month in range(4):
        at = T0 + (31 * month + 30) * DAY + DAY // 2
        name = f"job-{month}"
        lines += [
            job(name, "queued", at - HOUR),
            job(name, "started", at, gpu_count=3, purchase="spot"),
            gpu(name, at + 60_000, 60_000, {"0": 0.5}),
            job(name, "updated", at + SHIFT + 90_001, purchase="on_demand"),
            job(name, "started", at + 2 * SHIFT, attempt=2),
            network(name, at + 2 * SHIFT + 90_000, 80_001, bytes=10**10, path="internet"),
            job(name, "failed", at + 2 * SHIFT + HOUR),
            job(name, "completed", at + 3 * SHIFT + 1, attempt=2),
            gpu(f"metered-{month}", at + 3 * SHIFT + 2, 30_000, {"0": 1.0, "1": 0.25}),
        ]
    return lines


def late_log() -> list[Line]:
    """Prices since ever, which restate every month."""
    return [
        price("late", "7.01", match={"purchase": "spot"}, time_ms=T0 + 126 * DAY),
        price("egress", "0.09", component="network", per="gib", time_ms=T0 + 126 * DAY),
    ]


def _written(path: Path, lines: list[Line]) -> Path:
    path.write_text("".join(json.dumps({"topic": one.topic, "value": one.value}) + "\n" for one in lines))
    return path


def _one(store: ClickHouseStore, sql: str) -> dict[str, Any]:
    (row,) = store.query(sql).to_pylist()
    return dict(row)


def _replay(data: Path, log: Path, *words: str) -> None:
    done = trainfare("replay", log, "--data", data, *words)
    assert done.code == 0, done


def _audited(data: Path) -> str:
    done = trainfare("audit", "--data", data)
    assert done.code == 0, done.out
    return done.out


def _agree(store: ClickHouseStore) -> None:
    hours, minutes, jobs = (_one(store, sql) for sql in (COST_OF_HOURS, COST_OF_MINUTES, COST_OF_JOBS))
    assert hours == minutes
    assert Decimal(hours["usd"]) == Decimal(jobs["usd"]) > 0


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    root = tmp_path_factory.mktemp("logs")
    return _written(root / "first.jsonl", first_log()), _written(root / "late.jsonl", late_log())


def test_hours_minutes_and_jobs_have_one_sum_and_hours_keep_it(
    tmp_path: Path, logs: tuple[Path, Path]
) -> None:
    first, late = logs
    data, whole = tmp_path / "data", tmp_path / "whole"
    _replay(data, first, "--partitions", "2")
    shutil.copytree(data, whole, symlinks=True)  # which loses no minutes; months take a while to meter
    with embedded(data) as store:
        _agree(store)
        before = store.query(HOURS)
        assert drop_old_minutes(store, 0) == {}
        # The newest event is of May 4: 30 days before is April 4.
        dropped = drop_old_minutes(store, 30)
        assert dropped == {JOB_MINUTES: [202401, 202402, 202403], JOB_USAGE_MINUTES: [202401, 202402, 202403]}
        assert drop_old_minutes(store, 30) == {}
        assert drop_old_minutes(store, 10_000) == {}, "what is dropped stays dropped"
        assert store.meta.get(MINUTES_KEPT_FROM) == "202404"
        assert store.query(HOURS) == before
        assert _one(store, "SELECT toString(min(minute)) AS first FROM job_minutes")["first"].startswith(
            "2024-04"
        )
    assert "months before 2024-04 have no minutes any more" in _audited(data)
    refused = trainfare("audit", "--data", data, "--recount", "2024-01-01", "2024-06-01", first)
    assert refused.code == 2
    assert "begin at 2024-04-01 or later" in refused.one_line()

    for each in (data, whole):
        _replay(each, late, "--append")
    _audited(data)
    with embedded(whole) as store:
        _agree(store)
        want = store.query(HOURS)
        assert want != before
    with embedded(data) as store:
        assert store.query(HOURS) == want
        assert drop_old_minutes(store, 30) == {JOB_MINUTES: [202401, 202402, 202403]}, (
            "what the price restated"
        )
        assert store.query(HOURS) == want
    _audited(data)


@pytest.mark.parametrize(
    ("newest", "days", "month"),
    [
        (T0, 0, 202312),  # January begins: December ended now, not before
        (T0 + 1, 0, 202401),
        (T0 + 60 * DAY, 30, 202401),
        (T0 + 61 * DAY, 30, 202401),
        (T0 + 61 * DAY + 1, 30, 202402),
        (T0, 90, 202310),
    ],
)
def test_a_month_goes_once_it_ended_more_than_so_many_days_ago(newest: int, days: int, month: int) -> None:
    assert first_month_kept(newest, days) == month


def test_a_store_without_events_drops_nothing(tmp_path: Path) -> None:
    with embedded(tmp_path / "data") as store:
        assert drop_old_minutes(store, 90) == {}
