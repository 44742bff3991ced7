"""A month of hours to which nothing is written becomes one part, and nothing that is said of it changes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from schemas.tables import JOB_HOURS, NODE_HOURS
from sinks.clickhouse import ClickHouseStore
from tests.panels.year import END_S, table_of
from tests.sinks.stores import embedded

MONTH_S = 31 * 86_400
PARTS = "SELECT count() AS n FROM system.parts WHERE database = currentDatabase() AND table = 'job_hours' AND active AND partition = {month:String}"
COSTS = "SELECT toStartOfMonth(hour) AS month, sum(gpu_cost_usd) AS usd FROM job_hours FINAL GROUP BY month ORDER BY month"


def put(store: ClickHouseStore, usd: int, version: int, hour_s: int) -> None:
    columns = {"hour": [hour_s], "job_id": "a", "attempt": 1, "gpu_cost_usd": usd, "version": version}
    store.insert(JOB_HOURS, table_of(JOB_HOURS, columns), f"{usd} {version} {hour_s}")


def parts(store: ClickHouseStore, month: str) -> int:
    return int(store.query(PARTS, {"month": month})["n"][0].as_py())


def merged(store: ClickHouseStore, month: str) -> bool:
    deadline_s = time.monotonic() + 60
    while parts(store, month) > 1 and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return parts(store, month) == 1


def test_a_month_that_is_over_becomes_one_part_and_late_hours_are_merged_into_it(tmp_path: Path) -> None:
    with embedded(tmp_path) as store:
        for version, usd in ((1, 3), (2, 5)):
            put(store, usd, version, END_S - MONTH_S)
            put(store, usd, version, END_S)
        before = store.query(COSTS).to_pylist()
        assert [int(each["usd"]) for each in before] == [5, 5]
        assert parts(store, "202512") == 2
        store._connection.call(
            lambda client: client.command(
                "ALTER TABLE job_hours MODIFY SETTING min_age_to_force_merge_seconds = 1"
            )
        )
        assert merged(store, "202512")
        assert store.query(COSTS).to_pylist() == before
        put(store, 4, 3, END_S - MONTH_S)
        assert [int(each["usd"]) for each in store.query(COSTS).to_pylist()] == [4, 5]
        assert merged(store, "202512")
        assert [int(each["usd"]) for each in store.query(COSTS).to_pylist()] == [4, 5]


@pytest.mark.parametrize("table", [JOB_HOURS, NODE_HOURS])
def test_it_waits_for_an_hour_and_for_the_whole_month(tmp_path: Path, table: str) -> None:
    with embedded(tmp_path) as store:
        sql = "SELECT engine_full AS made FROM system.tables WHERE database = currentDatabase() AND name = {name:String}"
        made = str(store.query(sql, {"name": table})["made"][0])
    assert "min_age_to_force_merge_seconds = 3600" in made
    assert "min_age_to_force_merge_on_partition_only = 1" in made
