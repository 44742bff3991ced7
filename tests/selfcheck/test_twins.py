"""Rows of one key and version that differ are found in any day, and spans of rows are cut without gaps."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from schemas.durations import DAY_S
from schemas.tables import JOB_MINUTES, NODE_MINUTES
from sinks.clickhouse import ClickHouseStore, Embedded
from streams.selfcheck.audit import tables
from streams.selfcheck.audit.tables import spans_of, twins
from tests.sinks.rows import rows

FIRST = datetime(2026, 3, 30, 23, 59, tzinfo=UTC)


def ask_of(store: ClickHouseStore, asked: list[str]) -> tables.Ask:
    def ask(sql: str, parameters: Any) -> list[dict[str, Any]]:
        asked.append(sql)
        return store.ask(sql, parameters).records()

    return ask


def insert(store: ClickHouseStore, table: str, *found: dict[str, Any]) -> None:
    """Each row alone, as a block of its own."""
    for each in found:
        store.insert(table, rows(table, each), f"{each}")


@pytest.mark.parametrize("rows_at_once", [1, 2, 1_000_000])
def test_a_second_writer_is_found_on_each_of_its_days(
    rows_at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "_ROWS_AT_ONCE", rows_at_once)
    store = ClickHouseStore(Embedded(data_dir=tmp_path))
    store._connection.call(
        lambda client: client.command("SYSTEM STOP MERGES")
    )  # one would leave a single row of each key
    try:
        job = {"job_id": "train-1", "version": 7, "shard": 2}
        minutes = [FIRST + timedelta(minutes=each) for each in (0, 1, 2, 3 * 1_440)]
        insert(store, JOB_MINUTES, *({**job, "minute": each, "quantity": 60} for each in minutes))
        asked: list[str] = []
        ask = ask_of(store, asked)
        assert [each.keys for each in twins(ask)] == [0, 0]
        insert(
            store,
            JOB_MINUTES,
            {**job, "minute": minutes[1], "quantity": 59},
            {**job, "minute": minutes[3], "quantity": 61},
            {**job, "minute": minutes[2], "quantity": 61, "version": 8},  # a later row, no second writer
        )
        insert(store, NODE_MINUTES, *({"node": "n1", "version": 7, "shard": 2, "minute": minutes[0], "quantity": each} for each in (1, 2)))  # fmt: skip
        of_jobs, of_nodes = twins(ask)
        assert (of_jobs.keys, of_nodes.keys) == (2, 1)
        assert len(of_jobs.examples) == 2
        assert "train-1 minute 2026-03-31 00:00:00 version 7" in of_jobs.examples
        assert [each.keys for each in twins(ask, [3])] == [0, 0]
        assert [each.keys for each in twins(ask, [2], 7)] == [0, 0]
    finally:
        store.close()


def test_spans_take_days_together_and_cut_large_ones() -> None:
    days = [(0, 4), (DAY_S, 5), (3 * DAY_S, 2), (9 * DAY_S, 25), (10 * DAY_S, 1)]
    spans = list(spans_of(days, 10))
    third = DAY_S // 3
    assert spans == [
        (0, 2 * DAY_S),
        (3 * DAY_S, 4 * DAY_S),
        *((9 * DAY_S + part * third, 9 * DAY_S + (part + 1) * third) for part in range(3)),
        (10 * DAY_S, 11 * DAY_S),
    ]
    assert list(spans_of([(0, 10**9)], 1))[-1] == (DAY_S - 60, DAY_S)
    assert list(spans_of([], 10)) == []
