"""A life ends anywhere; the next one sends no message a second time whose row is stored, and loses none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.tables import ALERTS, DELIVERIES
from sinks.errors import SinkBusy
from sinks.rows import Rows
from streams.engine.alerts.alert import Address
from streams.notify.webhooks.sender import SendResult
from tests.logged import logged
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import (
    BUSY,
    HOOK,
    NOW_MS,
    OK,
    SHARD,
    SLACK,
    Office,
    Watched,
    an_alert,
    resolved,
    run,
)
from tests.sinks.stores import embedded

DAY_MS = 24 * 3_600_000


@pytest.fixture(params=["memory", "clickhouse"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Rows]:
    if request.param == "memory":
        yield MemoryStore()
    else:
        with embedded(tmp_path / "engine") as store:
            yield store


def test_what_was_delivered_is_not_sent_again_and_what_was_not_is(store: Rows) -> None:
    async def go() -> None:
        first = Office({HOOK: [OK, BUSY]}, store=store)
        await first.offer(an_alert("done"))
        await first.offer(an_alert("halfway"))
        first.keep(an_alert("never tried", summary="a \u00fc"), resolved("ended"))
        await first.offer(an_alert("covered", silenced=True), an_alert("unowned", owner=""))
        first.keep(an_alert("of another shard"), shard=4)

        second = Office(store=store, clock=first.clock)
        second.notifier.resume([SHARD])
        await second.work()
        assert sorted(second.sender.told) == [("ended", "resolved"), ("never tried", "firing")]
        await second.work(1_000)  # the backoff goes on
        assert second.sender.told[2:] == [("halfway", "firing")]
        assert second.rows("attempt", "outcome").count((2, "delivered")) == 1

        third = Office(store=store, clock=first.clock)
        third.notifier.resume([SHARD])
        await third.work(DAY_MS // 2)
        assert third.sender.sent == []
        assert (third.notifier.waiting, third.notifier.rows_waiting) == (0, 0)

    run(go())


def test_the_stored_alert_says_what_the_offered_one_said(store: Rows) -> None:
    async def go() -> None:
        alert = an_alert("job \u20ac", usd_nano_per_hour=123_456_789_123_456_789, ratio=0.1)
        other = resolved("b", firings=3, window_ms=0, expected_nano_per_hour=0, started_ms=NOW_MS - 1)
        live = Office()
        await live.offer(alert, other)
        first = Office(store=store)
        first.keep(alert, other)
        first.notifier.resume([SHARD])
        await first.work()

        def by_id(office: Office) -> list[tuple[str, object]]:
            return sorted((sent.headers["webhook-id"], sent.body) for sent in office.sender.sent)

        assert by_id(first) == by_id(live)

    run(go())


def test_a_crash_between_the_answer_and_its_row_sends_the_same_id_again() -> None:
    async def go() -> None:
        store = MemoryStore()
        first = Office(store=store)
        first.keep(an_alert())
        store.fail(1, table="deliveries")
        first.notifier.offer([an_alert()], SHARD)
        with pytest.raises(SinkBusy):
            await first.work()
        second = Office(store=store)
        second.notifier.resume([SHARD])
        await second.work()
        ids = [office.sender.sent[0].headers["webhook-id"] for office in (first, second)]
        assert ids[0] == ids[1]

    run(go())


def test_offered_again_by_an_engine_that_read_the_log_again(store: Rows) -> None:
    async def go() -> None:
        first = Office(store=store)
        await first.offer(an_alert(), resolved())
        second = Office(store=store)
        second.notifier.resume([SHARD])
        await second.offer(an_alert())
        await second.offer(resolved())
        assert second.sender.sent == []

    run(go())


def test_only_the_current_status_is_told_after_a_restart() -> None:
    async def go() -> None:
        first = Office({HOOK: [BUSY]})
        await first.offer(an_alert(), resolved())
        second = Office(store=first.store)
        second.notifier.resume([SHARD])
        second.notifier.offer([an_alert()], SHARD)  # judged again; it comes in first, in order
        await second.work()
        await second.work(1_000)
        assert second.sender.told == [("job-1", "firing"), ("job-1", "resolved")]
        third = Office(store=first.store)
        third.notifier.resume([SHARD])
        await third.work()
        assert third.sender.told == []

    run(go())


def test_a_change_that_was_overtaken_is_not_told_afterwards() -> None:
    async def go() -> None:
        office = Office()
        office.keep(an_alert(), resolved())
        office.notifier.resume([SHARD])
        await office.work()
        office.notifier.offer([an_alert()], SHARD)
        await office.work()
        assert office.sender.told == [("job-1", "resolved")]

    run(go())


def test_one_of_two_receivers_had_it(store: Rows) -> None:
    async def go() -> None:
        addresses = [Address("webhook", HOOK), Address("slack", SLACK)]
        first = Office({SLACK: [BUSY]}, store=store, addresses=addresses)
        await first.offer(an_alert())
        second = Office(store=store, addresses=addresses)
        second.notifier.resume([SHARD])
        await second.work(1_000)
        await second.work(1_000)
        assert [sent.url for sent in second.sender.sent] == [SLACK]

    run(go())


def test_the_second_receiver_was_never_tried() -> None:
    async def go() -> None:
        first = Office(addresses=[Address("webhook", HOOK)])
        await first.offer(an_alert())
        second = Office(store=first.store, addresses=[Address("webhook", HOOK), Address("slack", SLACK)])
        second.notifier.resume([SHARD])
        await second.work()
        assert [sent.url for sent in second.sender.sent] == [SLACK]

    run(go())


def test_an_address_that_changed_gets_no_old_message_but_an_unfinished_one() -> None:
    async def go() -> None:
        first = Office({HOOK: [OK, BUSY]})
        await first.offer(an_alert("done"))
        await first.offer(an_alert("halfway"))
        second = Office(store=first.store, addresses=[Address("webhook", "https://new.example.com/x")])
        second.notifier.resume([SHARD])
        await second.work(1_000)
        assert second.sender.told == [("halfway", "firing")]

    run(go())


@pytest.mark.parametrize(("horizon_ms", "told"), [(DAY_MS, ["new", "old firing"]), (None, None)])
def test_what_resolved_long_ago_is_no_news(horizon_ms: int | None, told: list[str] | None) -> None:
    async def go() -> None:
        office = Office(options={"resolved_horizon_ms": horizon_ms})
        office.keep(an_alert("old firing"), resolved("old"), resolved("new", DAY_MS))
        office.clock.advance(DAY_MS + 3_600_000)
        office.notifier.resume([SHARD])
        await office.work()
        names = sorted(name for name, _ in office.sender.told)
        assert names == (told or ["new", "old", "old firing"])

    run(go())


def test_shards_that_are_given_away_are_forgotten() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY]})
        await office.offer(an_alert("a"), shard=1)
        await office.offer(an_alert("b"), shard=2)
        office.notifier.offer([an_alert("c")], 1)
        office.notifier.resume([1])
        office.notifier.release([1])
        await office.work(1_000)
        assert [name for name, _ in office.sender.told] == ["a", "b", "b"]
        assert office.notifier.waiting == 1

    run(go())


def test_a_shard_given_away_while_it_is_looked_up_is_not_told() -> None:
    async def go() -> None:
        office = Office(store=Watched(lambda *_: office.notifier.release([SHARD])))
        office.notifier.offer([an_alert()], SHARD)
        await office.work()
        assert office.sender.sent == []

    run(go())


def test_a_busy_store_is_asked_again() -> None:
    left = [1]

    def busy(table: str, _: object) -> None:
        if table == ALERTS and left and left.pop():
            raise SinkBusy("not now", 500)

    async def go() -> None:
        office = Office(store=Watched(busy))
        office.keep(an_alert())
        office.notifier.resume([SHARD])
        await office.work(499)
        assert office.sender.sent == []
        await office.work(500)
        assert office.sender.told == [("job-1", "firing")]

    run(go())


def test_a_look_up_that_fails_holds_nothing_up(caplog: pytest.LogCaptureFixture) -> None:
    def busy(table: str, columns: object) -> None:
        if table == DELIVERIES and columns is not None:
            raise SinkBusy("not now")

    office = Office(store=Watched(busy))
    run(office.offer(an_alert()))
    assert office.sender.told == [("job-1", "firing")]
    assert "call=read_deliveries" in logged(caplog)


def test_attempts_of_an_earlier_life_count() -> None:
    async def go() -> None:
        first = Office({HOOK: [BUSY]}, options={"max_attempts": 3})
        await first.offer(an_alert())
        await first.work(1_000)
        second = Office(
            {HOOK: [SendResult("retry", 0, "no answer")]}, store=first.store, options={"max_attempts": 3}
        )
        second.notifier.resume([SHARD])
        await second.work()
        await second.work(5_000)
        assert [row[0] for row in second.rows("outcome")] == ["retrying", "retrying", "failed"]

    run(go())
