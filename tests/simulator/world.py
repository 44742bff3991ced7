"""Virtual time and the one queue of everything that happens; what was drawn and done is kept as a trace."""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable
from typing import Any, Final

US: Final = 1_000  # microseconds of a millisecond
#: Where every run begins: 2024-03-10T23:58:03Z, a Sunday: an hour, a day and a week end while it goes on.
EPOCH_MS: Final = 1_710_115_083_000
_EVENTS_AT_MOST: Final = 400_000


class StuckError(AssertionError):
    """The run does not come to its end."""


class World:
    """One run of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        #: Of what runs beside the shards, so that their course stays what it is without.
        self.side = random.Random(~seed)
        self.now_us = 0
        self.running: object = None  # the process whose event loop is the running one
        self.faults: list[str] = []
        self.doubted = False  # whether a worker may have taken an append time for a wrong broker's
        self.ahead_ms = 0  # by which any worker took it to be later than it is
        self.tell: Callable[[str], object] | None = (
            None  # is told all that is noted, if anybody wants to read it
        )
        self._queue: list[tuple[int, int, Callable[..., object], tuple[Any, ...]]] = []
        self._count = 0
        self._events = 0
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def now_ms(self) -> int:
        """The time of the brokers, ms since 1970."""
        return EPOCH_MS + self.now_us // US

    def at(self, when_us: int, call: Callable[..., object], *arguments: Any) -> None:
        """Call at an instant, after everything that was asked for that instant before."""
        self._count += 1
        heapq.heappush(self._queue, (max(when_us, self.now_us), self._count, call, arguments))

    def after(self, delay_ms: float, call: Callable[..., object], *arguments: Any) -> None:
        """Call so much later."""
        self.at(self.now_us + int(delay_ms * US), call, *arguments)

    def run(self, until: Callable[[], bool], limit_ms: int) -> None:
        """Let everything happen until a condition holds; StuckError if it does not by the limit (since 1970)."""
        while not until():
            if not self._queue:
                raise StuckError("nothing is left to happen")
            when_us, _, call, arguments = heapq.heappop(self._queue)
            self.now_us = when_us
            self._events += 1
            if self.now_ms > limit_ms or self._events > _EVENTS_AT_MOST:
                raise StuckError(f"still not done after {self._events} events and {self.now_us / 1e6:.0f} s")
            call(*arguments)

    def pause(self, low_ms: float, high_ms: float) -> float:
        """A delay, mostly near the lower bound."""
        return low_ms + (high_ms - low_ms) * self.rng.random() ** 3

    def chance(self, share: float) -> bool:
        """Whether something happens that happens in this share of cases."""
        return share > 0 and self.rng.random() < share

    def note(self, *words: object) -> None:
        """Something happened."""
        self._hash.update(f"{self.now_us} {words}\n".encode())
        if self.tell is not None:
            self.tell(f"{self.now_us / 1e6:9.3f} s  {' '.join(map(str, words))}")

    def note_ahead(self, believed_ms: int) -> None:
        """A worker takes it to be this late, and may judge ticks up to then."""
        self.ahead_ms = max(self.ahead_ms, believed_ms - self.now_ms)

    def fault(self, *words: object) -> None:
        """A fault was injected."""
        self.note("fault", *words)
        self.faults.append(f"{self.now_us / 1e6:9.3f} s  {' '.join(map(str, words))}")

    @property
    def digest(self) -> str:
        """A hash of all that was noted."""
        return self._hash.hexdigest()
