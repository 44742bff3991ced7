"""Schedules due messages: a fair share of concurrent attempts per receiver, with some reserved for pages."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from streams.notify.delivery import Delivery

#: A receiver that takes this long gets one slot, until it answers faster.
SLOW_MS: Final = 2_000
_SLOW_KEPT: Final = 10_000
# The rank of an attempt among those of its receiver in flight.
_FIRST, _EXTRA, _SLOW = range(3)
_RANKS: Final = 3


class StartRate:
    """How many attempts may start: `per_s` at once, and as many each second after that; None: any number.

    Thousands of alerts at one tick would otherwise take the event loop's time from metering until all are sent.
    """

    def __init__(self, per_s: int | None) -> None:
        self._per_s = per_s
        self._milli = 1_000 * (per_s or 0)  # starts that are left, in thousandths
        self._at_ms = 0

    def is_free(self, now_ms: int) -> bool:
        """Whether an attempt may start."""
        if self._per_s is None:
            return True
        passed_ms = max(now_ms - self._at_ms, 0)
        self._milli = min(self._milli + passed_ms * self._per_s, 1_000 * self._per_s)
        self._at_ms = now_ms
        return self._milli >= 1_000

    def take(self) -> None:
        """Record a start."""
        self._milli -= 1_000

    @property
    def free_ms(self) -> int | None:
        """Return when the next attempt may start (monotonic ms); None: now."""
        if self._per_s is None or self._milli >= 1_000:
            return None
        return self._at_ms - (self._milli - 1_000) // self._per_s


class AttemptSlots:
    """Due messages and attempts in flight.

    Pages come first, and receivers take turns among equal messages. So that a page to a healthy receiver always finds a
    slot, each of these may use only part of the slots: messages that are no pages; second and further attempts at one
    receiver; attempts at receivers that were slow.
    """

    def __init__(self, at_most: int, per_receiver: int, starts_per_s: int | None = None) -> None:
        self._at_most = at_most
        self._starts = StartRate(starts_per_s)
        self._per_receiver = per_receiver
        self._others_at_most = max(at_most * 3 // 8, 1)
        self._rank_at_most = (at_most, max(at_most // 4, 1), max(at_most // 8, 1))
        self._due: dict[str, tuple[deque[Delivery], deque[Delivery]]] = {}  # by host: pages, others
        # Hosts that may start, by the lane of their next message: ranks of pages, then those of others.
        self._lines: tuple[dict[str, None], ...] = tuple({} for _ in range(2 * _RANKS))
        self._lane_of: dict[str, int] = {}
        self._flights: dict[str, dict[Delivery, tuple[int, int]]] = {}  # by host: lane, start
        self._counts = [0] * len(self._lines)
        self._slow: dict[str, None] = {}  # hosts, the most recent last

    @property
    def in_flight(self) -> int:
        """The attempts in flight."""
        return sum(self._counts)

    def is_in_flight(self, delivery: Delivery) -> bool:
        """Whether an attempt of the delivery is in flight."""
        return delivery in self._flights.get(delivery.host, ())

    def is_slow(self, host: str) -> bool:
        """Whether the last attempt at the host was slow."""
        return host in self._slow

    def next_start_ms(self) -> int | None:
        """Return when an attempt may start that waits only for its turn of the rate; None: none does."""
        waits = any(line and self._is_free(lane) for lane, line in enumerate(self._lines))
        return self._starts.free_ms if waits else None

    def add(self, delivery: Delivery) -> None:
        """Add a due delivery."""
        self._due.setdefault(delivery.host, (deque(), deque()))[not delivery.is_page].append(delivery)
        self._line_up(delivery.host)

    def pop_due(self, now_ms: int) -> list[Delivery]:
        """The deliveries to attempt now; each must be returned by `finish`."""
        taken: list[Delivery] = []
        for lane, line in enumerate(self._lines):
            while line and self._is_free(lane) and self._starts.is_free(now_ms):
                host = next(iter(line))
                if lane % _RANKS == _EXTRA and self._hangs(host, now_ms):
                    self._leave(host)  # until an attempt at it ends
                    continue
                delivery = self._due[host][lane >= _RANKS].popleft()
                self._flights.setdefault(host, {})[delivery] = lane, now_ms
                self._counts[lane] += 1
                self._starts.take()
                taken.append(delivery)
                self._leave(host)
                self._line_up(host)
        return taken

    def finish(self, delivery: Delivery, now_ms: int) -> None:
        """Free the slot of an ended attempt."""
        host = delivery.host
        lane, began_ms = self._flights[host].pop(delivery)
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
        """Drop all other deliveries; attempts in flight continue."""
        for host, (pages, others) in list(self._due.items()):
            self._due[host] = deque(filter(kept, pages)), deque(filter(kept, others))
            self._line_up(host)

    def _is_free(self, lane: int) -> bool:
        rank = lane % _RANKS
        counts = self._counts
        of_rank = self.in_flight if rank == _FIRST else counts[rank] + counts[rank + _RANKS]
        if self.in_flight >= self._at_most or of_rank >= self._rank_at_most[rank]:
            return False
        return lane < _RANKS or sum(counts[_RANKS:]) < self._others_at_most

    def _hangs(self, host: str, now_ms: int) -> bool:
        return any(now_ms - began_ms >= SLOW_MS for _, began_ms in self._flights[host].values())

    def _line_up(self, host: str) -> None:
        """Move the host to the lane of its next message; it keeps its turn if the lane is the same."""
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
