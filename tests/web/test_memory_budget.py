"""Bytes as values: charged as they come, and who makes room for whom. Times are handed in."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from streams.memory_budget import CREDIT_MS, PACE_BYTES_PER_MS, HeldBytes, MemoryBudget

MIB = 2**20


class Messages:
    """Messages of one budget; whom it evicted is in `gone`, in turn."""

    def __init__(self, most_bytes: int, share_bytes: int | None = None) -> None:
        self.budget = MemoryBudget(most_bytes, share_bytes)
        self.gone: list[str] = []

    def opened(self, name: str, owner: str = "a", size_bytes: int = 0, now_ms: int = 0) -> HeldBytes:
        held = self.budget.open(owner, lambda: self.gone.append(name), now_ms)
        if size_bytes:
            assert self.budget.charge(held, size_bytes, now_ms)
        return held


def test_what_is_only_announced_holds_nothing() -> None:
    of = Messages(10)
    for number in range(1_000):
        of.opened(f"silent-{number}")
    of.opened("honest", size_bytes=10)
    assert (of.budget.held_bytes, of.gone) == (10, [])


def test_whoever_stopped_first_makes_room_and_whoever_goes_on_does_not() -> None:
    of = Messages(10 * MIB)
    stopped = of.opened("stopped", size_bytes=4 * MIB)
    going_on = of.opened("going on", size_bytes=4 * MIB)
    assert of.budget.charge(going_on, MIB, 5_000)
    of.opened("new", size_bytes=2 * MIB, now_ms=5_100)
    assert of.gone == ["stopped"]
    assert (stopped.size_bytes, of.budget.held_bytes) == (0, 7 * MIB)
    assert not of.budget.charge(stopped, 1, 5_200), "what was evicted holds nothing more"


def test_a_burst_buys_a_second_and_no_more() -> None:
    of = Messages(8 * MIB)
    of.opened("burst", size_bytes=8 * MIB - 100)
    steady = of.opened("steady", size_bytes=50)
    now_ms = CREDIT_MS + 1
    assert of.budget.charge(steady, 51, now_ms)
    assert of.gone == ["burst"]


def test_of_equally_slow_ones_the_largest_makes_room_also_for_itself() -> None:
    of = Messages(10_000)
    of.opened("large", size_bytes=6_000)
    of.opened("small", size_bytes=3_000)
    of.opened("new", size_bytes=2_000)
    assert of.gone == ["large"]
    too_large = of.budget.open("a", lambda: of.gone.append("too large"), 0)
    assert not of.budget.charge(too_large, 9_000, 0)
    assert of.gone == ["large"]


def test_a_slow_one_does_not_take_the_place_of_faster_ones() -> None:
    of = Messages(1_000)
    slow = of.opened("slow", size_bytes=10)
    of.opened("fast", size_bytes=900, now_ms=5_000)
    assert not of.budget.charge(slow, 200, 5_000 - CREDIT_MS)
    assert of.gone == []


def test_whoever_exceeds_the_share_of_its_address_makes_room_itself() -> None:
    of = Messages(100, 50)
    lonely = of.opened("lonely", "b", 40)  # the slowest of all
    of.opened("first", "a", 30, now_ms=10)
    of.opened("second", "a", 30, now_ms=20)
    assert (of.gone, lonely.size_bytes) == (["first"], 40)


def test_where_all_is_full_the_owner_of_most_makes_room() -> None:
    of = Messages(100, 60)
    of.opened("lonely", "b", 30)
    of.opened("one", "a", 30, now_ms=10)
    of.opened("two", "a", 30, now_ms=20)
    of.opened("new", "c", 20, now_ms=30)
    assert of.gone == ["one"]


def test_what_has_arrived_stays_and_then_there_is_no_room() -> None:
    of = Messages(100)
    whole = of.opened("whole", size_bytes=90)
    of.budget.settle(whole)
    late = of.budget.open("b", lambda: of.gone.append("late"), 10**6)
    assert not of.budget.charge(late, 20, 10**6)
    of.budget.release(whole)
    assert of.budget.charge(late, 20, 10**6)
    assert of.gone == []


def test_pace_is_what_is_sent_by_the_second() -> None:
    of = Messages(MIB)
    held = of.opened("held")
    of.budget.charge(held, 500 * PACE_BYTES_PER_MS, 900)
    assert held.due_ms == CREDIT_MS + 500


@given(
    st.lists(
        st.tuples(st.sampled_from("ocsr"), st.integers(0, 7), st.integers(0, 60), st.integers(0, 3_000)),
        max_size=80,
    )
)
def test_no_more_is_held_than_may_be_whatever_comes(steps: list[tuple[str, int, int, int]]) -> None:
    budget, now_ms = MemoryBudget(100, 70), 0
    held: dict[int, HeldBytes] = {}
    for what, number, size_bytes, later_ms in steps:
        now_ms += later_ms
        if what == "o" and number not in held:
            held[number] = budget.open("ab"[number % 2], lambda: None, now_ms)
        elif number in held:
            if what == "c":
                budget.charge(held[number], size_bytes, now_ms)
            elif what == "s":
                budget.settle(held[number])
            else:
                budget.release(held.pop(number))
        assert budget.held_bytes == sum(each.size_bytes for each in held.values()) <= 100
        for owner in "ab":
            assert sum(each.size_bytes for each in held.values() if each.owner == owner) <= 70
    for each in held.values():
        budget.release(each)
    assert (budget.held_bytes, budget._held_bytes, budget._arriving) == (0, {}, {})
