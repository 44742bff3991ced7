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
