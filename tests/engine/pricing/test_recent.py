"""What was computed lately is computed once, and only so much of it is kept."""

import sys
import threading
from collections.abc import Iterator

import pytest

from streams.engine.pricing.recent import Recent


def test_the_oldest_is_dropped_when_all_weigh_too_much() -> None:
    made: list[str] = []
    recent: Recent[str, str] = Recent(10)

    def ask(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return recent.get(key, make, lambda _value: 4)

    assert [ask(key) for key in "abab"] == ["A", "B", "A", "B"]
    assert ask("c") == "C"
    assert ask("b") == "B"
    assert ask("a") == "A"
    assert made == ["a", "b", "c", "a"]


def test_one_that_weighs_more_than_all_may_is_kept_alone() -> None:
    recent: Recent[int, int] = Recent(1)
    assert [recent.get(key, lambda: 7, lambda _value: 5) for key in (1, 2)] == [7, 7]
    assert recent.get(2, lambda: 8, lambda _value: 5) == 7


class Weight(int):
    """A weight that counts how often it is added to others."""

    added = 0

    def __radd__(self, other: int) -> int:
        Weight.added += 1
        return int(other) + int(self)


def test_adding_one_costs_the_same_however_many_there_are() -> None:
    recent: Recent[int, int] = Recent(10_000)
    for key in range(1_000):
        recent.get(key, lambda: 7, lambda _value: Weight(1))
    assert Weight.added <= 2_000
    asked = [recent.get(key, lambda: 8, lambda _value: Weight(1)) for key in range(1_000)]
    assert set(asked) == {7}


def test_what_is_kept_weighs_no_more_than_is_said() -> None:
    recent: Recent[int, str] = Recent(100)
    for key in range(1_000):
        recent.get(key, lambda: "before", lambda _value: 3)
    asked = [recent.get(key, lambda: "after", lambda _value: 3) for key in range(999, -1, -1)]
    assert 50 <= 3 * asked.index("after") <= 100


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads take turns after a few instructions."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("hasty")
def test_threads_may_ask_at_once() -> None:
    recent: Recent[int, int] = Recent(20)
    wrong: list[object] = []

    def ask(begin: int) -> None:
        try:
            for number in range(begin, begin + 2_000):
                key = number % 50
                value = recent.get(key, lambda: key, lambda _value: 1)  # noqa: B023 - called at once
                if value != key:
                    wrong.append((key, value))
        except RuntimeError as fault:
            wrong.append(fault)

    threads = [threading.Thread(target=ask, args=(begin,)) for begin in range(0, 40, 10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
