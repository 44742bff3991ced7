"""Records when brokers last answered a fetch, by the monotonic clock; aiokafka uses the wall clock, which may jump.

The private names of aiokafka that it uses are in tests/transport/pins.py.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiokafka import TopicPartition


class LogEnd(NamedTuple):
    """The end of a partition as of a fetch response."""

    readable: int  # committed records before this offset may be read
    high_watermark: int  # the end of the log: records from `readable` on wait for an open transaction
    answered_ms: int  #: instant of the monotonic clock


class Answers:
    """Fetch responses of one consumer; any thread may read them."""

    def __init__(self, monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 1_000_000) -> None:
        self._monotonic_ms = monotonic_ms
        self._at_ms: dict[Any, int] = {}

    def watch(self, fetcher: Any) -> None:
        """Record all responses from now on."""
        send: Callable[[Any, Any, Any], Awaitable[bool]] = fetcher._proc_fetch_request

        async def noted(assignment: Any, broker: Any, request: Any) -> bool:
            before = {tp: _noted(assignment, tp) for tp in _asked_for(request)}
            brought = await send(assignment, broker, request)
            now_ms = self._monotonic_ms()
            for tp, stamp in before.items():
                # Each response has an int object of its own, even while the wall clock stands still.
                if _noted(assignment, tp) is not stamp:
                    self._at_ms[tp] = now_ms
            return brought

        fetcher._proc_fetch_request = noted

    def at_ms(self, tp: Any) -> int | None:
        """Return when the partition was last part of a response; None: never."""
        return self._at_ms.get(tp)


def _noted(assignment: Any, tp: TopicPartition) -> object:
    state = assignment.state_value(tp)
    return None if state is None else state.timestamp


def _asked_for(request: Any) -> list[TopicPartition]:
    return [TopicPartition(topic, each[0]) for topic, partitions in request.topics for each in partitions]
