"""Who goes next: receivers that hang hold up nobody else, and pages go before what wakes nobody."""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any

from streams.notify.channels.webhook import WebhookChannel
from streams.notify.delivery import Delivery, Receiver
from streams.notify.options import NotifierOptions
from streams.notify.queue import DeliveryQueue
from streams.notify.slots import SLOW_MS
from tests.notify.scripted_sender import an_alert, resolved

OPTIONS = NotifierOptions()
HOOK = Receiver(WebhookChannel.traits, "https://hooks.example.com/hunter2")


def delivery(name: str, receiver: str, shard: int = 0, **other: Any) -> Delivery:
    return Delivery(an_alert(name, **other), shard, receiver, HOOK)


def ticket(name: str, receiver: str) -> Delivery:
    return delivery(name, receiver, severity="ticket")


def an_outbox() -> DeliveryQueue:
    return DeliveryQueue(OPTIONS.in_flight_at_most, OPTIONS.in_flight_per_receiver)


def names(deliveries: list[Delivery]) -> list[str]:
    return [each.alert.subject_name for each in deliveries]


def delays_of_good_pages(hanging: int, *, severity: str) -> list[int]:
    """For a page a second to one good receiver, beside receivers that never answer: ms until its attempt begins."""
    box = an_outbox()
    for number in range(hanging):
        for message in range(30):
            box.put(delivery(f"job-{number}-{message}", f"tarpit-{number}", severity=severity), 0)
    offered_ms = {f"good-{second}": second * 1_000 for second in range(120)}
    delays: dict[str, int] = {}
    landings: list[tuple[int, int, Delivery | None]] = [(at_ms, 0, None) for at_ms in offered_ms.values()]
    count = 0
    while landings:
        now_ms, _, landed = heapq.heappop(landings)
        if now_ms > 200_000:
            break
        if landed is None:
            box.put(delivery(f"good-{now_ms // 1_000}", "good"), now_ms)
        elif landed.receiver == "good":
            box.finish(landed, now_ms)
        else:
            box.again(landed, now_ms, now_ms + 1_000)
        for each in box.pop_due(now_ms):
            name, good = each.alert.subject_name, each.receiver == "good"
            if good:
                delays[name] = now_ms - offered_ms[name]
            count += 1
            heapq.heappush(landings, (now_ms + (50 if good else OPTIONS.timeout_ms), count, each))
    assert len(delays) == len(offered_ms)
    return list(delays.values())


def test_receivers_that_hang_delay_no_page_to_one_that_answers() -> None:
    assert max(delays_of_good_pages(12, severity="page")) == 0
    assert max(delays_of_good_pages(40, severity="page")) == 0


def test_what_is_no_page_leaves_slots_for_pages_however_many_receivers_hang() -> None:
    assert max(delays_of_good_pages(500, severity="ticket")) == 0


def test_a_receiver_that_was_slow_has_one_slot_until_it_answers_sooner() -> None:
    box = DeliveryQueue(64, 4)
    for number in range(20):
        box.put(delivery(f"job-{number}", "r"), 0)
    first = box.pop_due(0)
    assert len(first) == 4
    for each in first:
        box.finish(each, SLOW_MS)
    (second,) = box.pop_due(SLOW_MS)
    box.finish(second, 2 * SLOW_MS - 1)
    assert len(box.pop_due(2 * SLOW_MS)) == 4


def test_while_an_attempt_hangs_no_other_at_its_receiver_begins() -> None:
    box = DeliveryQueue(64, 4)
    box.put(delivery("hangs", "r"), 0)
    (hanging,) = box.pop_due(0)
    box.put(delivery("next", "r"), SLOW_MS)
    assert box.pop_due(SLOW_MS) == []
    box.finish(hanging, SLOW_MS)
    assert names(box.pop_due(SLOW_MS)) == ["next"]


def test_receivers_that_were_slow_hold_a_part_of_the_slots_and_take_turns() -> None:
    box = DeliveryQueue(64, 4)
    for number in range(30):
        for message in "abc":
            box.put(delivery(f"{message}-{number}", f"tarpit-{number}"), 0)
    in_flight, now_ms = box.pop_due(0), 0
    assert Counter(each.receiver for each in in_flight) == {f"tarpit-{n}": 1 + (n < 16) for n in range(30)}
    for _ in range(10):
        now_ms += OPTIONS.timeout_ms
        for each in in_flight:
            box.again(each, now_ms, now_ms)
        in_flight = box.pop_due(now_ms)
        assert len(in_flight) == 8
    assert len({each.receiver for each in in_flight}) == 8
    box.put(delivery("news", "good"), now_ms)
    assert names(box.pop_due(now_ms)) == ["news"]


def test_addresses_at_one_host_share_its_attempts() -> None:
    box = DeliveryQueue(64, 4)
    for number in range(9):
        box.put(delivery(f"job-{number}", ("https://h", "https://h #2", "https://h #3")[number % 3]), 0)
    assert len(box.pop_due(0)) == 4


def test_pages_go_first_and_receivers_take_turns() -> None:
    box = DeliveryQueue(2, 2)
    box.put(ticket("ticket", "a"), 0)
    box.put(Delivery(resolved("resolved"), 0, "b", HOOK), 0)
    box.put(delivery("page-1", "a"), 1)
    box.put(delivery("page-2", "a"), 1)
    box.put(delivery("page-3", "b"), 1)
    told: list[str] = []
    while taken := box.pop_due(1):
        told += names(taken)
        for each in taken:
            box.finish(each, 1)
    assert told == ["page-1", "page-3", "page-2", "resolved", "ticket"]


def test_what_is_dropped_while_it_waits_for_a_slot_is_not_taken() -> None:
    box = DeliveryQueue(1, 1)
    box.put(delivery("flies", "r"), 0)
    (flies,) = box.pop_due(0)
    box.put(delivery("ours", "r", shard=1), 0)
    box.put(delivery("theirs", "s", shard=2), 0)
    assert box.pop_due(0) == []
    assert box.drop({2}) == 1
    box.finish(flies, 0)
    assert names(box.pop_due(0)) == ["ours"]


def test_no_more_attempts_start_in_a_second_than_metering_can_spare() -> None:
    box = DeliveryQueue(64, 4, starts_per_s=20)
    for number in range(100):
        box.put(delivery(f"job-{number}", f"receiver-{number}"), 1_000)
    started: list[int] = []
    now_ms = 1_000
    while len(started) < 100:
        for each in box.pop_due(now_ms):
            started.append(now_ms)
            box.finish(each, now_ms)
        following_ms = box.next_due_ms()
        assert following_ms is None or following_ms > now_ms
        now_ms = following_ms or now_ms
    assert started[:20] == [1_000] * 20
    assert started[20:] == [1_050 + 50 * place for place in range(80)]


def test_a_page_that_comes_while_tickets_wait_for_the_rate_goes_first() -> None:
    box = DeliveryQueue(64, 4, starts_per_s=5)
    for number in range(20):
        box.put(ticket(f"t-{number}", f"receiver-{number}"), 0)
    begun = box.pop_due(0)
    assert len(begun) == 5
    for each in begun:
        box.finish(each, 0)
    box.put(delivery("page", "somebody"), 0)
    assert names(box.pop_due(200)) == ["page"]
