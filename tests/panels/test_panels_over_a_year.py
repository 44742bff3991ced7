"""Every panel answers for an hour, a day, a month and a year of a store that has a year, within the memory of one query."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from sinks.answer import QueryResult
from sinks.query import arrow
from sinks.query.limits import QueryLimits
from sinks.query.pool import QueryPool
from sinks.target import query_source
from streams.costs.day_parts import answered as steps_answered
from streams.costs.idle_report import job_steps, node_steps, report_of
from streams.costs.parts import HourSpan, Parameters
from streams.panels.panel import POINTS_MAX
from streams.panels.registry import PANELS
from tests.panels import year
from tests.panels.asking import answered
from tests.query.test_room import LEFT_BYTES, figures
from tests.sinks.stores import embedded

RANGES_S = (year.HOUR_S, year.DAY_S, 30 * year.DAY_S, year.YEAR_S)
#: The memory is that of the shipped settings; on a machine that others fill, a query may take longer than its 30 s.
LIMITS = QueryLimits(time_ms=240_000).of_product(is_own=True)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryPool]:
    with embedded(Path(tmp_path_factory.mktemp("year"))) as store:
        year.load(store)
        made = QueryPool(query_source(store.target), LIMITS)
        yield made
        made.close()


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_has_rows_for_an_hour_a_day_a_month_and_a_year(pool: QueryPool, name: str) -> None:
    for range_s in RANGES_S:
        found = answered(pool, name, year.END_S - range_s, year.END_S, year.LONG_JOB)
        assert found["rows"], range_s
        if "time" in found["columns"]:
            times = {row[found["columns"].index("time")] for row in found["rows"]}
            assert len(times) <= POINTS_MAX + 1, range_s


@pytest.mark.parametrize("days", [1, 30, 365])
def test_what_is_idle_is_found_of_a_day_a_month_and_a_year(pool: QueryPool, days: int) -> None:
    """The page Idle and `trainfare idle` ask within the same memory, however much of the year they ask for."""
    end_ms = year.END_S * 1_000
    span = HourSpan(end_ms - days * year.DAY_S * 1_000, end_ms)

    def ask(sql: str, parameters: Parameters) -> QueryResult:
        answer = pool.new_run().answer(sql, parameters, "arrow")
        try:
            return arrow.decode(os.pread(answer.descriptor, answer.size_bytes, 0))
        finally:
            os.close(answer.descriptor)

    nodes = steps_answered(node_steps("cluster", span, end_ms), ask)
    found = report_of(nodes, steps_answered(job_steps(span, 200), ask), 200)
    assert found["rows"]
    assert found["sums"]["node_cost_usd"] > 0


def test_what_panels_read_of_a_year_leaves_room_in_their_process(pool: QueryPool) -> None:
    """A thread for each column that is read ahead would fill it with stacks."""
    for name in ("cost_by_team", "unallocated", "nodes", "job_nodes"):
        answered(pool, name, year.END_S - year.YEAR_S, year.END_S, year.LONG_JOB)
    process, queries = pool.acquire("")
    try:
        used, most = figures(process.pid)
        assert queries >= 4
        assert most - used > LEFT_BYTES
    finally:
        pool.release(pool.new_run(), process, queries)
