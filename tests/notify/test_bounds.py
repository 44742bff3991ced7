"""What waits for receivers that are ill leaves room for all others; what there is no room for comes out of the tables."""

from __future__ import annotations

import asyncio

import pytest

from streams.engine.alerts.alert import Address
from streams.notify.channels.webhook import WebhookChannel
from streams.notify.delivery import Delivery, Receiver
from streams.notify.queue import DeliveryQueue
from streams.notify.webhooks.sender import SendResult
from tests.notify.scripted_sender import BUSY, HOOK, OK, SHARD, Office, an_alert, run

AWAY = SendResult("retry", 0, "no answer within 15000 ms")


def delivery(name: str, receiver: str, shard: int = 0) -> Delivery:
    return Delivery(an_alert(name), shard, receiver, Receiver(WebhookChannel.traits, HOOK))


def test_a_receiver_that_is_away_does_not_fill_the_room_that_a_page_to_another_needs() -> None:
    away = "https://away.example.com/hunter2"

    async def go() -> None:
        office = Office({away: [AWAY]}, options={"waiting_at_most": 80})
        office.addresses = [Address("webhook", away)]
        await office.offer(*(an_alert(f"lost-{number}") for number in range(80)))
        assert office.notifier.waiting <= 20
        office.addresses = [Address("webhook", HOOK)]
        await office.offer(an_alert("page"))
        assert office.sender.told[-1] == ("page", "firing")

    run(go())


def test_what_was_left_in_the_tables_is_told_when_the_receiver_is_well() -> None:
    async def go() -> None:
        office = Office({HOOK: [BUSY] * 40 + [OK]}, options={"waiting_at_most": 80, "max_attempts": 100})
        alerts = [an_alert(f"job-{number}") for number in range(60)]
        await office.offer(*alerts)
        assert 0 < office.notifier.waiting <= 20
        for _ in range(40):
            await office.work(60_000)
        told = [row for row in office.rows("alert_id", "outcome") if row[1] == "delivered"]
        assert sorted(told) == sorted((alert.alert_id, "delivered") for alert in alerts)  # each once
        assert office.notifier.waiting == 0
        assert not office.notifier._intake.behind

    run(go())


def test_what_is_left_is_forgotten_with_its_shard() -> None:
    async def go() -> None:
        office = Office({HOOK: [AWAY]}, options={"waiting_at_most": 8})
        await office.offer(*(an_alert(f"job-{number}") for number in range(8)))
        assert office.notifier._intake.behind
        office.notifier.release([SHARD])
        assert not office.notifier._intake.behind
        assert office.notifier.waiting == 0

    run(go())


def test_receivers_that_are_ill_share_a_part_of_the_room() -> None:
    box = DeliveryQueue(8, 4, ill_at_most=10)
    for number in range(20):
        box.put(delivery(f"a-{number}", "a", shard=1), 0)
        box.put(delivery(f"b-{number}", "b", shard=2), 0)
        box.put(delivery(f"c-{number}", "c", shard=3), 0)
    first = {each.receiver: each for each in reversed(box.pop_due(0))}
    assert set(first) == {"a", "b", "c"}
    box.again(first["a"], 1, 100)
    assert box.shed("a") == {1}
    assert len(box) == 20 + 20 + 5  # half of its share of 10
    assert not box.is_full(delivery("a-new", "a"))
    box.again(first["b"], 1, 100)
    assert box.shed("b") == {2}
    assert box.is_full(delivery("a-new", "a"))  # they share it
    assert not box.is_full(delivery("a-0", "a"))  # waits already
    box.finish(first["c"], 1)
    assert box.shed("c") == set()
    assert not box.is_full(delivery("c-new", "c"))


def test_a_receiver_that_is_slow_is_ill_until_it_answers_soon() -> None:
    box = DeliveryQueue(8, 4, ill_at_most=2)
    for number in range(9):
        box.put(delivery(f"a-{number}", "a"), 0)
    hanging = box.pop_due(0)
    box.finish(hanging[0], 15_000)
    assert box.shed("a") == {0}
    assert len(box) == len(hanging) - 1  # those under way stay
    for each in hanging[1:]:
        box.finish(each, 15_000)
    box.put(delivery("next", "a"), 15_000)
    box.put(delivery("other", "a"), 15_000)
    (soon,) = box.pop_due(15_000)
    box.finish(soon, 15_010)
    assert not box.is_full(delivery("new", "a"))


def test_a_flood_is_taken_in_parts_so_that_the_event_loop_is_not_held_up() -> None:
    async def go() -> None:
        office = Office()
        office.notifier.offer([an_alert(f"job-{number}") for number in range(1_200)], SHARD)
        await office.notifier.run_once()
        assert office.notifier._intake.waiting == 700
        await office.work()
        assert len(office.sender.sent) == 1_200

    run(go())


@pytest.mark.timeout(30)
def test_while_rows_wait_for_the_store_a_flood_leaves_the_event_loop_free() -> None:
    async def go() -> None:
        office = Office(options={"rows_at_most": 0})
        office.notifier.offer([an_alert(f"job-{number}") for number in range(1_200)], SHARD)
        running = asyncio.create_task(office.notifier.run())
        for _ in range(20):
            await asyncio.sleep(0)
        assert office.notifier._intake.waiting == 1_200
        await office.notifier.stop()
        await running

    run(go())
