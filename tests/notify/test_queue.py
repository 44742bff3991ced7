"""What waits: order within a chain, bounds across them."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from streams.notify.channels.webhook import WebhookChannel
from streams.notify.delivery import Delivery, Receiver
from streams.notify.queue import DeliveryQueue
from tests.notify.scripted_sender import NOW_MS, an_alert

HOOK = Receiver(WebhookChannel.traits, "https://hooks.example.com/hunter2")


def delivery(name: str, receiver: str = "r", change: int = 0, shard: int = 0) -> Delivery:
    return Delivery(an_alert(name, changed_ms=NOW_MS + change), shard, receiver, HOOK)


def test_nothing_is_due_in_an_empty_box() -> None:
    box = DeliveryQueue(8, 4)
    assert (len(box), box._slots.in_flight, box.next_due_ms(), box.pop_due(0)) == (0, 0, None, [])


def test_parcels_are_taken_when_they_are_due_the_earliest_first() -> None:
    box = DeliveryQueue(8, 8)
    late, early, same = delivery("a"), delivery("b"), delivery("c")
    box.put(late, 20)
    box.put(early, 10)
    box.put(same, 10)
    assert box.next_due_ms() == 10
    assert box.pop_due(9) == []
    assert box.pop_due(10) == [early, same]
    assert box.pop_due(20) == [late]
    assert box.next_due_ms() is None


def test_a_chain_goes_one_by_one() -> None:
    box = DeliveryQueue(8, 8)
    first, second = delivery("a"), delivery("a", change=1)
    box.put(first, 0)
    box.put(second, 0)
    assert box.pop_due(0) == [first]
    box.again(first, 0, 50)
    assert (first.attempt, box.pop_due(49)) == (2, [])
    assert box.pop_due(50) == [first]
    box.finish(first, 60)
    assert box.pop_due(60) == [second]
    box.finish(second, 60)
    assert len(box) == 0


def test_a_message_that_waits_is_not_taken_twice() -> None:
    box = DeliveryQueue(8, 8)
    assert box.put(delivery("a"), 0)
    assert not box.put(delivery("a"), 0)
    assert box.put(delivery("a", receiver="other"), 0)


def test_what_is_dropped_while_it_flies_lands_softly() -> None:
    box = DeliveryQueue(1, 1)
    in_flight, waiting, other = delivery("a", shard=1), delivery("b", shard=1), delivery("c", shard=2)
    box.put(in_flight, 0)
    box.put(waiting, 0)
    box.put(other, 0)
    assert box.pop_due(0) == [in_flight]
    assert box.drop({1}) == 2
    box.again(in_flight, 0, 0)
    assert box.pop_due(0) == [other]
    box.finish(other, 0)
    assert (len(box), box._slots.in_flight, box.next_due_ms()) == (0, 0, None)


def test_a_parcel_does_not_show_its_address() -> None:
    assert "hunter2" not in repr(delivery("a"))


@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 3), st.integers(0, 5))),
    st.lists(st.tuples(st.booleans(), st.integers(0, 3))),
    st.integers(1, 3),
    st.integers(1, 2),
)
def test_all_get_out_in_order_within_the_bounds(
    puts: list[tuple[str, str, int, int]], ends: list[tuple[bool, int]], at_most: int, per_receiver: int
) -> None:
    box = DeliveryQueue(at_most, per_receiver)
    expected: dict[tuple[str, str], list[str]] = {}
    for name, receiver, change, due_ms in puts:
        each = delivery(name, receiver, change)
        if box.put(each, due_ms):
            expected.setdefault((name, receiver), []).append(each.webhook_id)
    done: dict[tuple[str, str], list[str]] = {}
    in_flight: list[Delivery] = []
    now_ms = 0
    while len(box):
        in_flight += box.pop_due(now_ms)
        assert len(in_flight) == box._slots.in_flight <= at_most
        assert max(Counter(each.receiver for each in in_flight).values(), default=0) <= per_receiver
        assert len({each.chain for each in in_flight}) == len(in_flight)
        if not in_flight:
            next_ms = box.next_due_ms()
            assert next_ms is not None
            now_ms = max(now_ms, next_ms)
            continue
        fails, wait_ms = ends.pop() if ends else (False, 0)
        each = in_flight.pop(0)
        if fails:
            box.again(each, now_ms, now_ms + wait_ms)
        else:
            box.finish(each, now_ms)
            done.setdefault((each.alert.subject_name, each.receiver), []).append(each.webhook_id)
    assert done == expected
