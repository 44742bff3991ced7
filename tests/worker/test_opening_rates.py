"""What was expected of a job when an alert opened is what its last tick until then says."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from schemas.tables import BURN_RATES
from sinks.rows import Condition
from streams.worker.ledger_judges.opening_rates import JobInstant, OpeningRates
from tests.memory_store import MemoryStore
from tests.sinks.rows import rows
from tests.worker.ledger_lab import MINUTE_MS, T0, at

OPENED_MS = T0 + 20_000


class _Counting(MemoryStore):
    looks = 0

    def select(
        self,
        table: str,
        where: Sequence[Condition] = (),
        columns: Sequence[str] | None = None,
        *,
        limit: int | None = None,
    ) -> pa.Table:
        self.looks += 1
        return super().select(table, where, columns, limit=limit)


def _store(*ticks: tuple[str, int, int]) -> _Counting:
    """A store with ticks: of which job, when, and what was expected then."""
    store = _Counting()
    found: list[dict[str, Any]] = [
        {"job_id": job, "time": at(at_ms), "expected_usd_per_hour": Decimal(usd), "version": 1}
        for job, at_ms, usd in ticks
    ]
    store.insert(BURN_RATES, rows(BURN_RATES, *found), "ticks")
    return store


def test_it_is_the_last_rate_until_then_and_is_read_once() -> None:
    store = _store(
        ("a", T0 - 10_000, 3), ("a", T0, 5), ("a", OPENED_MS, 7), ("a", OPENED_MS + 10_000, 9), ("b", T0, 11)
    )
    rates = OpeningRates(store)
    a, b = JobInstant("a", OPENED_MS), JobInstant("b", OPENED_MS)
    for _ in range(2):
        assert rates.expected([a, b]) == {a: 7 * 10**9, b: 11 * 10**9}
    assert store.looks == 1
    earlier = JobInstant("a", T0 + 10_000)
    assert rates.expected([earlier]) == {earlier: 5 * 10**9}


def test_without_a_row_of_that_minute_nothing_is_known() -> None:
    rates = OpeningRates(
        _store(("a", T0 - 10_000, 3), ("b", OPENED_MS + 1, 3), ("b", OPENED_MS + MINUTE_MS, 3))
    )
    assert rates.expected([JobInstant("a", OPENED_MS), JobInstant("b", OPENED_MS)]) == {}
