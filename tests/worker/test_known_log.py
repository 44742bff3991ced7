"""Shards that have not read all of their log are waited for, though nothing in the store says that a job goes on there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from schemas.reserved import FIRST_BACKFILL_SHARD
from sinks.clickhouse import ClickHouseStore
from streams.clock import ManualClock
from streams.topics import SHARD_TOPICS
from streams.transport.faust_types import TP
from streams.worker.health.probe import ProbeResult
from streams.worker.ledger_judges.known_log import KnownLog, known_log
from streams.worker.ledger_judges.reader import LATE_MS, LedgerReader
from tests.notify.scripted_sender import run
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at, opened
from tests.worker.test_hours import look, told

#: Of the jobs of shard 1: one more than it has read before its worker left.
_ENDS = {("jobs", 0): 5, ("jobs", 1): 6}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("known"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def asked_now(clock: ManualClock) -> Callable[[], KnownLog]:
    return lambda: KnownLog(2, clock.now_ms(), ends=_ENDS)


def stray_job(store: ClickHouseStore) -> Ledger:
    """A job without an owner, in shard 0."""
    ledger = Ledger(store)
    ledger.job("stray", team="vision")
    ledger.minutes("stray", T0, [10] * 130)
    return ledger


@pytest.mark.parametrize("has_books", [True, False])
def test_an_hour_waits_for_a_shard_whose_worker_was_away_when_its_first_job_began(
    store: ClickHouseStore, *, has_books: bool
) -> None:
    async def scenario() -> None:
        ledger = stray_job(store)
        clock = ManualClock(T0)
        life = Life(store, clock, known_log=asked_now(clock))
        if has_books:
            ledger.books(T0, T0, next_offset=5)
        for minute in (61, 66, 71):
            ledger.books(T0 + minute * MINUTE_MS, next_offset=5)
            clock.advance(T0 + minute * MINUTE_MS - clock.now_ms())
            await life.step()
        # Budgets do not wait so long.
        assert life.rules.judged_ms == clock.now_ms() - LATE_MS
        assert told(store, "owner_coverage") == []
        ledger.job("owned", shard=1, team="vision", owner="ada")
        ledger.minutes("owned", T0, [900] * 60, shard=1)
        ledger.books(T0 + 72 * MINUTE_MS, T0 + 72 * MINUTE_MS, next_offset=6)
        clock.advance(MINUTE_MS)
        await life.step()
        assert life.rules.lag_ms() == 0
        assert told(store, "owner_coverage") == []
        ledger.minutes("owned", T0 + 60 * MINUTE_MS, [1] * 60, shard=1)
        await look(life, ledger, 121, 121, 121)
        assert told(store, "owner_coverage") == [("owner_coverage", 120, None)]

    run(scenario())


def test_a_shard_that_has_read_all_is_complete_as_of_the_look_at_the_log(store: ClickHouseStore) -> None:
    stray_job(store).books(T0 + 30 * MINUTE_MS, T0, next_offset=6)
    reader, now_ms = LedgerReader(store), T0 + 30 * MINUTE_MS
    for asked_ms, complete in ((now_ms, 30), (now_ms - 90_000, 28)):
        accrued = reader.accrued(now_ms, KnownLog(2, asked_ms, ends=_ENDS))
        assert accrued is not None
        assert (accrued.complete_ms, accrued.late) == (T0 + complete * MINUTE_MS, ())


def test_records_that_the_log_has_dropped_are_not_waited_for(store: ClickHouseStore) -> None:
    stray_job(store).books(T0 + 30 * MINUTE_MS)
    now_ms = T0 + 30 * MINUTE_MS
    accrued = LedgerReader(store).accrued(now_ms, KnownLog(2, now_ms, _ENDS, _ENDS))
    assert accrued is not None
    assert accrued.complete_ms == now_ms


def test_what_a_late_shard_without_jobs_has_stored_is_certain(store: ClickHouseStore) -> None:
    """Only the jobs of others that go on are cut."""
    ledger = stray_job(store)
    ledger.job("two", shard=1)
    ledger.books(T0 + 30 * MINUTE_MS, T0 + 10 * MINUTE_MS, T0 - 60 * MINUTE_MS, next_offset=5)
    now_ms = T0 + 30 * MINUTE_MS
    accrued = LedgerReader(store).accrued(now_ms, KnownLog(3, now_ms, ends={("jobs", 2): 6}))
    assert accrued is not None
    assert (accrued.late, accrued.uncertain, accrued.cut_ms) == ((1, 2), (1,), T0 + 10 * MINUTE_MS)


@pytest.mark.parametrize("is_known", [True, False])
def test_a_meter_whose_log_has_nothing_is_not_behind(store: ClickHouseStore, *, is_known: bool) -> None:
    """A store may have the costs of a backfill alone, for which nobody waits."""

    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("past", shard=FIRST_BACKFILL_SHARD, state="completed", ended=at(T0 + HOUR_MS))
        clock = ManualClock(T0)
        life = Life(store, clock, known_log=(lambda: KnownLog(2, clock.now_ms())) if is_known else None)
        for _ in range(3):
            clock.advance(HOUR_MS)
            assert await life.step() is None
            assert life.rules.lag_ms() == 0
        clock.advance(10 * MINUTE_MS)  # the judge itself stands still
        assert life.rules.lag_ms() == 10 * MINUTE_MS

    run(scenario())


@pytest.mark.parametrize("ends", [{("jobs", 1): 1}, {}], ids=["unread", "not probed"])
def test_a_meter_that_has_stored_nothing_of_its_log_is_behind(
    store: ClickHouseStore, ends: dict[tuple[str, int], int]
) -> None:
    async def scenario() -> None:
        clock = ManualClock(T0)
        probed = KnownLog(2, T0)
        life = Life(store, clock, known_log=lambda: probed)
        await life.step()
        for minute in (1, 2, 10):
            clock.advance(T0 + minute * MINUTE_MS - clock.now_ms())
            probed = KnownLog(2, clock.now_ms() if ends else T0, ends=ends)
            await life.step()
            assert life.rules.lag_ms() == minute * MINUTE_MS
        probed = KnownLog(2, clock.now_ms(), begins=ends, ends=ends)  # the log has dropped it
        await life.step()
        assert life.rules.lag_ms() == 0

    run(scenario())


def test_a_probe_of_some_shards_says_nothing_of_all() -> None:
    places = [TP(f"p-{topic}", shard) for topic in SHARD_TOPICS for shard in (0, 1)]
    probed = ProbeResult(1, T0, frozenset({0, 1}), dict.fromkeys(places, 7), begins=dict.fromkeys(places, 3))
    known = known_log(probed, 2, "p-")
    assert known.asked_ms == T0 - 1_000
    assert known.unread({}) == {0, 1}
    assert known.unread({(str(topic), 1): 7 for topic in SHARD_TOPICS}) == {0}
    assert known_log(probed, 3, "p-") == KnownLog(3)
