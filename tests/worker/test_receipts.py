"""Receipts of jobs that ended: whom they are sent to, once per end, whatever crashes, comes late or flips."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from schemas.receipt_table import RECEIPTS
from sinks.clickhouse import ClickHouseStore
from sinks.errors import SinkBusy
from streams.clock import ManualClock
from streams.worker.ledger_judges.rule_rows import RuleRows
from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.versions import Version
from tests.notify.scripted_sender import run
from tests.oracle.receipts import Hour, figures
from tests.sinks.stores import empty
from tests.worker.ledger_lab import HOUR_MS, MINUTE_MS, T0, Ledger, Life, at, opened
from tests.worker.receipts import ON, ended, ids, living, look, stored, told

DAY_MS = 24 * HOUR_MS
END = T0 + HOUR_MS


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClickHouseStore]:
    with opened(Path(tmp_path_factory.mktemp("receipts"))) as store:
        yield store


@pytest.fixture
def store(shared: ClickHouseStore) -> ClickHouseStore:
    empty(shared.target)
    return shared


def nano(text: str | None) -> int | None:
    return None if text is None else int(Decimal(text).scaleb(9))


def test_the_figures_are_those_of_the_oracle_and_the_sentence_says_them(store: ClickHouseStore) -> None:
    hours = [
        Hour(66_460_000_000, 20_000_000_000, sampled_ms=28_000_000, productive_ms=22_680_000),
        Hour(66_460_000_001, 5_000_000_000),
        Hour(10**9 + 1, wall_ms=600_000),
    ]
    states = ("preempted", "failed", "preempted", "completed")
    others = [
        100_000_000_000,
        120_000_000_000,
        90_000_000_000,
        119_000_000_003,
        119_000_000_000,
        300_000_000_000,
    ]
    expected = [0, 50_000_000_000, 50_000_000_000, 65_000_000_001]

    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        with ledger.together():
            for number, cost in enumerate(others):
                ended(ledger, f"peer-{number}", [Hour(cost)], ended_ms=T0, owner="bob")
        ended(ledger, "run-8", hours, ended_ms=END, states=states, expected=expected)
        await look(life, ledger, END + 1)
        (data,) = told(life)
        wanted = figures(hours, states, expected, others)
        for name in ("cost_usd", "usd_per_hour", "lost_usd"):
            assert nano(data[name]) == wanted[name], name
        for name in ("lost_ratio", "productive_ratio", "preemptions", "failures"):
            assert data[name] == wanted[name], name
        assert (nano(data["expected"]["usd_per_hour"]), data["expected"]["ratio"]) == wanted["expected"]
        assert (nano(data["kind"]["median_usd"]), data["kind"]["jobs"]) == (wanted["median"], 6)
        assert data["kind"]["same"] == {
            "team": "vision",
            "gpu_type": "H100",
            "purchase": "on_demand",
            "gpus": "8",
        }
        assert data["cheaper"] is None  # no price of spot is known
        assert data["summary"] == (
            "run-8 completed: $133.92 in 2.2 h ($61.81/h). 19 % lost to 2 preemptions and 1 failure; GPUs 81 % productive;"
            " 12 % over its expected rate; 13 % over the median of similar jobs."
        )
        (row,) = stored(store)
        assert (row["receipt_id"], row["summary"]) == (data["receipt_id"], data["summary"])
        assert (row["cost_usd"], row["lost_usd"]) == (Decimal(data["cost_usd"]), Decimal(data["lost_usd"]))

    run(scenario())


def test_what_is_unknown_is_null_and_not_zero(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "bare", [], states=("cancelled",))
        await look(life, ledger, END)
        (data,) = told(life)
        unknown = ("usd_per_hour", "lost_ratio", "productive_ratio", "expected", "kind", "cheaper")
        assert [data[name] for name in unknown] == [None] * len(unknown)
        assert data["summary"] == "bare cancelled: $0.00."

    run(scenario())


@pytest.mark.parametrize(
    "controls",
    [
        (),
        (("receipt", "ada", {"on": False}),),
        (("receipt", "bob", {"on": True}),),
        (("receipt", "ada", {"on": "yes"}),),
        (("receipt", "vision", {"on": True, "owner": "ada", "team": "vision"}),),
    ],
    ids=["nobody asked", "off", "another", "invalid", "the digest of a team"],
)
def test_without_a_record_that_is_on_nothing_is_sent(store: ClickHouseStore, controls: Any) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), Life(store, ManualClock(T0), *controls)
        ended(ledger, "quiet")
        await look(life, ledger, END + MINUTE_MS)
        assert (told(life), stored(store)) == ([], [])

    run(scenario())


def test_an_end_is_told_once_by_whichever_owner_of_the_shard(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "once")
        await look(life, ledger, END - 1)
        assert told(life) == []  # its last minute is not stored yet
        await look(life, ledger, END)
        await look(life, ledger, END + MINUTE_MS)
        following = Life(store, life.clock, ON, generation=2)
        await look(following, ledger, END + 2 * MINUTE_MS)
        assert ([each["job_id"] for each in told(life)], told(following)) == (["once"], [])

    run(scenario())


def test_a_crash_between_store_and_send_sends_the_same_message(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "crashed")
        ledger.books(END)
        life.clock.advance(END - T0)
        await life.rules.step()
        await life.rules.issue_receipts()  # stored and handed on, and the process is gone
        (before,) = stored(store)
        following = Life(store, life.clock, ON, generation=2)
        await look(following, ledger, END + MINUTE_MS)
        (data,) = told(following)
        assert data["receipt_id"] == before["receipt_id"]
        assert stored(store) == [before]
        third = Life(store, life.clock, ON, generation=3)
        await look(third, ledger, END + 2 * MINUTE_MS)
        assert told(third) == []
        # What the first would have sent has the id of what the second sent.
        await life.office.work()
        assert set(ids(life)) <= set(ids(following))

    run(scenario())


def test_a_receipt_whose_insert_was_not_acknowledged_is_sent_by_the_same_owner(
    store: ClickHouseStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "stored")
        writer, write = life.rules._writer, life.rules._writer.write

        def lost(owner: OwnedShard, inserts: Sequence[RuleRows]) -> None:
            write(owner, inserts)
            if any(each.table == RECEIPTS for each in inserts):
                monkeypatch.undo()
                raise SinkBusy("the answer was lost")

        await look(life, ledger, END - MINUTE_MS)  # what former owners owed is sent
        monkeypatch.setattr(writer, "write", lost)
        with pytest.raises(SinkBusy):
            await look(life, ledger, END)
        assert len(stored(store)) == 1
        await look(life, ledger, END + MINUTE_MS)
        await look(life, ledger, END + 2 * MINUTE_MS)
        assert [each["job_id"] for each in told(life)] == ["stored"]
        assert len(stored(store)) == 1

    run(scenario())


def test_nothing_is_said_of_rows_that_a_new_owner_takes_back(store: ClickHouseStore) -> None:
    """Rows that were settled at the look are rewound by the next owner of their shard before the receipt is read."""

    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "rewound", (Hour(5 * 10**9),))
        ledger.books(END)
        life.clock.advance(END - T0)
        await life.rules.step()
        ledger.version = Version(0, 2, 0).pack()
        ledger.books(0)
        ended(ledger, "rewound", (Hour(0),))
        await life.rules.issue_receipts()
        assert stored(store) == []
        ended(ledger, "rewound", (Hour(5 * 10**9),))
        await look(life, ledger, END)  # the log has ended: no later minute comes
        assert [each["cost_usd"] for each in stored(store)] == [Decimal(5)]

    run(scenario())


def test_two_workers_that_both_own_the_shard_send_one_id(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, lives = Ledger(store), [living(store, generation=number) for number in (1, 2)]
        ended(ledger, "twice")
        ledger.books(END)
        for life in lives:
            life.clock.advance(END - T0)
            await life.rules.step()
        reader = lives[1].rules._receipts._reader
        settled = lives[1].rules._settled
        assert settled is not None
        seen = reader.due(settled.records, settled.accrued, T0)  # before the other has stored
        await lives[0].rules.issue_receipts()
        await lives[0].office.work()
        (row,) = stored(store)
        assert [each.receipt_id for each in seen] == [row["receipt_id"]]
        assert [each.message.decode() for each in seen] == [row["message"]]

    run(scenario())


@pytest.mark.parametrize("state", ["preempted", "failed"])
def test_a_job_that_broke_off_is_over_after_ten_minutes(store: ClickHouseStore, state: str) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "broken", states=(state,))
        await look(life, ledger, END + 9 * MINUTE_MS)
        assert told(life) == []
        await look(life, ledger, END + 10 * MINUTE_MS)
        assert [(each["state"], each["ended_ms"]) for each in told(life)] == [(state, END)]

    run(scenario())


def test_a_job_that_is_preempted_and_resumes_has_one_receipt(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "spot", states=("preempted",))
        await look(life, ledger, END + 5 * MINUTE_MS)
        ledger.job("spot", owner="ada")
        await look(life, ledger, END + 20 * MINUTE_MS)
        assert told(life) == []
        ended(
            ledger,
            "spot",
            [Hour(10**9), Hour(10**9)],
            ended_ms=END + HOUR_MS,
            states=("preempted", "completed"),
        )
        await look(life, ledger, END + HOUR_MS)
        assert [(each["ended_ms"], each["attempts"]) for each in told(life)] == [(END + HOUR_MS, 2)]

    run(scenario())


def test_late_events_move_the_end_and_make_another_receipt(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "moved")
        await look(life, ledger, END)
        ended(ledger, "moved", ended_ms=END + MINUTE_MS)
        await look(life, ledger, END + 2 * MINUTE_MS)
        assert [each["ended_ms"] for each in told(life)] == [END, END + MINUTE_MS]
        assert len(set(ids(life))) == len(stored(store)) == 2

    run(scenario())


def test_an_end_that_flips_is_told_three_times_a_day(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        for minute in range(8):
            ended(ledger, "flips", ended_ms=END + minute * MINUTE_MS)
            await look(life, ledger, END + (minute + 1) * MINUTE_MS)
        assert [each["ended_ms"] for each in told(life)] == [END + n * MINUTE_MS for n in range(3)]
        # Once a day has passed since the first, the end that stands is told.
        await look(life, ledger, END + DAY_MS + MINUTE_MS)
        assert [each["ended_ms"] for each in told(life)][3:] == [END + 7 * MINUTE_MS]

    run(scenario())


@pytest.mark.parametrize("minutes", [(0, 1, 2, 3), (180, 240, 300, 0)])
def test_the_end_that_stands_is_told_though_it_is_over_a_day_old_when_the_next_look_comes(
    store: ClickHouseStore, minutes: tuple[int, ...]
) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        for place, minute in enumerate(minutes):
            ended(ledger, "flips", ended_ms=END + minute * MINUTE_MS)
            await look(life, ledger, END + (301 + place) * MINUTE_MS)
        assert len(told(life)) == 3
        for hours in (31, 32, 33):
            await look(life, ledger, END + hours * HOUR_MS)
        assert [each["ended_ms"] for each in told(life)][3:] == [END + minutes[-1] * MINUTE_MS]
        assert len(set(ids(life))) == len(ids(life)) == len(stored(store))

    run(scenario())


def test_of_what_ended_before_only_the_last_day_since_the_record_is_told(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger = Ledger(store)
        now_ms = T0 + 3 * DAY_MS
        for job_id, ended_ms in (("old", T0), ("recent", now_ms - DAY_MS + 1), ("new", now_ms - HOUR_MS)):
            ended(ledger, job_id, ended_ms=ended_ms)
        ended(ledger, "before", ended_ms=now_ms - 2 * HOUR_MS, owner="eve")
        life = living(store, ON, ("receipt", "eve", {"on": True}))
        life.say(("receipt", "eve", {"on": True}), time_ms=now_ms - HOUR_MS)
        await look(life, ledger, now_ms)
        assert {each["job_id"] for each in told(life)} == {"recent", "new"}

    run(scenario())


def test_a_job_of_a_late_shard_waits_for_it(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ledger.job("open", shard=1)
        ended(ledger, "there", shard=1)
        ended(ledger, "here")
        now_ms = END + 10 * MINUTE_MS
        await look(life, ledger, now_ms, END - MINUTE_MS)
        assert [each["job_id"] for each in told(life)] == ["here"]
        await look(life, ledger, now_ms + MINUTE_MS, now_ms + MINUTE_MS)
        assert [each["job_id"] for each in told(life)] == ["here", "there"]

    run(scenario())


def test_many_at_once_are_all_told(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        with ledger.together():
            for number in range(45):
                ended(ledger, f"many-{number}", [])
        await look(life, ledger, END)
        assert len({each["job_id"] for each in told(life)}) == len(stored(store)) == 45

    run(scenario())


def test_the_canary_and_other_owners_get_none(store: ClickHouseStore) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "trainfare-canary.1")
        ended(ledger, "other", owner="bob")
        await look(life, ledger, END)
        assert told(life) == []

    run(scenario())


@pytest.mark.parametrize("is_new_owner", [False, True])
def test_a_job_that_ends_again_days_later_has_another_receipt(
    store: ClickHouseStore, is_new_owner: bool
) -> None:
    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "resumed")
        await look(life, ledger, END)
        ledger.job("resumed", owner="ada")
        for hours in (10, 23, 25, 30):
            await look(life, ledger, END + hours * HOUR_MS)
        if is_new_owner:
            life = Life(store, life.clock, ON, generation=2)
        again_ms = END + 40 * HOUR_MS
        ended(ledger, "resumed", ended_ms=again_ms, states=("completed", "completed"))
        await look(life, ledger, again_ms)
        assert [each["ended_ms"] for each in told(life)][-1:] == [again_ms]
        assert [each["ended"] for each in stored(store)] == [at(END), at(again_ms)]

    run(scenario())


def test_a_receipt_says_what_the_run_has_cost_up_to_then(store: ClickHouseStore) -> None:
    run_of: dict[str, Any] = {"owner": "ada", "experiment": "llama", "work_dir": "/home/ada/llama"}

    async def scenario() -> None:
        ledger, life = Ledger(store), living(store)
        ended(ledger, "101", [Hour(3 * 10**9, 3 * 10**9)], ended_ms=END, states=("failed",), **run_of)
        ended(ledger, "102", [Hour(5 * 10**9)], ended_ms=END + HOUR_MS, **run_of)
        ended(ledger, "103", [Hour(7 * 10**9)], ended_ms=END + 2 * HOUR_MS, **run_of)
        await look(life, ledger, END + 2 * HOUR_MS + 1)
        by_job = {data["job_id"]: data for data in told(life)}
        assert by_job["102"]["run"] == {
            "name": "llama", "jobs": 2, "cost_usd": "8", "lost_usd": "3",
        }  # fmt: skip
        assert by_job["102"]["summary"].endswith(" run llama: 2 jobs, $8.00 in all, $3.00 lost.")
        assert "run" not in by_job["101"], "there was no other job yet"
        assert "run" not in by_job["103"], "the run was completed before"

    run(scenario())
