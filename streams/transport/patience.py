"""How long a broker may keep a fetch: where nothing comes, until something does, as an empty answer costs as much.

It must not look at records; it sets two fields of requests on their way, in the consumer thread. Its names are in `pins`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any, Final

from streams.pipeline.align import TICK_MS

#: So many empty answers in a row, each after the whole wait, make a broker quiet.
QUIET_ANSWERS: Final = 4
#: An answer says that all is read, and with that a tick may be judged; health wants to know as well.
LONGEST_MS: Final = 2_000
#: An answer so long after a tick is known to be later than every record before it.
_AFTER_TICK_MS: Final = 120


class OtherPartitionsError(Exception):
    """Ends a wait for records of partitions that are no longer those that are ours."""


def end_waits(fetcher: Any) -> None:
    """Whoever waits for records waits for those of the partitions before."""
    for waiter in list(fetcher._fetch_waiters):
        if not waiter.done():
            waiter.set_exception(OtherPartitionsError())


class Patience:
    """Of one consumer.  A fetch from a quiet broker is answered by the first record; from then on they are gathered."""

    def __init__(
        self,
        now_ms: Callable[[], float] = lambda: time.time() * 1000,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
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
            if empty >= QUIET_ANSWERS:
                request._min_bytes, request._max_wait_ms = 1, self._wait_ms(request._max_wait_ms)
            began_s = self._monotonic_s()
            brought = await send(assignment, broker, request)
            # A refusal comes at once, and must not be asked for again and again at once.
            whole = (self._monotonic_s() - began_s) * 2_000 > request._max_wait_ms
            self._empty[broker] = empty + 1 if whole and not brought else 0
            return brought

        fetcher._proc_fetch_request = paced

    def _wait_ms(self, usual_ms: int) -> int:
        """As long as may be, but a tick that comes before is to find an answer that is not old."""
        to_tick_ms = TICK_MS - int(self._now_ms() - _AFTER_TICK_MS) % TICK_MS
        return min(max(LONGEST_MS, usual_ms), to_tick_ms)
