"""Budgets judged beside the meter: told once, gone on with by the next owner, late shards waited for and then not."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from schemas.budget_tables import BUDGET_USE
from schemas.tables import ALERTS, BOOKS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkBusy
from streams.clock import ManualClock
from streams.explain.why.sql import BUDGETS
from streams.worker.ledger_judges.budget_judge import BudgetJudge
from streams.worker.ledger_judges.fleet_judge import FleetJudge
from streams.worker.ledger_judges.reader import LedgerReader
from streams.worker.ledger_judges.rule_rows import RuleRows
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.versions import Version
from tests.logged import logged
from tests.notify.scripted_sender import run
from tests.sinks.rows import rows
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at, opened

TEAM = ("budget", "b", {"team": "vision", "usd": 10})


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("ledger"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def alerts(store: ClickHouseStore) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = store.select(ALERTS).to_pylist()
    return sorted(found, key=lambda each: (each["started"], each["alert_id"]))


def metered(store: ClickHouseStore, minutes: int = 60) -> Ledger:
    """Two jobs of team vision on two shards, of 10 cents a minute each."""
    ledger = Ledger(store)
    for shard, job_id in enumerate(("one", "two")):
        ledger.job(job_id, shard=shard, team="vision", owner="ada")
        ledger.minutes(job_id, T0, [10] * minutes, shard=shard)
    return ledger


def test_each_threshold_is_told_once_with_the_minute_of_its_crossing(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0)
        life = Life(store, clock, TEAM)
        for minute in (20, 26, 26, 41, 52, 52):
            clock.advance(T0 + minute * MINUTE_MS + 20_000 - clock.now_ms())
            ledger.books(*[T0 + minute * MINUTE_MS + 15_000] * 2)
            await life.step()
        firing = [each for each in life.told if each[2] == "firing"]
        assert firing == [("budget_used", "vision", "firing", share) for share in (0.5, 0.8, 1.0)]
        # Each gives way to the next one.
        assert [each[3] for each in life.told if each[2] == "resolved"] == [0.5, 0.8]
        found = alerts(store)
        assert [each["started"] for each in found] == [at(T0 + m * MINUTE_MS) for m in (25, 40, 50)]
        assert life.office.sender.sent[0].body["data"]["budget_usd"] == "10"
        (use,) = store.select(BUDGET_USE).to_pylist()
        assert (str(use["used_usd"]), use["time"]) == ("10.400000000", at(T0 + 52 * MINUTE_MS))

    run(scenario())


def test_a_new_owner_goes_on_under_the_same_ids(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 45 * MINUTE_MS)
        ledger.books(T0 + 45 * MINUTE_MS, T0 + 45 * MINUTE_MS)
        first = Life(store, clock, TEAM)
        await first.step()
        before = alerts(store)
        second = Life(store, clock, TEAM, generation=2)
        await second.step()
        assert second.told == []
        assert alerts(store) == before
        clock.advance(10 * MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        await second.step()
        assert [each[2:] for each in second.told] == [("firing", 1.0), ("resolved", 0.8)]

    run(scenario())


def test_a_new_owner_waits_for_what_a_former_one_knew(store: ClickHouseStore) -> None:
    """A shard that lost its newest snapshot reads again: minutes before an alert began say nothing of it."""

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 41 * MINUTE_MS)
        ledger.books(T0 + 41 * MINUTE_MS, T0 + 41 * MINUTE_MS)
        await Life(store, clock, TEAM).step()
        before = alerts(store)
        assert before[-1]["started"] == at(T0 + 40 * MINUTE_MS)
        ledger.books(T0 + 41 * MINUTE_MS, T0 + 39 * MINUTE_MS)
        second = Life(store, clock, TEAM, generation=2)
        assert await second.step() is None
        assert (second.told, alerts(store)) == ([], before)
        clock.advance(MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        assert await second.step() is not None
        assert (second.told, alerts(store)) == ([], before)

    run(scenario())


@pytest.mark.parametrize("judge", ["minutes", "hours"])
def test_rows_that_were_taken_back_while_they_were_judged_say_nothing(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch, judge: str
) -> None:
    """A shard gets another owner between the look at its books and the look at its rows."""

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 41 * MINUTE_MS)
        ledger.books(T0 + 41 * MINUTE_MS, T0 + 41 * MINUTE_MS)
        life = Life(store, clock, TEAM)
        cls = BudgetJudge if judge == "minutes" else FleetJudge
        judged = cls.judge

        def taken_over(*args: Any) -> Any:
            monkeypatch.undo()
            found = judged(*args)
            ledger.version = Version(0, 2, 0).pack()
            ledger.books(T0 + 41 * MINUTE_MS, 0)
            return found

        monkeypatch.setattr(cls, "judge", taken_over)
        assert await life.step() is None
        before = len(alerts(store))
        assert before == (0 if judge == "minutes" else 2)
        clock.advance(MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        assert await life.step() is not None
        assert [each[2:] for each in life.told] == [("firing", 0.5), ("firing", 0.8), ("resolved", 0.5)]

    run(scenario())


def test_what_a_former_owner_stored_after_the_takeover_is_told_by_the_new_one(store: ClickHouseStore) -> None:
    """It read what is owed before that landed, and finds it known when it judges."""

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        former = Life(store, clock, TEAM)
        raised = ("budget", "b", {"team": "vision", "usd": 1_000})
        for minute, controls, wanted in (
            (30, (TEAM,), [("budget_used", "vision", "firing")]),
            (31, (raised,), [("budget_used", "vision", "resolved")]),
        ):
            clock.advance(T0 + minute * MINUTE_MS + 1_000 - clock.now_ms())
            ledger.books(clock.now_ms(), clock.now_ms())
            second = Life(store, clock, *controls, generation=2)
            await second.office.work()
            assert second.told == []
            former.say(*controls, log_ms=T0)
            await former.rules.step()  # stored, and its process ends before it sends
            await second.step()
            assert [each[:3] for each in second.told] == wanted
            await second.step()
            assert len(second.told) == 1
            third = Life(store, clock, *controls, generation=3)
            await third.step()
            assert third.told == []

    run(scenario())


def test_an_alert_whose_insert_was_not_acknowledged_is_told_and_known(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the next look it would not open any more: the budget was raised."""

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        life = Life(store, clock, TEAM)
        writer, write = life.rules._writer, life.rules._writer.write

        def lost(owner: OwnedShard, inserts: Sequence[RuleRows]) -> None:
            write(owner, inserts)
            monkeypatch.undo()
            raise SinkBusy("the answer was lost")

        monkeypatch.setattr(writer, "write", lost)
        ledger.books(clock.now_ms(), clock.now_ms())
        with pytest.raises(SinkBusy):
            await life.step()
        assert (life.told, len(alerts(store))) == ([], 1)
        clock.advance(MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        life.say(("budget", "b", {"team": "vision", "usd": 1_000}), log_ms=T0)
        await life.step()
        assert [status for _, _, status, _ in life.told] == ["firing", "resolved"]
        assert [each["status"] for each in alerts(store)] == ["resolved"]

    run(scenario())


def test_two_workers_that_both_think_they_own_shard_0_tell_one_alert(store: ClickHouseStore) -> None:
    """Both store the same alert under one id, and their messages have one id, so a receiver acts once."""

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 10 * MINUTE_MS)
        lives = [Life(store, clock, TEAM, generation=generation) for generation in (1, 2)]
        for minute in (10, 26, 41):
            clock.advance(T0 + minute * MINUTE_MS + 5_000 - clock.now_ms())
            ledger.books(clock.now_ms(), clock.now_ms())
            # Both read before either has stored.
            verdicts = [await life.rules.step() for life in lives]
            assert all(verdict is not None for verdict in verdicts)
        for life in lives:
            await life.office.work()
        assert len(alerts(store)) == 2
        ids = [{sent.headers["webhook-id"] for sent in life.office.sender.sent} for life in lives]
        assert ids[1] <= ids[0]
        assert len(ids[0]) == 3  # 50 % fires and gives way to 80 %

    run(scenario())


def test_a_worker_that_lost_its_session_stores_nothing(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        life = Life(store, clock, TEAM)
        life.member = False
        with pytest.raises(SinkBusy):
            await life.step()
        assert alerts(store) == []
        life.member = True
        await life.step()
        assert len(alerts(store)) == 1

    run(scenario())


def test_how_long_a_late_shard_is_waited_for_can_be_set(store: ClickHouseStore) -> None:
    ledger = metered(store)
    ledger.books(T0 + 30 * MINUTE_MS, T0 + 5 * MINUTE_MS)
    for late_ms, until_ms in ((10 * MINUTE_MS, T0 + 20 * MINUTE_MS), (HOUR_MS, T0 + 5 * MINUTE_MS)):
        accrued = LedgerReader(store, late_ms).accrued(T0 + 30 * MINUTE_MS)
        assert accrued is not None
        assert accrued.until_ms == until_ms


def test_books_of_a_former_owner_count_neither_as_accrued_nor_as_read(store: ClickHouseStore) -> None:
    """They may be of topics that the new owner has yet to read."""
    ledger = metered(store)
    ledger.books(T0 + 30 * MINUTE_MS, T0 + 5 * MINUTE_MS, next_offset=3)
    of = {"topic": "gpu", "partition": 1, "shard": 1, "next_offset": 7, "version": Version(0, 1, 1).pack()}
    new = of | {"topic": "jobs", "next_offset": 2, "version": Version(0, 2, 1).pack()}
    times = [{name: at(T0 + minutes * MINUTE_MS) for name in ("time", "read_to")} for minutes in (30, 5)]
    store.insert(BOOKS, rows(BOOKS, of | times[0], new | times[1]), "two owners")
    reader = LedgerReader(store, HOUR_MS)
    accrued = reader.accrued(T0 + 30 * MINUTE_MS)
    assert accrued is not None
    assert accrued.until_ms == T0 + 5 * MINUTE_MS
    assert reader._next_offsets() == {("jobs", 0): 3, ("jobs", 1): 2, ("gpu", 1): 0}


def test_a_late_shard_delays_for_five_minutes_and_causes_nothing(
    store: ClickHouseStore, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        # Shard 1 has accrued far ahead of the log that it has read: what it says beyond is not certain.
        ledger.books(T0 + 30 * MINUTE_MS)
        ledger.books(T0 + 30 * MINUTE_MS, T0 + 60 * MINUTE_MS, read_to_ms=T0 + 5 * MINUTE_MS)
        ledger.books(T0 + 30 * MINUTE_MS)
        life = Life(store, clock, TEAM)
        verdict = await life.step()
        assert verdict is not None
        assert verdict.until_ms == T0 + 25 * MINUTE_MS  # now, less five minutes
        assert life.rules.lag_ms() == 25 * MINUTE_MS  # of the rules by the hour, which wait
        # 25 minutes of the one shard, 5 of the other.
        assert verdict.states[0].used.usd_nano == 30 * 10**8
        assert life.told == []
        assert logged(caplog).count("rules across jobs go on without a late shard") == 1
        ledger.books(T0 + 30 * MINUTE_MS, T0 + 30 * MINUTE_MS)
        await life.step()
        assert life.rules.lag_ms() == 0
        assert [share for *_, share in life.told] == [0.52]  # at minute 26, the first that is judged now

    run(scenario())


def test_a_shard_without_open_jobs_is_not_waited_for(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        ledger.job("two", shard=1, team="vision", state="completed", ended=at(T0 + HOUR_MS))
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        ledger.books(T0 + 30 * MINUTE_MS, T0 + 3 * MINUTE_MS)
        verdict = await Life(store, clock, TEAM).step()
        assert verdict is not None
        assert verdict.until_ms == T0 + 30 * MINUTE_MS

    run(scenario())


def test_a_budget_that_is_raised_or_gone_resolves_and_a_price_that_falls_does(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        life = Life(store, clock, TEAM, ("budget", "c", {"owner": "ada", "gpu_hours": 0.9}))
        await life.step()
        assert {(rule, name) for rule, name, *_ in life.told} == {
            ("budget_used", "vision"),
            ("budget_used", "ada"),
        }
        clock.advance(MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        life.say(("budget", "c", {"owner": "ada", "gpu_hours": 90}), log_ms=T0)
        ledger.minutes("one", T0, [1] * 31)
        ledger.minutes("two", T0, [1] * 31, shard=1)
        await life.step()
        assert {each["status"] for each in alerts(store)} == {"resolved"}

    run(scenario())


def test_minutes_judged_again_end_no_alert_of_a_budget_that_came_after_them(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former owner was killed before it had stored how far it was."""
    monkeypatch.setattr(LedgerReader, "judged_ms", lambda _: None)
    kind, name, fields = TEAM

    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        for generation in (1, 2):
            large = ("budget", "large", {"owner": "ada", "usd": 1000})
            life = Life(store, clock, large, begun_ms=T0, generation=generation)
            life.say((kind, name, fields), log_ms=T0 + 27 * MINUTE_MS)
            await life.step()
            (alert,) = alerts(store)
            assert (alert["status"], alert["changed"]) == ("firing", at(T0 + 27 * MINUTE_MS))

    run(scenario())


def test_the_removal_of_the_last_budget_is_stored_once(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 10 * MINUTE_MS)
        life = Life(store, clock, TEAM)

        async def step() -> list[str]:
            ledger.books(clock.now_ms(), clock.now_ms())
            await life.step()
            found = store.select(BUDGET_USE).to_pylist()
            newest = max(each["time"] for each in found)
            clock.advance(MINUTE_MS)
            return [each["subject_name"] for each in found if each["time"] == newest]

        assert await step() == ["vision"]
        asked = {"kind": "team", "name": "vision"}
        assert store.query(BUDGETS, asked).num_rows == 1
        life.reference.extend([], [(T0, b"budget/b", None)], life.reference.book, {})
        assert await step() == [""]
        assert store.query(BUDGETS, asked).num_rows == 0
        assert await step() == [""]
        assert max(each["time"] for each in store.select(BUDGET_USE).to_pylist()) == at(T0 + 11 * MINUTE_MS)
        life.say(TEAM, log_ms=T0)
        assert await step() == ["vision"]

    run(scenario())


def test_a_running_job_has_a_row_from_the_start_and_none_after_its_end(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 10 * MINUTE_MS)
        life = Life(store, clock, ("budget", "each", {"team": "vision", "usd": 100, "per": "run"}))
        ledger.books(clock.now_ms(), clock.now_ms())
        await life.step()
        found = store.select(BUDGET_USE).to_pylist()
        assert sorted((each["subject_name"], str(each["used_usd"])) for each in found) == [
            ("one", "1.000000000"),
            ("two", "1.000000000"),
        ]
        for shard, job_id in enumerate(("one", "two")):
            ledger.job(job_id, shard=shard, team="vision", state="completed", ended=at(clock.now_ms()))
        clock.advance(MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        await life.step()
        newest = max(store.select(BUDGET_USE).to_pylist(), key=lambda each: each["time"])
        assert (newest["subject_kind"], newest["time"]) == ("", at(T0 + 11 * MINUTE_MS))

    run(scenario())


def test_silenced_is_stored_and_not_told(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = metered(store)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        ledger.books(clock.now_ms(), clock.now_ms())
        life = Life(store, clock, TEAM, ("silence", "s", {"rule": "budget_used", "team": "vision"}))
        await life.step()
        assert [each["silenced"] for each in alerts(store)] == [True]
        assert life.told == []

    run(scenario())


def test_a_hostile_name_stays_on_its_line_and_in_its_quotes(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        team = "x' OR 1=1 --\n\u202e\\"
        ledger = Ledger(store)
        ledger.job("j'ob", team=team)
        ledger.minutes("j'ob", T0, [100] * 30)
        clock = ManualClock(T0 + 30 * MINUTE_MS)
        ledger.books(clock.now_ms())
        name = "b'; DROP TABLE alerts; --\n\u202e"
        life = Life(store, clock, ("budget", name, {"team": team, "usd": 10}))
        await life.step()
        found = alerts(store)[-1]
        assert "\n" not in found["summary"]
        assert "\u202e" not in found["summary"]
        shown = store.ask(found["evidence_sql"])
        assert [row[0] for row in shown.rows()] == ["j'ob"]

    run(scenario())
