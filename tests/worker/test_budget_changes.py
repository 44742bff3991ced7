"""Budgets that are raised, lowered and ended: each minute is judged by the controls of then, however late one looks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from tests.notify.scripted_sender import run
from tests.sinks.stores import empty
from tests.worker.ledger_lab import MINUTE_MS, T0, Ledger, Life, opened

Change = tuple[str, int, int | None]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("ledger"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def of(usd: int) -> tuple[str, str, dict[str, Any]]:
    return "budget", "b", {"team": "vision", "usd": usd}


def metered(store: ClickHouseStore) -> Ledger:
    """20 cents a minute."""
    ledger = Ledger(store)
    ledger.job("one", team="vision", owner="ada")
    ledger.minutes("one", T0, [20] * 120)
    return ledger


async def look(life: Life, ledger: Ledger, minute: int) -> None:
    life.clock.advance(T0 + minute * MINUTE_MS + 1_000 - life.clock.now_ms())
    ledger.books(life.clock.now_ms())
    assert await life.step() is not None


def found(store: ClickHouseStore) -> list[Change]:
    """Severity, and the minutes at which each alert began and was over."""
    rows = store.select(ALERTS).to_pylist()
    return sorted(
        (
            (row["severity"], minute(row["started"]) or 0, minute(row["resolved"]))
            for row in rows
            if row["rule"] == "budget_used"
        ),
        key=lambda each: each[1],
    )


def minute(instant: Any) -> int | None:
    return None if instant is None else (round(instant.timestamp() * 1000) - T0) // MINUTE_MS


RAISED_AT_60 = [
    ("ticket", 25, 40),
    ("ticket", 40, 50),
    ("page", 50, 60),
    ("ticket", 60, 80),  # $12 of $20
    ("ticket", 80, 100),
    ("page", 100, None),
]


@pytest.mark.parametrize("looks", [(20, 110), (20, 59, 60, 61, 110), (20, 55, 104, 110)])
def test_a_budget_that_was_raised_is_judged_by_both_limits(
    store: ClickHouseStore, looks: tuple[int, ...]
) -> None:
    """$10 are used up after 50 min; raised to $20 after 60, they are used up after 100."""

    async def scenario() -> None:
        ledger = metered(store)
        life = Life(store, ManualClock(T0), of(10))
        life.say(of(20), log_ms=T0 + 60 * MINUTE_MS)
        for each in looks:
            await look(life, ledger, each)
        assert found(store) == RAISED_AT_60

    run(scenario())


def test_a_new_owner_judges_the_minutes_in_which_there_was_none(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0)
        first = Life(store, clock, of(10))
        await look(first, ledger, 20)
        await look(first, ledger, 55)
        second = Life(store, clock, of(10), generation=2)
        second.say(of(20), log_ms=T0 + 60 * MINUTE_MS)
        await look(second, ledger, 110)
        assert found(store) == RAISED_AT_60

    run(scenario())


def test_a_budget_that_is_lowered_below_what_is_used_pages_at_once(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        life = Life(store, ManualClock(T0), of(100))
        life.say(of(5), log_ms=T0 + 60 * MINUTE_MS + 1)
        await look(life, ledger, 20)
        await look(life, ledger, 110)
        assert found(store) == [("page", 61, None)]

    run(scenario())


def test_a_budget_that_ended_and_begins_again_is_judged_while_it_is_there(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        life = Life(store, ManualClock(T0), of(10))
        standing = dict(life.reference.controls)
        gone = [(T0 + 30 * MINUTE_MS, b"budget/b", None)]
        life.reference.extend([], gone, life.reference.book, {})
        again = [(T0 + 45 * MINUTE_MS, b"budget/b", standing[b"budget/b"])]
        life.reference.extend([], again, life.reference.book, standing)
        await look(life, ledger, 20)
        await look(life, ledger, 110)
        # The one of 50 % was resolved; it is not said again while 80 % are used.
        assert found(store) == [("ticket", 25, 30), ("ticket", 45, 50), ("page", 50, None)]

    run(scenario())


@pytest.mark.parametrize("again_at", [70, 71])
def test_a_restart_judges_no_minute_before_the_budget_was_there(
    store: ClickHouseStore, again_at: int
) -> None:
    """Also at the very minute at which the former owner stopped: the hours before are not judged by the budget of now."""

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0)
        first = Life(store, clock)
        first.say(of(10), log_ms=T0 + 60 * MINUTE_MS)
        for each in (58, 59, 61, 70):
            await look(first, ledger, each)
        assert found(store) == [("page", 60, None)]
        second = Life(store, clock, generation=2)
        second.say(of(10), log_ms=T0 + 60 * MINUTE_MS)
        if again_at == 70:
            assert await second.step() is not None
            assert found(store) == [("page", 60, None)]
        await look(second, ledger, 71)
        assert found(store) == [("page", 60, None)]

    run(scenario())
