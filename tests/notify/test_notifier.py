"""What a notifier does with answers, floods and faults: by a clock that is moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from sinks.errors import SinkBusy
from streams.clock import ManualClock
from streams.engine.alerts.alert import Address, webhook_id
from streams.engine.rules.formatting import instant
from streams.notify.notifier import Notifier
from streams.notify.options import NotifierOptions
from streams.notify.webhooks.sender import Sender, SendResult
from tests.logged import logged
from tests.memory_store import MemoryStore
from tests.notify.scripted_sender import (
    BUSY,
    HOOK,
    NOW_MS,
    OK,
    SECRET,
    SHARD,
    Office,
    an_alert,
    attempts_ended,
    resolved,
    run,
)

GONE = SendResult("failed", 410, "answered 410: the receiver does not accept the message")


def test_a_message_is_sent_at_once_and_written_down() -> None:
    office = Office()
    run(office.offer(an_alert()))
    message = webhook_id(an_alert().alert_id, "firing", NOW_MS)
    assert office.sender.sent[0].url == HOOK
    assert office.sender.sent[0].headers["webhook-id"] == message
    columns = ("webhook_id", "status", "receiver", "attempt", "outcome", "http_status", "detail")
    assert office.rows(*columns) == [
        (message, "firing", "https://hooks.example.com", 1, "delivered", 200, "")
    ]
    assert office.notifier.waiting == office.notifier.rows_waiting == office.notifier.in_flight == 0
    assert office.notifier.outcomes == {"delivered": 1}


def test_attempts_follow_the_schedule_under_one_id_until_one_succeeds() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY, BUSY, OK]})
        await office.offer(an_alert())
        for wait_ms in (1_000, 5_000):
            sent = len(office.sender.sent)
            await office.work(wait_ms - 1)
            assert len(office.sender.sent) == sent
            await office.work(1)
            assert len(office.sender.sent) == sent + 1
        assert office.rows("attempt", "outcome", "http_status") == [
            (1, "retrying", 503),
            (2, "retrying", 503),
            (3, "delivered", 200),
        ]
        assert len({sent.headers["webhook-id"] for sent in office.sender.sent}) == 1
        stamps = [int(sent.headers["webhook-timestamp"]) for sent in office.sender.sent]
        assert [stamp - stamps[0] for stamp in stamps] == [0, 1, 6]  # of the attempt, not of the alert

    run(go())


def test_jitter_shortens_a_wait() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY, OK]}, jitter_ratio=lambda: 0.25)
        await office.offer(an_alert())
        await office.work(250)
        assert office.notifier.outcomes == {"retrying": 1, "delivered": 1}

    run(go())


@pytest.mark.parametrize(("header", "wait_ms"), [("90", 90_000), ("Fri, 15 Jan 2027 08:01:30 GMT", 90_000)])
def test_a_receiver_that_asks_for_time_gets_it(header: str, wait_ms: int) -> None:
    async def go() -> None:
        office = Office({HOOK: [SendResult("retry", 429, "answered 429", header), OK]})
        await office.offer(an_alert())
        await office.work(wait_ms - 1)
        assert len(office.sender.sent) == 1
        await office.work(1)
        again = f"answered 429; next attempt at {instant(NOW_MS + wait_ms)}"
        assert office.rows("outcome", "detail") == [("retrying", again), ("delivered", "")]

    run(go())


def test_resolved_comes_after_firing_however_long_that_takes() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY, OK, BUSY, OK]})
        await office.offer(an_alert(), resolved())
        await office.offer(an_alert("job-2"))
        await office.work(1_000)
        await office.work(5_000)
        assert [told for told in office.sender.told if told[0] == "job-1"] == [
            ("job-1", "firing"),
            ("job-1", "firing"),
            ("job-1", "firing"),
            ("job-1", "resolved"),
        ]
        assert office.sender.told[1] == ("job-2", "firing")  # other alerts do not wait for it

    run(go())


def test_a_message_is_given_up_after_its_last_attempt_and_the_next_one_goes() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY, BUSY, BUSY, OK]}, options={"max_attempts": 3})
        await office.offer(an_alert(), resolved())
        await office.work(1_000)
        await office.work(5_000)
        assert office.rows("status", "attempt", "outcome", "detail") == [
            ("firing", 1, "retrying", f"answered 503; next attempt at {instant(NOW_MS + 1_000)}"),
            ("firing", 2, "retrying", f"answered 503; next attempt at {instant(NOW_MS + 6_000)}"),
            ("firing", 3, "failed", "answered 503; given up after 3 attempts"),
            ("resolved", 1, "delivered", ""),
        ]

    run(go())


@pytest.mark.parametrize(
    "answer", [GONE, SendResult("failed", 302, "x"), SendResult("refused", 0, "not public")]
)
def test_a_final_answer_is_not_asked_for_again(answer: SendResult) -> None:
    async def go() -> None:
        office = Office({HOOK: [answer]})
        await office.offer(an_alert())
        await office.work(10 * 3_600_000)
        assert office.rows("outcome", "http_status") == [(answer.verdict, answer.http_status)]

    run(go())


def test_the_same_message_offered_again_is_sent_once() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY, OK]})
        await office.offer(an_alert())
        await office.offer(an_alert())  # it waits
        await office.work(1_000)
        await office.offer(an_alert(), an_alert(cost_nano=1))  # it is done
        assert len(office.sender.sent) == 2
        assert office.notifier.waiting == 0

    run(go())


def test_a_receiver_that_hangs_holds_up_only_its_own() -> None:
    slow = "https://slow.example.com/hunter2"

    async def go() -> None:
        office = Office(options={"in_flight_at_most": 4, "in_flight_per_receiver": 2})
        office.sender.hanging[slow] = asyncio.Event()
        office.addresses = [Address("webhook", slow)]
        for number in range(5):
            office.keep(alert := an_alert(f"slow-{number}"))
            office.notifier.offer([alert], 3)
        await office.notifier.run_once()
        office.addresses = [Address("webhook", HOOK)]
        office.notifier.offer([an_alert("quick")], 3)
        await office.notifier.run_once()
        await asyncio.sleep(0)
        assert office.notifier.in_flight == 3
        assert office.sender.told[-1] == ("quick", "firing")
        office.sender.hanging[slow].set()
        await office.work()
        assert office.notifier.outcomes == {"delivered": 6}

    run(go())


def test_what_there_is_no_room_for_waits_in_the_tables() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY] * 4 + [OK]}, options={"waiting_at_most": 4})
        await office.offer(*(an_alert(f"job-{number:02}") for number in range(10)))
        assert 0 < office.notifier.waiting <= 4
        for _ in range(20):
            await office.work(60_000)
        assert {name for name, _ in office.sender.told} == {f"job-{number:02}" for number in range(10)}
        assert office.notifier.outcomes == {"retrying": 4, "delivered": 10}

    run(go())


def test_a_busy_store_holds_up_no_message_and_loses_no_row() -> None:
    async def go() -> None:
        store = MemoryStore()
        office = Office(store=store)
        office.keep(an_alert("a"), an_alert("b"))
        store.fail(2, when="before", table="deliveries")
        store.fail(1, when="after", table="deliveries")
        office.notifier.offer([an_alert("a")], 3)
        for _ in range(3):
            with pytest.raises(SinkBusy):
                await office.work()
        office.notifier.offer([an_alert("b")], 3)
        await office.work()
        assert office.sender.told == [("a", "firing"), ("b", "firing")]
        assert office.rows("outcome") == [("delivered",), ("delivered",)]
        assert office.notifier.rows_waiting == 0

    run(go())


def test_the_same_message_offered_again_before_its_row_is_stored_is_sent_once() -> None:
    async def go() -> None:
        store = MemoryStore()
        office = Office(store=store)
        store.fail(1, table="deliveries")
        office.notifier.offer([an_alert()], 3)
        with pytest.raises(SinkBusy):
            await office.work()
        office.notifier.offer([an_alert()], 3)
        await office.work()
        assert office.sender.told == [("job-1", "firing")]

    run(go())


def test_no_attempt_begins_while_too_many_rows_wait_for_the_store() -> None:
    async def go() -> None:
        store = MemoryStore()
        office = Office(store=store, options={"rows_at_most": 1})
        office.keep(an_alert("a"), an_alert("b"))
        store.fail(1, table="deliveries")
        office.notifier.offer([an_alert("a")], 3)
        with pytest.raises(SinkBusy):
            await office.work()
        office.notifier.offer([an_alert("b")], 3)
        await office.notifier.run_once()
        assert office.notifier.in_flight == 0
        await office.work()
        await office.work()
        assert office.sender.told == [("a", "firing"), ("b", "firing")]

    run(go())


def test_an_odd_failure_of_one_message_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    class Odd(Sender):
        def __init__(self) -> None:
            self.calls = 0

        async def post(self, url: str, body: bytes, headers: object) -> SendResult:
            self.calls += 1
            if self.calls == 1:
                raise RuntimeError(f"no way to {url}")
            return OK

    async def go() -> None:
        office = Office()
        notifier = Notifier(
            office.store,
            lambda _: [Address("webhook", HOOK)],
            NotifierOptions(webhook_secret=SECRET),
            office.clock,
            jitter_ratio=lambda: 0.0,
            sender=Odd(),
        )
        notifier.offer([an_alert()], 3)
        for _ in range(2):
            await notifier.run_once()
            await attempts_ended(notifier)
        assert office.rows("outcome", "detail") == [
            ("retrying", f"could not be sent (RuntimeError); next attempt at {instant(NOW_MS)}"),
            ("delivered", ""),
        ]

    run(go())
    assert "hunter2" not in logged(caplog)


def test_options_and_clock_have_sane_defaults() -> None:
    notifier = Notifier(MemoryStore(), lambda _: [], NotifierOptions(), ManualClock())
    assert notifier.waiting == 0


def test_an_attempt_that_cannot_be_taken_note_of_ends_the_notifier(monkeypatch: pytest.MonkeyPatch) -> None:
    async def go() -> None:
        office = Office()
        monkeypatch.setattr(office.notifier, "_record_outcome", lambda *_: 1 // 0)
        office.keep(an_alert())
        office.notifier.offer([an_alert()], SHARD)
        with pytest.raises(ZeroDivisionError):
            await asyncio.wait_for(office.notifier.run(), 20)

    run(go())
