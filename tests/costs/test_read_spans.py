"""What is read to know from when to when there are costs, and which days have a balance of nodes: little, and the same as of all."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.tables import JOB_HOURS, JOB_MINUTES, NODE_HOURS, NODE_MINUTES
from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from streams.costs.day_parts import answered
from streams.costs.parts import Parameters
from streams.costs.request import request_of
from streams.costs.sql import KnownSpan, cell_steps, span_steps
from tests.panels.year import DAY_S, END_S, HOUR_S, table_of
from tests.sinks.stores import embedded

MONTH_S = 31 * DAY_S
NOTHING = KnownSpan(0, 0, 0)


class Asked:
    """A store that keeps what it was asked."""

    def __init__(self, store: ClickHouseStore) -> None:
        self.store = store
        self.statements: list[str] = []

    def __call__(self, sql: str, parameters: Parameters) -> QueryResult:
        self.statements.append(sql)
        return self.store.ask(sql, parameters)


@pytest.fixture
def asked(tmp_path: Path) -> Iterator[Asked]:
    with embedded(tmp_path) as store:
        yield Asked(store)


def put(asked: Asked, table: str, **columns: object) -> None:
    size = len(asked.store.query(f"SELECT 1 FROM {table}"))
    asked.store.insert(table, table_of(table, {**columns, "version": 1}), f"{table} {size}")


def hour(asked: Asked, at_s: int, job: str = "a", wall_clock_ms: int = 1) -> None:
    put(asked, JOB_HOURS, hour=[at_s], job_id=job, attempt=1, wall_clock_ms=wall_clock_ms)


def test_the_first_and_the_last_month_say_where_costs_begin_and_end(asked: Asked) -> None:
    assert answered(span_steps(), asked) == NOTHING
    for at_s in (END_S - 5 * MONTH_S, END_S - 2 * MONTH_S, END_S):
        hour(asked, at_s)
    asked.statements.clear()
    assert answered(span_steps(), asked) == KnownSpan(END_S - 5 * MONTH_S, END_S, 0)
    assert len(asked.statements) == 1


@pytest.mark.parametrize("job", ["a", "trainfare-canary.0"])
def test_a_month_that_has_no_costs_of_users_jobs_is_not_taken_for_the_first(asked: Asked, job: str) -> None:
    hour(asked, END_S - 5 * MONTH_S, job=job, wall_clock_ms=0 if job == "a" else 1)
    hour(asked, END_S - 3 * MONTH_S)
    hour(asked, END_S)
    asked.statements.clear()
    assert answered(span_steps(), asked) == KnownSpan(END_S - 3 * MONTH_S, END_S, 0)
    assert len(asked.statements) == 2, "all months had to be read"


@pytest.mark.parametrize("only", ["nodes", "jobs", "nothing"])
def test_days_before_the_first_minute_are_no_part_of_what_nodes_are_idle(asked: Asked, only: str) -> None:
    """A job's minute on a node counts too, where the node is paid at another time."""
    days = [END_S - day * DAY_S for day in range(400, 0, -1)]
    put(
        asked,
        NODE_HOURS,
        hour=days * 99,
        node=[f"n{at}" for at in range(99) for _ in days],
        cluster="c",
        paid_ms=3_600_000,
        cost_usd=1,
    )
    if only != "nothing":
        put(
            asked,
            NODE_MINUTES,
            minute=[days[-2] + HOUR_S, days[-1]],
            node="n1",
            sku="s",
            unit="gpu_milli_ms",
            quantity=60_000,
            cost_usd=2,
        )
    if only == "jobs":
        put(
            asked,
            JOB_MINUTES,
            minute=[days[-9] + HOUR_S],
            node="n1",
            job_id="a",
            attempt=1,
            component="gpu",
            sku="s",
            unit="gpu_milli_ms",
            quantity=1,
            cost_usd=1,
        )
    request = request_of({"metric": ["m3"], "per": ["day"], "by": ["cluster"]})
    found = answered(cell_steps(request, (days[0] - 5) * 1000, END_S * 1000), asked)
    usd = [[int(each) for each in row[2:5]] for row in found.rows]
    expected = [[0, 0, 1]] * (only == "jobs")
    expected += [[2, 2, 0]] * (2 * (only != "nothing"))
    assert usd == expected
    # 39,600 hours of nodes are two parts; of the last days a fraction of one.
    assert len(asked.statements) == (3 if only == "nothing" else 2)
