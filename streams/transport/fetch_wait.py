"""Sets how long a broker may hold a fetch: no longer than until the next tick or checkpoint needs the records.

Every answer costs about the same, full or empty, and what is read between two checkpoints waits for the next one.
Of a log of which more is known to be there nothing is gathered.

It must not look at records; it sets two fields of requests on their way, in the consumer thread. Its names are in tests/transport/pins.py.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from aiokafka import TopicPartition

from streams.engine.shard.sequencer import TICK_MS

#: So many empty answers in a row, each after the whole wait, make a broker quiet.
QUIET_ANSWERS: Final = 4
#: An answer says that all is read, and with that a tick may be judged; health wants to know as well.
LONGEST_MS: Final = 2_000
#: An answer so long after a tick is known to be later than every record before it.
_AFTER_TICK_MS: Final = 120
#: An answer so long before a checkpoint is folded by then.
_BEFORE_CHECKPOINT_MS: Final = 80
_SHORTEST_MS: Final = 40
#: One answer for each checkpoint of the usual pace: each is folded by itself, shard by shard, however little it brings.
_LONGER: Final = 5


def _with_more(fetcher: Any, assignment: Any, broker: Any) -> set[TopicPartition]:
    """Our partitions of a broker that had records behind our position as of their last answer, or had none yet."""
    found = set()
    for tp in assignment.tps:
        state = assignment.state_value(tp)
        if state is None or fetcher._select_read_replica(tp) != broker or not state.has_valid_position:
            continue  # it is sought or asked for first
        if state.highwater is None or state.position < readable_end(state):
            found.add(tp)
    return found


def readable_end(state: Any) -> int:
    """Of a partition as of its last answer: what stands behind an open transaction cannot be read yet."""
    return int(state.highwater if state.lso is None else min(state.highwater, state.lso))


def _asked_for(request: Any) -> set[TopicPartition]:
    return {TopicPartition(topic, each[0]) for topic, partitions in request.topics for each in partitions}


class OtherPartitionsError(Exception):
    """Ends a wait for records of partitions that are no longer those that are ours."""


def finish_waits(fetcher: Any) -> None:
    """Whoever waits for records waits for those of the partitions before."""
    for waiter in list(fetcher._fetch_waiters):
        if not waiter.done():
            waiter.set_exception(OtherPartitionsError())


class FetchWait:
    """Of one consumer.  A fetch from a quiet broker is answered by the first record; from then on they are gathered."""

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
        self._empty: dict[object, int] = {}  # by broker: empty answers since the last other one

    def watch(self, fetcher: Any) -> None:
        """Set the waits of all fetches from now on."""
        send: Callable[[Any, Any, Any], Awaitable[bool]] = fetcher._proc_fetch_request

        async def paced(assignment: Any, broker: Any, request: Any) -> bool:
            if assignment is not self._assignment:
                # The first fetch may be of a few partitions only, and holds up the others.
                self._assignment, self._empty = assignment, {}
            empty = self._empty.get(broker, 0)
            usual_ms = request._max_wait_ms
            if empty >= QUIET_ANSWERS:
                request._min_bytes, request._max_wait_ms = 1, max(LONGEST_MS, usual_ms)
            else:
                request._max_wait_ms = self._to_checkpoint_ms(usual_ms)
            more = _with_more(fetcher, assignment, broker)
            if more:
                # What is left of a log is nothing to gather: it is there, however little.
                request._min_bytes = 1
                if more - _asked_for(request):
                    # A broker has one request of ours at a time: what was left out, for its buffer is full or others of
                    # its shard are to come first, could not be asked for until the others, which have nothing, answer.
                    request._max_wait_ms = _SHORTEST_MS
            # A tick that comes before is to find an answer that is not old.
            request._max_wait_ms = min(request._max_wait_ms, self._to_tick_ms())
            began_s = self._monotonic_s()
            brought = await send(assignment, broker, request)
            # A refusal comes at once, and must not be asked for again and again at once.
            whole = (self._monotonic_s() - began_s) * 2_000 > request._max_wait_ms
            self._empty[broker] = empty + 1 if whole and not brought else 0
            return brought

        fetcher._proc_fetch_request = paced

    def _to_tick_ms(self) -> int:
        return TICK_MS - int(self._now_ms() - _AFTER_TICK_MS) % TICK_MS

    def _to_checkpoint_ms(self, usual_ms: int) -> int:
        """A part of the time up to shortly before the next checkpoint, or as usual where there is none."""
        found = self._checkpoint_in_ms()
        if found is None:
            return usual_ms
        left_ms, every_ms = found
        left_ms -= min(_BEFORE_CHECKPOINT_MS, every_ms // 4)
        if left_ms < _SHORTEST_MS:
            left_ms += every_ms
        return max(-(-left_ms // max(-(-left_ms // (_LONGER * usual_ms)), 1)), 1)
