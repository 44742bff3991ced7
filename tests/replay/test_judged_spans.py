"""Rules across jobs over a long log: whole spans are read at once, in any parts, and what there is none of is not asked about."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ATTEMPTS, JOB_HOURS, JOBS, NODE_HOURS
from sinks.clickhouse import ClickHouseStore
from streams.engine.alerts.alert import FIRING
from streams.engine.ledger_rules.budget_used import Minutes
from streams.engine.reference_log import ReferenceLog
from streams.replay.replayed_judge import LogJudge
from streams.worker.ledger_judges import control_spans
from streams.worker.ledger_judges.control_spans import parts_of
from tests.property.chronicle import owner_of_shard_0
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, T0, at, opened

DAY_MS = 24 * HOUR_MS
BEGIN_MS = T0 // DAY_MS * DAY_MS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("spans"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def put(store: ClickHouseStore, table: str, found: list[dict[str, Any]]) -> None:
    numbered = [{**row, "version": number} for number, row in enumerate(found, 1)]
    store.insert(table, rows(table, *numbered), f"{table}:{len(found)}:{found[0]}")


def write(store: ClickHouseStore, days: int, hours: range) -> None:
    """A retried job and one without an owner that are paid in these hours of each day but each third one."""
    paid = [BEGIN_MS + day * DAY_MS + hour * HOUR_MS for day in range(days) if day % 3 != 2 for hour in hours]
    retried = {"job_id": "retried", "owner": "ada", "state": "running", "started": at(BEGIN_MS + 1)}
    put(store, JOBS, [retried, {"job_id": "orphan"}])
    broken: list[dict[str, Any]] = [
        {"attempt": n, "state": "failed", "started": at(BEGIN_MS + n), "ended": at(BEGIN_MS + n * HOUR_MS)}
        for n in (1, 2, 3)
    ]
    last_attempt = {"attempt": 4, "state": "running", "started": at(BEGIN_MS + 3 * HOUR_MS)}
    put(
        store,
        ATTEMPTS,
        [{"job_id": "retried", **each} for each in (*broken, last_attempt)],
    )
    lost: list[dict[str, Any]] = [
        {"attempt": n, "hour": at(BEGIN_MS), "gpu_cost_usd": Decimal(6), "lost_cost_usd": Decimal(6)}
        for n in (1, 2, 3)
    ]
    last: list[dict[str, Any]] = [
        {"attempt": 4, "hour": at(hour_ms), "gpu_cost_usd": Decimal(1)} for hour_ms in paid
    ]
    put(
        store, JOB_HOURS, [{"job_id": "retried", "wall_clock_ms": HOUR_MS, **each} for each in (*lost, *last)]
    )
    money: dict[str, Any] = {"attempt": 1, "gpu_cost_usd": Decimal(2), "wall_clock_ms": HOUR_MS}
    put(store, JOB_HOURS, [{"job_id": "orphan", "hour": at(hour_ms), **money} for hour_ms in paid])


def idle_node(store: ClickHouseStore) -> None:
    """A node that is paid for nine hours of each of four days."""
    money: dict[str, Any] = {
        "cost_usd": Decimal(3),
        "gpu_milli_ms": 8_000,
        "paid_ms": HOUR_MS,
        "team": "infra",
    }
    hours = [BEGIN_MS + day * DAY_MS + hour * HOUR_MS for day in range(4) for hour in range(9)]
    put(store, NODE_HOURS, [{"node": "idle", "hour": at(hour_ms), **money} for hour_ms in hours])


def judged(store: ClickHouseStore, days: int) -> list[Any]:
    end_ms = BEGIN_MS + days * DAY_MS
    return asyncio.run(LogJudge(store, ReferenceLog().view()).judge(owner_of_shard_0(), end_ms))


@pytest.mark.parametrize("node", [False, True])
def test_statements_do_not_grow_with_the_days_of_a_log(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, node: bool
) -> None:
    asked: list[str] = []
    query = ClickHouseStore.query

    def counted(self: ClickHouseStore, sql: str, *more: Any, **named: Any) -> Any:
        asked.append(sql)
        return query(self, sql, *more, **named)

    monkeypatch.setattr(ClickHouseStore, "query", counted)
    counts, opened_alerts = [], []
    for days in (6, 120):
        empty(store.target)
        write(store, days, range(1))
        if node:
            idle_node(store)
        asked.clear()
        changes = judged(store, days)
        counts.append(len(asked))
        opened_alerts.append(len([each for each in changes if each.status == FIRING]))
    assert opened_alerts[1] > opened_alerts[0] > 0
    assert counts[0] == counts[1]


@pytest.mark.parametrize("at_once", [1, 10, 100])
def test_a_log_has_the_same_alerts_in_whatever_parts_its_days_are_read(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    def told() -> list[Any]:
        empty(store.target)
        write(store, 12, range(3, 20))
        idle_node(store)
        return sorted(judged(store, 12), key=lambda each: (each.alert_id, each.status))

    whole = told()
    rules = {each.rule for each in whole}
    assert {"retry_overhead", "owner_coverage", "forgotten_node", "unallocated"} <= rules
    assert all(each.summary and each.evidence_sql for each in whole)
    monkeypatch.setattr(control_spans, "_ROWS_AT_ONCE", at_once)
    assert told() == whole


def test_parts_are_whole_days_of_so_many_rows_and_nothing_is_left_out() -> None:
    day = control_spans._ROWS_AT_ONCE // 3
    days = [(BEGIN_MS + n * DAY_MS, day) for n in range(10)] + [(BEGIN_MS + 400 * DAY_MS, 10 * day)]
    span = Minutes(BEGIN_MS + HOUR_MS, BEGIN_MS + 500 * DAY_MS)
    parts = list(parts_of(span, days))
    assert [each.since_ms for each in parts[1:]] == [each.until_ms for each in parts[:-1]]
    assert (parts[0].since_ms, parts[-1].until_ms) == span
    cuts = [(each.until_ms - BEGIN_MS) // DAY_MS for each in parts]
    assert cuts == [3, 6, 9, 400, 500]


def test_days_without_rows_are_one_part() -> None:
    span = Minutes(BEGIN_MS, BEGIN_MS + 3_650 * DAY_MS)
    assert list(parts_of(span, [])) == [span]
