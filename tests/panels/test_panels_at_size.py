"""Every panel answers for an hour, a day, a month and a year of a store with 50,000 live jobs, within the memory of one query."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from loadtest import board_store
from sinks.query.limits import QueryLimits
from sinks.query.pool import QueryPool
from sinks.target import query_source
from streams.panels.registry import PANELS
from tests.panels import year
from tests.panels.asking import answered
from tests.sinks.stores import embedded

JOBS = 50_000
LIMITS = QueryLimits(time_ms=240_000).of_product(is_own=True)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueryPool]:
    with embedded(Path(tmp_path_factory.mktemp("size"))) as store, pytest.MonkeyPatch.context() as patch:
        patch.setattr(board_store, "AS_OF_MS", year.END_S * 1_000)
        year.load(store)
        board_store.fill(store, JOBS, ended=JOBS)
        made = QueryPool(query_source(store.target), LIMITS)
        yield made
        made.close()


@pytest.mark.parametrize("name", PANELS)
def test_a_panel_answers_within_the_memory_of_a_query(pool: QueryPool, name: str) -> None:
    for range_s in (year.HOUR_S, year.DAY_S, 30 * year.DAY_S, year.YEAR_S):
        assert answered(pool, name, year.END_S - range_s, year.END_S, year.LONG_JOB)["rows"], range_s
