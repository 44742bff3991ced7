"""Honest queries pass the guard and are answered like the store's own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from sinks.query import Answered, QueryLimits, QueryProcess, arrow
from sinks.query.cells import to_text
from sinks.target import query_source
from tests.query.honest import Query, all_queries

QUERIES = all_queries()
#: Told by the engine with words of its own that differ between two sessions, or differently for a table that is read-only.
_ONLY_ANSWERED = ("EXPLAIN", "SHOW EXTENDED", "SHOW FULL")
#: Any three rows of many.
_ANY = ("examples",)


@pytest.fixture(scope="module")
def process(store: ClickHouseStore) -> Iterator[QueryProcess]:
    process = QueryProcess(query_source(store.target), QueryLimits())
    try:
        yield process
    finally:
        process.close()


def decoded(answer: Answered) -> QueryResult:
    with os.fdopen(answer.descriptor, "rb") as file:
        file.seek(0)
        return arrow.decode(file.read())


def rows(answer: QueryResult) -> list[str]:
    """In one order: that of equal keys is nobody's."""
    kept = [at for at, name in enumerate(answer.names) if name not in _ANY]
    return sorted(to_text(_rounded([row[at] for at in kept])) for row in answer.rows())


def _rounded(value: Any) -> Any:
    """Sums of doubles depend on the order of the rows."""
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {key: _rounded(each) for key, each in value.items()}
    return [_rounded(each) for each in value] if isinstance(value, (list, tuple)) else value


def test_there_are_two_hundred() -> None:
    assert len(QUERIES) >= 200
    assert len({query.where for query in QUERIES}) > 30


@pytest.mark.parametrize("query", QUERIES, ids=lambda query: " ".join(query.sql.split())[:60])
def test_an_honest_query_is_answered_like_the_stores_own(
    query: Query, process: QueryProcess, store: ClickHouseStore
) -> None:
    found = decoded(process.ask(query.sql, query.parameters, "arrow"))
    wanted: Any = store.ask(query.sql.strip().rstrip(";"), query.parameters)
    if query.sql.upper().startswith(_ONLY_ANSWERED):
        assert len(found.names) == len(wanted.names)
        return
    assert found.names == wanted.names
    assert found.types == wanted.types
    assert rows(found) == rows(wanted)
    assert process.reusable
