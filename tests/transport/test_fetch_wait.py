"""A broker that has nothing to say is asked less often, and told to answer at the first record."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition

from streams.engine.shard.sequencer import TICK_MS
from streams.transport.fetch_wait import (
    LONGEST_MS,
    QUIET_ANSWERS,
    FetchWait,
    OtherPartitionsError,
    finish_waits,
)

USUAL = (262_144, 250)
SHORT_MS = 40
#: Well between two ticks.
NOW_MS = 1_763_700_000_000 + 3_000


def ours(**states: SimpleNamespace) -> SimpleNamespace:
    """An assignment of partitions of one topic."""
    by_tp = {TopicPartition("t", int(name[1:])): state for name, state in states.items()}
    return SimpleNamespace(tps=frozenset(by_tp), state_value=by_tp.get)


def at(
    position: int, highwater: int | None, lso: int | None = None, *, known: bool = True
) -> SimpleNamespace:
    return SimpleNamespace(position=position, highwater=highwater, lso=lso, has_valid_position=known)


A, B = ours(), ours()


class Broker:
    """Answers as told, after `takes` of the wait."""

    def __init__(
        self, now_ms: int = NOW_MS, checkpoint_in_ms: Callable[[], tuple[int, int] | None] = lambda: None
    ) -> None:
        self.now_s = now_ms / 1000
        self.asked: list[tuple[int, int]] = []
        self.brings, self.takes = False, 1.0
        self.led_by: dict[TopicPartition, int] = {}  # else by 1
        self.fetcher = SimpleNamespace(
            _proc_fetch_request=self._answer, _select_read_replica=lambda tp: self.led_by.get(tp, 1)
        )
        FetchWait(checkpoint_in_ms, lambda: self.now_s * 1000, lambda: self.now_s).watch(self.fetcher)

    async def _answer(self, _assignment: Any, _broker: Any, request: Any) -> bool:
        self.asked.append((request._min_bytes, request._max_wait_ms))
        self.now_s += self.takes * request._max_wait_ms / 1000
        return self.brings

    def fetch(
        self,
        times: int = 1,
        *,
        broker: int = 1,
        assignment: object = A,
        topics: Sequence[tuple[str, Sequence[tuple[int, int, int]]]] = (),
    ) -> tuple[int, int]:
        for _ in range(times):
            request = SimpleNamespace(_min_bytes=USUAL[0], _max_wait_ms=USUAL[1], topics=topics)
            asyncio.run(self.fetcher._proc_fetch_request(assignment, broker, request))
        return self.asked[-1]


def test_after_some_empty_answers_the_first_record_is_waited_for() -> None:
    broker = Broker()
    assert broker.fetch(QUIET_ANSWERS) == USUAL
    assert broker.fetch() == (1, LONGEST_MS)


def test_what_it_brings_is_followed_by_gathering() -> None:
    broker = Broker()
    broker.fetch(QUIET_ANSWERS)
    broker.brings, broker.takes = True, 0.01
    assert broker.fetch() == (1, LONGEST_MS)
    broker.takes = 1.0
    assert {broker.fetch() for _ in range(QUIET_ANSWERS)} == {USUAL}


def test_a_refusal_at_once_is_no_silence() -> None:
    broker = Broker()
    broker.takes = 0.0
    assert broker.fetch(3 * QUIET_ANSWERS) == USUAL
    # ... and one in the middle of a silence ends it, or the broker would be asked as fast as it refuses.
    broker.takes = 1.0
    assert broker.fetch(QUIET_ANSWERS + 1) == (1, LONGEST_MS)
    broker.takes = 0.0
    broker.fetch()
    assert broker.fetch() == USUAL


def test_brokers_are_quiet_each_for_itself() -> None:
    broker = Broker()
    broker.fetch(QUIET_ANSWERS)
    assert broker.fetch(broker=2) == USUAL
    assert broker.fetch() == (1, LONGEST_MS)


def test_other_partitions_are_not_made_to_wait() -> None:
    broker = Broker()
    broker.fetch(QUIET_ANSWERS + 1)
    assert broker.fetch(assignment=B) == USUAL


def test_a_tick_finds_an_answer_that_was_given_just_after_it() -> None:
    broker = Broker(NOW_MS // TICK_MS * TICK_MS + TICK_MS - 800 - QUIET_ANSWERS * USUAL[1])
    broker.fetch(QUIET_ANSWERS)
    _, wait_ms = broker.fetch()
    late_ms = round(broker.now_s * 1000) % TICK_MS
    assert wait_ms < LONGEST_MS
    assert 100 < late_ms < 200
    assert broker.fetch() == (1, LONGEST_MS)


def test_a_longer_wait_that_was_configured_stays() -> None:
    broker = Broker()
    broker.fetch(QUIET_ANSWERS)
    request = SimpleNamespace(_min_bytes=USUAL[0], _max_wait_ms=5_000, topics=())
    asyncio.run(broker.fetcher._proc_fetch_request(A, 1, request))
    assert broker.asked[-1] == (1, 5_000)


@pytest.mark.parametrize(
    ("position", "highwater", "lso", "min_bytes"),
    [
        (5, 9, 9, 1),
        (9, 9, 9, USUAL[0]),
        (5, 9, 5, USUAL[0]),  # behind an open transaction: it cannot be read yet
        (5, 9, None, 1),
        (0, None, None, 1),  # nothing is known of it
    ],
)
def test_the_rest_of_a_log_is_not_gathered(
    position: int, highwater: int | None, lso: int | None, min_bytes: int
) -> None:
    assignment = ours(p0=at(3, 3, 3), p1=at(position, highwater, lso))
    broker = Broker()
    topics = [("t", [(0, 3, 1), (1, position, 1), (2, 0, 1)])]  # 2 is no longer ours
    assert broker.fetch(assignment=assignment, topics=topics) == (min_bytes, USUAL[1])


@pytest.mark.parametrize(
    ("left_out", "asked"),
    [
        (at(5, 9), (1, SHORT_MS)),
        (at(0, None), (1, SHORT_MS)),  # nothing is known of it
        (at(9, 9), USUAL),
        (at(5, 9, 5), USUAL),  # behind an open transaction: it cannot be read yet
        (at(5, 9, known=False), USUAL),  # it is sought first, and fetches wait for that
    ],
)
def test_partitions_that_are_left_out_do_not_wait_for_those_that_have_nothing(
    left_out: SimpleNamespace, asked: tuple[int, int]
) -> None:
    assignment = ours(p0=at(3, 3), p1=left_out)
    assert Broker().fetch(assignment=assignment, topics=[("t", [(0, 3, 1)])]) == asked


def test_what_another_broker_has_is_asked_for_there() -> None:
    assignment = ours(p0=at(3, 3), p1=at(5, 9))
    broker = Broker()
    broker.led_by = {TopicPartition("t", 1): 2}
    assert broker.fetch(assignment=assignment, topics=[("t", [(0, 3, 1)])]) == USUAL


def test_nor_for_a_broker_that_is_quiet() -> None:
    assignment = ours(p0=at(3, 3), p1=at(9, 9))
    broker = Broker()
    topics = [("t", [(0, 3, 1)])]
    broker.fetch(QUIET_ANSWERS, assignment=assignment, topics=topics)
    assert broker.fetch(assignment=assignment, topics=topics) == (1, LONGEST_MS)
    assignment.state_value(TopicPartition("t", 1)).highwater = 10
    assert broker.fetch(assignment=assignment, topics=topics) == (1, SHORT_MS)


@pytest.mark.parametrize(
    ("left_ms", "every_ms", "wait_ms"),
    [
        (1_000, 1_000, 920),  # it ends shortly before it
        (540, 1_000, 460),
        (300, 1_000, 220),
        (70, 1_000, 990),  # too late for this one: it is for the next
        (100, 1_200, 1_220),
        (5_000, 5_000, 1_230),  # too far for one
        (100, 100, 75),
    ],
)
def test_what_is_read_comes_shortly_before_it_is_stored(left_ms: int, every_ms: int, wait_ms: int) -> None:
    broker = Broker(checkpoint_in_ms=lambda: (left_ms, every_ms))
    broker.brings = True
    assert broker.fetch() == (USUAL[0], wait_ms)


def test_a_fetch_with_many_records_ends_before_a_tick_is_long_over() -> None:
    broker = Broker(NOW_MS // TICK_MS * TICK_MS - 200, lambda: (1_000, 1_000))
    broker.brings = True
    assert broker.fetch() == (USUAL[0], 320)


def test_whoever_waits_for_records_of_other_partitions_waits_no_longer() -> None:
    async def ended() -> tuple[BaseException | None, int]:
        loop = asyncio.get_running_loop()
        waiting, done = loop.create_future(), loop.create_future()
        done.set_result(1)
        finish_waits(SimpleNamespace(_fetch_waiters={waiting, done}))
        return waiting.exception(), done.result()

    fault, kept = asyncio.run(ended())
    assert isinstance(fault, OtherPartitionsError)
    assert kept == 1
