"""What was expected of a job when an alert opened is what its last tick until then says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from schemas.tables import BURN_RATES
from sinks.clickhouse import ClickHouseStore
from streams.worker.ledger_judges.opening_rates import JobInstant, OpeningRates
from tests.sinks.rows import rows
from tests.sinks.stores import embedded
from tests.worker.ledger_lab import MINUTE_MS, T0, at

OPENED_MS = T0 + 20_000


@pytest.fixture
def store(tmp_path: Path) -> Iterator[ClickHouseStore]:
    with embedded(tmp_path / "meter") as store:
        yield store


def put(store: ClickHouseStore, *ticks: tuple[str, int, int]) -> None:
    """Store ticks: of which job, when, and what was expected then."""
    found: list[dict[str, Any]] = [
        {"job_id": job, "time": at(at_ms), "expected_usd_per_hour": Decimal(usd), "version": 1}
        for job, at_ms, usd in ticks
    ]
    store.insert(BURN_RATES, rows(BURN_RATES, *found), repr(ticks))


def looks(store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The statements that the store is asked from now on."""
    asked: list[str] = []
    query = store.query

    def noted(sql: str, parameters: Mapping[str, object] | None = None) -> pa.Table:
        asked.append(sql)
        return query(sql, parameters)

    monkeypatch.setattr(store, "query", noted)
    return asked


def test_it_is_the_last_rate_until_then_and_is_read_once(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(
        store,
        ("a", T0 - 10_000, 3),
        ("a", T0, 5),
        ("a", OPENED_MS, 7),
        ("a", OPENED_MS + 10_000, 9),
        ("b", T0, 11),
    )
    asked, rates = looks(store, monkeypatch), OpeningRates(store)
    a, b = JobInstant("a", OPENED_MS), JobInstant("b", OPENED_MS)
    for _ in range(2):
        assert rates.expected([a, b]) == {a: 7 * 10**9, b: 11 * 10**9}
    assert len(asked) == 1
    earlier = JobInstant("a", T0 + 10_000)
    assert rates.expected([earlier]) == {earlier: 5 * 10**9}


def test_without_a_row_of_that_minute_nothing_is_known(store: ClickHouseStore) -> None:
    put(
        store,
        ("a", T0 - 10_000, 3),
        ("b", OPENED_MS + 1, 3),
        ("b", OPENED_MS + MINUTE_MS, 3),
        ("c", T0, 5),
    )
    openings = [
        JobInstant("a", OPENED_MS),
        JobInstant("b", OPENED_MS),
        JobInstant("c", OPENED_MS + MINUTE_MS),
    ]
    assert OpeningRates(store).expected(openings) == {}


def test_openings_of_many_minutes_are_read_together(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    minutes = [T0 + MINUTE_MS * each for each in range(501)]
    put(store, *((f"j{place % 7}", at_ms, place) for place, at_ms in enumerate(minutes)))
    openings = [JobInstant(f"j{place % 7}", at_ms + 1) for place, at_ms in enumerate(minutes)]
    asked = looks(store, monkeypatch)
    found = OpeningRates(store).expected(reversed(openings))
    assert [found[each] for each in openings] == [place * 10**9 for place in range(501)]
    assert len(asked) == 2  # of 500 openings at most
