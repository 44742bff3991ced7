"""Schedules due messages: a fair share of concurrent attempts per receiver, with some reserved for pages.

It must not send anything or read a clock: every instant is handed in (monotonic ms).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from streams.notify.delivery import Delivery

#: A receiver that takes so long holds one slot, until it answers sooner.
SLOW_MS: Final = 2_000
_SLOW_KEPT: Final = 10_000
# What a receiver's attempt is, beside those of it that are under way.
_FIRST, _EXTRA, _SLOW = range(3)
_RANKS: Final = 3


class AttemptSlots:
    """Messages that are due, and the attempts under way.

    Pages go before all else, and of equal messages the receivers take turns. So that there is always a slot for a page to
    a receiver that answers, each of these holds a part of the slots at most: messages that are no page; second and further
    attempts at a receiver; attempts at receivers that were slow.
    """

    def __init__(self, at_most: int, per_receiver: int) -> None:
        self._at_most = at_most
        self._per_receiver = per_receiver
        self._others_at_most = max(at_most * 3 // 8, 1)
        self._rank_at_most = (at_most, max(at_most // 4, 1), max(at_most // 8, 1))
        self._due: dict[str, tuple[deque[Delivery], deque[Delivery]]] = {}  # by host: pages, others
        # Hosts that may go, by the lane of their next message: ranks of pages, then those of others.
        self._lines: tuple[dict[str, None], ...] = tuple({} for _ in range(2 * _RANKS))
        self._lane_of: dict[str, int] = {}
        self._flights: dict[str, dict[Delivery, tuple[int, int]]] = {}  # by host: lane, start
        self._counts = [0] * len(self._lines)
        self._slow: dict[str, None] = {}  # hosts, the latest last

    @property
    def flying(self) -> int:
        """Attempts under way."""
        return sum(self._counts)

    def flies(self, parcel: Delivery) -> bool:
        """Whether an attempt at it is under way."""
        return parcel in self._flights.get(parcel.host, ())

    def is_slow(self, host: str) -> bool:
        """Whether the last attempt at it took long."""
        return host in self._slow

    def add(self, parcel: Delivery) -> None:
        """Its instant has come."""
        self._due.setdefault(parcel.host, (deque(), deque()))[not parcel.is_page].append(parcel)
        self._line_up(parcel.host)

    def pop_due(self, now_ms: int) -> list[Delivery]:
        """What to attempt now; each must come back by `land`."""
        taken: list[Delivery] = []
        for lane, line in enumerate(self._lines):
            while line and self._is_free(lane):
                host = next(iter(line))
                if lane % _RANKS == _EXTRA and self._hangs(host, now_ms):
                    self._leave(host)  # until an attempt at it lands
                    continue
                parcel = self._due[host][lane >= _RANKS].popleft()
                self._flights.setdefault(host, {})[parcel] = lane, now_ms
                self._counts[lane] += 1
                taken.append(parcel)
                self._leave(host)
                self._line_up(host)
        return taken

    def land(self, parcel: Delivery, now_ms: int) -> None:
        """Its attempt is over."""
        host = parcel.host
        lane, began_ms = self._flights[host].pop(parcel)
        self._counts[lane] -= 1
        if not self._flights[host]:
            del self._flights[host]
        self._slow.pop(host, None)
        if now_ms - began_ms >= SLOW_MS:
            self._slow[host] = None
            if len(self._slow) > _SLOW_KEPT:
                del self._slow[next(iter(self._slow))]
        self._line_up(host)

    def retain(self, kept: Callable[[Delivery], bool]) -> None:
        """Forget the others; attempts under way go on."""
        for host, (pages, others) in list(self._due.items()):
            self._due[host] = deque(filter(kept, pages)), deque(filter(kept, others))
            self._line_up(host)

    def _is_free(self, lane: int) -> bool:
        rank = lane % _RANKS
        counts = self._counts
        of_rank = self.flying if rank == _FIRST else counts[rank] + counts[rank + _RANKS]
        if self.flying >= self._at_most or of_rank >= self._rank_at_most[rank]:
            return False
        return lane < _RANKS or sum(counts[_RANKS:]) < self._others_at_most

    def _hangs(self, host: str, now_ms: int) -> bool:
        return any(now_ms - began_ms >= SLOW_MS for _, began_ms in self._flights[host].values())

    def _line_up(self, host: str) -> None:
        """Put the host where its next message belongs; it keeps its turn if that is where it is."""
        lane = self._lane(host)
        if lane is None:
            self._leave(host)
        elif lane != self._lane_of.get(host):
            self._leave(host)
            self._lines[lane][host] = None
            self._lane_of[host] = lane

    def _leave(self, host: str) -> None:
        lane = self._lane_of.pop(host, None)
        if lane is not None:
            del self._lines[lane][host]

    def _lane(self, host: str) -> int | None:
        pages, others = self._due.get(host, ((), ()))
        if not pages and not others:
            self._due.pop(host, None)
            return None
        under_way, slow = len(self._flights.get(host, ())), host in self._slow
        if under_way >= (1 if slow else self._per_receiver):
            return None
        rank = _SLOW if slow else _EXTRA if under_way else _FIRST
        return rank if pages else _RANKS + rank
