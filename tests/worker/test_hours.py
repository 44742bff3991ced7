"""Rules by the hour beside the meter: judged when all shards have stored the hour, each once, by the controls of then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from schemas.tables import ALERTS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import StoreUnreachable
from streams.clock import ManualClock
from streams.replay.replayed_judge import LogJudge
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.reader import LATE_MS
from tests.notify.scripted_sender import run
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at, opened

LIMIT = ("rule", "limit", {"rule": "team_burn", "team": "vision", "thresholds": {"usd_per_hour": 5}})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("hours"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def told(store: ClickHouseStore, *rules: str) -> list[tuple[str, int, int | None]]:
    """(rule, minute after T0 at which it opened, and at which it was over)."""

    def minute(instant: Any) -> int | None:
        return None if instant is None else round(instant.timestamp() * 1000 - T0) // MINUTE_MS

    return sorted(
        (row["rule"], minute(row["started"]) or 0, minute(row["resolved"]))
        for row in store.select(ALERTS).to_pylist()
        if row["rule"] in rules
    )


async def look(life: Life, ledger: Ledger, minute: int, *accrued: int) -> None:
    """Look at a minute after T0; `accrued`: those of the shards."""
    ledger.books(*(T0 + each * MINUTE_MS for each in accrued))
    life.clock.advance(T0 + minute * MINUTE_MS - life.clock.now_ms())
    await life.step()


def two_shards(store: ClickHouseStore) -> Ledger:
    """A job without an owner; what makes it a small share of the cost is in the other shard."""
    ledger = Ledger(store)
    ledger.job("stray", team="vision")
    ledger.minutes("stray", T0, [10] * 130)
    ledger.job("owned", shard=1, team="vision", owner="ada")
    return ledger


def test_an_hour_waits_for_a_late_shard_and_is_judged_when_it_comes(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = two_shards(store)
        ledger.minutes("owned", T0, [900] * 50, shard=1)
        life = Life(store, ManualClock(T0))
        for minute in (50, 61, 70, 121, 130):
            await look(life, ledger, minute, minute, 50)
            assert life.rules.lag_ms() == (minute - 50) * MINUTE_MS  # of the hours: budgets do not wait
        assert life.rules.judged_ms == T0 + 125 * MINUTE_MS
        assert told(store, "owner_coverage") == []
        ledger.minutes("owned", T0 + 50 * MINUTE_MS, [900] * 10, shard=1)
        ledger.job("owned", shard=1, team="vision", owner="ada", state="completed", ended=at(T0 + HOUR_MS))
        await look(life, ledger, 131, 131, 60)
        # Its first hour is owned, the second one has the stray job only.
        assert told(store, "owner_coverage") == [("owner_coverage", 120, None)]

    run(scenario())


def test_hours_that_were_missed_are_judged_in_order_and_once(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0, [10] * 60 + [5] * 60 + [10] * 130)
        clock = ManualClock(T0)
        life = Life(store, clock, LIMIT)
        await look(life, ledger, 5, 5)
        await look(life, ledger, 61, 61)
        assert told(store, "team_burn") == [("team_burn", 60, None)]
        # Nobody owns shard 0 for three hours; then two owners one after the other.
        for generation in (2, 3):
            await look(Life(store, clock, LIMIT, generation=generation), ledger, 240 + generation, 245)
            assert told(store, "team_burn") == [("team_burn", 60, 120), ("team_burn", 180, None)]

    run(scenario())


def test_an_hour_that_is_judged_again_tells_nothing_twice(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0, [10] * 60 + [5] * 60 + [10] * 130)
        clock = ManualClock(T0)
        first = Life(store, clock, LIMIT)
        for minute in (5, 61, 121, 181):
            await look(first, ledger, minute, minute)
        before = store.select(ALERTS).to_pylist()
        store.meta.put("hours_judged_ms", str(T0))  # as far as a former owner came
        second = Life(store, clock, LIMIT, generation=2)
        await look(second, ledger, 182, 182)
        assert second.told == []
        assert store.select(ALERTS).to_pylist() == before

    run(scenario())


def test_what_the_first_owner_of_all_could_not_judge_the_next_one_judges(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(*_: object) -> None:
        raise StoreUnreachable("gone")

    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0, [10] * 60 + [5] * 130)
        clock = ManualClock(T0)
        with monkeypatch.context() as patch:
            patch.setattr(FleetJudge, "judge", gone)
            with pytest.raises(StoreUnreachable):
                await look(Life(store, clock, LIMIT), ledger, 61, 61)
        await look(Life(store, clock, LIMIT, generation=2), ledger, 182, 182)
        assert told(store, "team_burn") == [("team_burn", 60, 120)]

    run(scenario())


@pytest.mark.parametrize("minutes", [(5, 61, 121, 181, 241, 3_000, 6_000), (6_000,), (150, 6_000)])
def test_the_first_owner_of_all_judges_from_the_first_hour_however_much_it_finds(
    store: ClickHouseStore, minutes: tuple[int, ...]
) -> None:
    """Four days: a quiet machine reads them before the first look, a busy one looks each hour or so."""

    async def scenario() -> None:
        ledger = Ledger(store)
        with ledger.together():
            ledger.job("one", team="vision", owner="ada")
            ledger.minutes("one", T0, [10] * 60 + [5] * 60 + [10] * 60 + [5] * 5_800)
        budget = ("budget", "b", {"team": "vision", "usd": 10, "per": "day"})
        life = Life(store, ManualClock(T0), LIMIT, budget, begun_ms=T0)
        for minute in minutes:
            await look(life, ledger, minute, minute)
        assert told(store, "team_burn") == [("team_burn", 60, 120), ("team_burn", 180, 240)]
        first_day = [(at, over) for _, at, over in told(store, "budget_used") if at < 840]
        assert first_day == [(50, 100), (100, 130), (130, 840)]

    run(scenario())


@pytest.mark.parametrize(("begun_ms", "at"), [(T0 + 70 * MINUTE_MS, 120), (None, 180)])
def test_what_came_before_the_log_is_not_judged(
    store: ClickHouseStore, begun_ms: int | None, at: int
) -> None:
    """A collector tells at first of what began days before, and later how it ended; without a beginning the last hour is judged."""

    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada", started_ms=T0 - 30 * HOUR_MS)
        ledger.minutes("one", T0 - 30 * HOUR_MS, [10] * 2_000)
        life = Life(store, ManualClock(T0), LIMIT, begun_ms=begun_ms)
        await look(life, ledger, 185, 185)
        assert told(store, "team_burn") == [("team_burn", at, None)]

    run(scenario())


@pytest.mark.parametrize("begins", [(0,), (70, 0), (0, 70)])
def test_where_the_log_begins_is_known_after_a_worker_that_judged_no_hour(
    store: ClickHouseStore, begins: tuple[int, ...]
) -> None:
    """It stops within its first minute, and the shards that the next one restores hours later were begun by it."""

    async def scenario() -> None:
        ledger = Ledger(store)
        clock = ManualClock(T0)
        for generation, minute in enumerate(begins, 1):
            begun_ms = T0 + minute * MINUTE_MS
            await Life(store, clock, LIMIT, begun_ms=begun_ms, generation=generation).step()
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0, [10] * 60 + [5] * 60 + [10] * 130)
        budget = ("budget", "b", {"team": "vision", "usd": 10, "per": "day"})
        await look(Life(store, clock, LIMIT, budget, generation=9), ledger, 245, 245)
        assert told(store, "team_burn") == [("team_burn", 60, 120), ("team_burn", 180, None)]
        assert [at for _, at, _ in told(store, "budget_used")] == [50, 100, 130]

    run(scenario())


def test_what_waits_while_nothing_is_paid_does_not_lag(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        life = Life(store, ManualClock(T0), begun_ms=T0)
        for minute in (5, 61, 300):
            await look(life, ledger, minute, minute)
            assert life.rules.lag_ms() == 0
        ledger.minutes("one", T0 + 300 * MINUTE_MS, [10] * 70)
        await look(life, ledger, 370, 370)
        assert store.meta.get("hours_judged_ms") == str(T0 + 6 * HOUR_MS)

    run(scenario())


def test_a_log_that_stood_for_days_is_judged_from_where_the_owner_before_stopped(
    store: ClickHouseStore,
) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0, [5] * 60 + [10] * 60 + [5] * 130)
        clock = ManualClock(T0)
        await look(Life(store, clock, LIMIT), ledger, 61, 61)
        ledger.minutes("one", T0 + 250 * MINUTE_MS, [5] * 10)
        await look(Life(store, clock, LIMIT, generation=2), ledger, 6_000, 6_000)
        assert told(store, "team_burn") == [("team_burn", 120, 180)]

    run(scenario())


def test_hours_are_judged_by_the_controls_of_then(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0, [10] * 250)
        clock = ManualClock(T0)
        await look(Life(store, clock), ledger, 61, 61)
        late = Life(store, clock, generation=2)
        late.say(LIMIT, log_ms=T0 + 150 * MINUTE_MS)
        await look(late, ledger, 242, 242)
        assert told(store, "team_burn") == [("team_burn", 180, None)]

    run(scenario())


def test_a_worker_that_lost_its_session_does_not_say_how_far_it_is(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("one")
        ledger.minutes("one", T0, [10] * 70)
        life = Life(store, ManualClock(T0))
        await look(life, ledger, 5, 5)
        keep = life.rules._duty
        assert keep is not None
        assert life.owner is not None
        keep.hours.judged_ms = T0 + 9 * HOUR_MS
        life.owner.gone = True
        with pytest.raises(Exception, match="another worker may own shard 0"):
            keep.hours.keep(life.rules._writer, life.owner)
        assert store.meta.get("hours_judged_ms") == str(T0)

    run(scenario())


def test_a_shard_whose_books_are_on_their_way_is_waited_for(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        ledger.job("stray", team="vision")
        ledger.minutes("stray", T0, [10] * 12)
        life = Life(store, ManualClock(T0), ("budget", "b", {"team": "vision", "usd": 1000}))
        # Others of its jobs may come with the rest of the first checkpoint, and have started before.
        ledger.job("owned", shard=1, team="vision", started_ms=T0 + 10 * MINUTE_MS)
        ledger.books(T0 + 12 * MINUTE_MS)  # of shard 0 alone
        life.clock.advance(12 * MINUTE_MS)
        verdict = await life.step()
        assert verdict is not None
        assert verdict.until_ms == T0 + 12 * MINUTE_MS - LATE_MS

    run(scenario())


def test_a_replay_forecasts_the_first_hour_as_live_does(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        budget = ("budget", "b", {"team": "vision", "usd": 8, "per": "day"})
        ledger = Ledger(store)
        ledger.job("one", team="vision", owner="ada")
        ledger.minutes("one", T0 + 5 * MINUTE_MS, [40] * 10 + [1] * 100)
        life = Life(store, ManualClock(T0), budget)
        for minute in range(1, 70):
            await look(life, ledger, minute, minute)
        live = told(store, "budget_forecast")
        assert live[0][1] == 6
        empty(store.target)
        again = Ledger(store)
        again.job("one", team="vision", owner="ada")
        again.minutes("one", T0 + 5 * MINUTE_MS, [40] * 10 + [1] * 100)
        replayed = Life(store, ManualClock(T0), budget)
        assert replayed.owner is not None
        await LogJudge(store, replayed.reference.view()).judge(replayed.owner, T0 + 69 * MINUTE_MS)
        assert told(store, "budget_forecast") == live

    run(scenario())
