"""A store with very many jobs answers as any other, asked in parts of time."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from sinks.answer import QueryResult
from sinks.clickhouse import ClickHouseStore
from streams.costs import job_parts
from streams.costs.answer import CostRows, cost_steps
from streams.costs.day_parts import answered
from streams.costs.request import Metric, request_of
from tests.costs.test_metric_views import random_hours
from tests.sinks.stores import embedded

LEVELS = (("team",), ("owner", "label:kind"), ("reason", "team"))
SPANS: tuple[dict[str, list[str]], ...] = ({}, {"from": ["2026-03-01T05:00:00Z"], "to": ["2026-03-03T20:00:00Z"]})  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path_factory.mktemp("parts") / "meter") as opened:
        random_hours(opened)
        yield opened


def asked(store: ClickHouseStore, given: dict[str, list[str]], limit: str = "") -> tuple[CostRows, list[str]]:
    """The rows, and the statements that made them."""
    statements: list[str] = []

    def ask(sql: str, parameters: Any) -> QueryResult:
        statements.append(sql)
        return store.ask(sql, parameters)

    return answered(cost_steps(request_of(given | ({"limit": [limit]} if limit else {}))), ask), statements


def digits(found: CostRows) -> CostRows:
    """The same with floats of twelve digits: a sum of them depends on the order of its rows."""
    rows = [
        {name: float(f"{cell:.12g}") if isinstance(cell, float) else cell for name, cell in row.items()}
        for row in found.rows
    ]
    return found._replace(rows=rows)


@pytest.mark.parametrize("by", LEVELS)
@pytest.mark.parametrize("metric", sorted(set(Metric) - {Metric.m3}))
def test_parts_answer_as_the_whole(
    metric: str, by: tuple[str, ...], store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for span, per in itertools.product(SPANS, ("hour", "day", "week", "all")):
        more = {"compare": ["previous"]} if span and per != "hour" else {"where": ["team=x"]} if span else {}
        given = {"metric": [metric], "by": list(by), "per": [per], **span, **more}
        whole, before = asked(store, given)
        monkeypatch.setattr(job_parts, "JOBS_MAX", 10)
        found, statements = asked(store, given)
        monkeypatch.undo()
        assert digits(found) == digits(whole), given
        assert statements != before
        if per in ("hour", "day"):
            assert len(statements) > len(before)


def test_parts_end_with_the_limit(store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"by": ["team"], "per": ["hour"]}
    whole, _ = asked(store, given)
    monkeypatch.setattr(job_parts, "JOBS_MAX", 1)
    found, statements = asked(store, given, limit="5")
    assert found.rows == whole.rows[:5]
    assert found.is_cut
    _, all_statements = asked(store, given)
    assert len(statements) < len(all_statements)


def test_parts_begin_where_days_of_another_zone_do(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = {"by": ["team"], "per": ["day"], "tz": ["America/New_York"]}
    whole, _ = asked(store, given)
    monkeypatch.setattr(job_parts, "JOBS_MAX", 1)
    found, statements = asked(store, given)
    assert found == whole
    assert len(statements) > 4
