"""The end of a partition is told with an instant at which it was the end, whatever the other thread does meanwhile."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from streams.transport.consumer import ConsumerThread
from streams.transport.faust_types import TP

PLACE = TP("t.jobs", 0)
ANSWERS = [(10, 1_000), (12, 6_000)]


class State:
    """As aiokafka's, which takes an answer in after so many looks at it; when it came is noted last."""

    def __init__(self, looks: int) -> None:
        self._looks = looks
        self.has_valid_position = True
        self.position = 10

    def __getattr__(self, name: str) -> int:
        end, _ = ANSWERS[self._looks <= 0]
        self._looks -= 1
        return end

    def at_ms(self, _: object) -> int:
        self._looks -= 1
        return ANSWERS[self._looks < -1][1]


@pytest.mark.parametrize("looks", range(10))
def test_an_answer_that_comes_while_the_end_is_read(looks: int) -> None:
    state = State(looks)
    subscription = SimpleNamespace(assignment=SimpleNamespace(state_value=lambda _: state))
    thread = cast("Any", ConsumerThread.__new__(ConsumerThread))
    thread._ensure_consumer = lambda: SimpleNamespace(
        _subscription=SimpleNamespace(subscription=subscription)
    )
    thread._fetched_to = {PLACE: 10}
    thread._behind = {}
    thread._answers = state
    end, _, answered_ms = thread.log_end(PLACE)
    assert end == 12 or answered_ms == ANSWERS[0][1]  # never the old end as of the new instant
