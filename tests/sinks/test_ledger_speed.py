"""A job's rows are found by the primary key through the view, its FINAL and its joins."""

import re
import time

import numpy as np
import pyarrow as pa
import pytest

from schemas.tables import ATTEMPTS, JOB_MINUTES, JOBS, SCHEMAS
from sinks.clickhouse import ClickHouseStore
from tests.sinks.rows import row, rows

JOB_COUNT = 10_000
ROWS_PER_JOB = 100
MOST_S = 0.5  # measured: 0.01 s on two cores


def ledger_rows(version: int) -> pa.Table:
    """JOB_COUNT jobs x ROWS_PER_JOB minutes."""
    number = np.arange(JOB_COUNT * ROWS_PER_JOB)
    usual = rows(JOB_MINUTES, {"quantity": 1, "version": version}).take(pa.array(np.zeros(len(number), "i8")))
    jobs = pa.array([f"job-{job:05}" for job in range(JOB_COUNT)]).take(pa.array(number // ROWS_PER_JOB))
    start_s = int(row(JOB_MINUTES, {})["minute"].timestamp())
    minutes = pa.array(start_s + number % ROWS_PER_JOB * 60).cast(SCHEMAS[JOB_MINUTES].field("minute").type)
    columns = {name: usual[name] for name in usual.column_names} | {"job_id": jobs, "minute": minutes}
    return pa.table(columns, schema=SCHEMAS[JOB_MINUTES])


@pytest.mark.parametrize("view", ["ledger", "job_costs"])
def test_one_job_of_a_million_rows_is_read_by_its_key(store: ClickHouseStore, view: str) -> None:
    for version in (1, 2):
        store.insert(JOB_MINUTES, ledger_rows(version), f"v{version}")
    for table in (JOBS, ATTEMPTS):
        store.insert(table, rows(table, *({"job_id": f"job-{job:05}"} for job in range(JOB_COUNT))), "t")
    sql = f"SELECT * FROM {view} WHERE job_id = 'job-05000'"

    plan = "\n".join(str(line) for line in store.ask(f"EXPLAIN indexes = 1 {sql}").columns[0])
    reads = re.findall(
        r"ReadFromMergeTree \(\w+\.(\w+)\).*?PrimaryKey.*?Granules: (\d+)/(\d+)", plan, re.DOTALL
    )
    assert {JOB_MINUTES, JOBS, ATTEMPTS} <= {table for table, _, _ in reads}
    assert all(int(read) <= 4 for _, read, _ in reads), plan
    assert max(int(total) for _, _, total in reads) > 100

    store.ask(sql)
    start_s = time.perf_counter()
    answer = store.ask(sql)
    assert time.perf_counter() - start_s < MOST_S
    assert len(answer.columns[0]) == (ROWS_PER_JOB if view == "ledger" else 1)
