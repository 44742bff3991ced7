"""A job's rows are found by the primary key through the view, its FINAL and its joins."""

import re

import numpy as np
import pyarrow as pa
import pytest

from schemas.tables import ATTEMPTS, JOB_HOURS, JOB_MINUTES, JOBS, SCHEMAS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import QueryFailed
from tests.sinks.rows import row, rows

JOB_COUNT = 10_000
ROWS_PER_JOB = 100
# Of the two million rows that are stored.
AT_MOST = "SETTINGS max_rows_to_read = 100000"


def ledger_rows(version: int) -> pa.Table:
    """JOB_COUNT jobs x ROWS_PER_JOB minutes."""
    number = np.arange(JOB_COUNT * ROWS_PER_JOB)
    usual = rows(JOB_MINUTES, {"quantity": 1, "version": version}).take(pa.array(np.zeros(len(number), "i8")))
    jobs = pa.array([f"job-{job:05}" for job in range(JOB_COUNT)]).take(pa.array(number // ROWS_PER_JOB))
    start_s = int(row(JOB_MINUTES, {})["minute"].timestamp())
    minutes = pa.array(start_s + number % ROWS_PER_JOB * 60).cast(SCHEMAS[JOB_MINUTES].field("minute").type)
    columns = {name: usual[name] for name in usual.column_names} | {"job_id": jobs, "minute": minutes}
    return pa.table(columns, schema=SCHEMAS[JOB_MINUTES])


@pytest.fixture(scope="module")
def million(shared: ClickHouseStore) -> ClickHouseStore:
    """A store with JOB_COUNT jobs, each row of the ledger in two versions."""
    for version in (1, 2):
        shared.insert(JOB_MINUTES, ledger_rows(version), f"v{version}")
    minutes = ledger_rows(1)
    hours = rows(JOB_HOURS, {"wall_clock_ms": 1}).take(pa.array(np.zeros(len(minutes), "i8")))
    hours = hours.set_column(1, "job_id", minutes["job_id"]).set_column(
        0, "hour", pa.array(np.tile(np.arange(ROWS_PER_JOB), JOB_COUNT) * 3600).cast(minutes["minute"].type)
    )
    shared.insert(JOB_HOURS, hours.cast(SCHEMAS[JOB_HOURS]), "hours")
    for table in (JOBS, ATTEMPTS):
        shared.insert(table, rows(table, *({"job_id": f"job-{job:05}"} for job in range(JOB_COUNT))), "t")
    return shared


@pytest.mark.parametrize("view", ["ledger", "job_costs"])
def test_one_job_of_a_million_rows_is_read_by_its_key(million: ClickHouseStore, view: str) -> None:
    sql = f"SELECT * FROM {view} WHERE job_id = 'job-05000'"
    plan = "\n".join(str(line) for line in million.ask(f"EXPLAIN indexes = 1 {sql}").columns[0])
    reads = re.findall(
        r"ReadFromMergeTree \(\w+\.(\w+)\).*?PrimaryKey.*?Granules: (\d+)/(\d+)", plan, re.DOTALL
    )
    costs = JOB_MINUTES if view == "ledger" else JOB_HOURS
    assert {costs, JOBS, ATTEMPTS} <= {table for table, _, _ in reads}
    assert all(int(read) <= 4 for _, read, _ in reads), plan
    assert max(int(total) for _, _, total in reads) > 100
    answer = million.ask(f"{sql} {AT_MOST}")
    assert len(answer.columns[0]) == (ROWS_PER_JOB if view == "ledger" else 1)


def test_what_reads_more_rows_fails(million: ClickHouseStore) -> None:
    """The limit above, at work."""
    with pytest.raises(QueryFailed, match="TOO_MANY_ROWS"):
        million.ask(f"SELECT count() FROM ledger WHERE quantity > 0 {AT_MOST}")
