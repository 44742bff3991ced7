"""Sets how long a broker may hold a fetch: no longer than until the next tick or checkpoint needs the records.

Every response has about the same cost, full or empty, and records between two checkpoints wait for the next
one anyway. While the log is known to hold more, nothing is held. It sets two fields of outgoing requests in
the consumer thread. The private names that it uses are in tests/transport/pins.py.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiokafka import TopicPartition

from streams.engine.shard.sequencer import TICK_MS

#: After this many empty responses in a row, each after the whole wait, a broker counts as idle.
QUIET_ANSWERS: Final = 4
#: Each response confirms that everything was read, which ticks and health checks depend on.
LONGEST_MS: Final = 2_000
#: A response this long after a tick is certain to be later than every record before the tick.
_AFTER_TICK_MS: Final = 120
#: A response this long before a checkpoint is folded by then.
_BEFORE_CHECKPOINT_MS: Final = 80
_SHORTEST_MS: Final = 40
#: One response per checkpoint at the usual interval: each is folded separately, shard by shard, however small it is.
_LONGER: Final = 5


def _with_more(fetcher: Any, assignment: Any, broker: Any) -> set[TopicPartition]:
    """Our partitions of a broker that had records behind our position as of their last response, or had none yet."""
    found = set()
    for tp in assignment.tps:
        state = assignment.state_value(tp)
        if state is None or fetcher._select_read_replica(tp) != broker or not state.has_valid_position:
            continue  # it must be sought or fetched first
        if state.highwater is None or state.position < readable_end(state):
            found.add(tp)
    return found


def readable_end(state: Any) -> int:
    """The end of a partition as of its last response, without records behind an open transaction."""
    return int(state.highwater if state.lso is None else min(state.highwater, state.lso))


def _asked_for(request: Any) -> set[TopicPartition]:
    return {TopicPartition(topic, each[0]) for topic, partitions in request.topics for each in partitions}


class OtherPartitionsError(Exception):
    """Ends a wait for records of partitions that are no longer assigned."""


def finish_waits(fetcher: Any) -> None:
    """End waits for records: they wait for the partitions of an earlier assignment."""
    for waiter in list(fetcher._fetch_waiters):
        if not waiter.done():
            waiter.set_exception(OtherPartitionsError())


class FetchWait:
    """Sets the waits of one consumer. An idle broker responds to the first record; otherwise records are collected."""

    def __init__(
        self,
        checkpoint_in_ms: Callable[[], tuple[int, int] | None] = lambda: None,
        now_ms: Callable[[], float] = lambda: time.time_ns() // 1_000_000,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._checkpoint_in_ms = checkpoint_in_ms
        self._now_ms = now_ms
        self._monotonic_s = monotonic_s
        self._assignment: object = None
        self._empty: dict[object, int] = {}  # by broker: empty responses in a row

    def watch(self, fetcher: Any) -> None:
        """Set the waits of all fetches from now on."""
        send: Callable[[Any, Any, Any], Awaitable[bool]] = fetcher._proc_fetch_request

        async def paced(assignment: Any, broker: Any, request: Any) -> bool:
            if assignment is not self._assignment:
                # The first fetch may include a few partitions only, and delays the others.
                self._assignment, self._empty = assignment, {}
            empty = self._empty.get(broker, 0)
            usual_ms = request._max_wait_ms
            if empty >= QUIET_ANSWERS:
                request._min_bytes, request._max_wait_ms = 1, max(LONGEST_MS, usual_ms)
            else:
                request._max_wait_ms = self._to_checkpoint_ms(usual_ms)
            more = _with_more(fetcher, assignment, broker)
            if more:
                # The rest of a backlog need not be collected: it is there, however small.
                request._min_bytes = 1
                if more - _asked_for(request):
                    # A broker serves one request of ours at a time: partitions that were left out, because their buffer
                    # is full or others of their shard come first, could not be requested until this one, of idle
                    # partitions, is answered.
                    request._max_wait_ms = _SHORTEST_MS
            # An earlier tick must find a recent response.
            request._max_wait_ms = min(request._max_wait_ms, self._to_tick_ms())
            began_s = self._monotonic_s()
            brought = await send(assignment, broker, request)
            # An error response comes immediately, and must not be repeated immediately.
            whole = (self._monotonic_s() - began_s) * 2_000 > request._max_wait_ms
            self._empty[broker] = empty + 1 if whole and not brought else 0
            return brought

        fetcher._proc_fetch_request = paced

    def _to_tick_ms(self) -> int:
        return TICK_MS - int(self._now_ms() - _AFTER_TICK_MS) % TICK_MS

    def _to_checkpoint_ms(self, usual_ms: int) -> int:
        """A part of the time until shortly before the next checkpoint, or `usual_ms` if there is none."""
        found = self._checkpoint_in_ms()
        if found is None:
            return usual_ms
        left_ms, every_ms = found
        left_ms -= min(_BEFORE_CHECKPOINT_MS, every_ms // 4)
        if left_ms < _SHORTEST_MS:
            left_ms += every_ms
        return max(-(-left_ms // max(-(-left_ms // (_LONGER * usual_ms)), 1)), 1)
