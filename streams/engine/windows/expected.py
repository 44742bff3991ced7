"""The expected rate of a job at each instant: planned, declared or quoted, in this order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

_from: Final = itemgetter(0)
_until: Final = itemgetter(1)


class Expected:
    """A step function of time, in nano-dollars per hour; it costs nothing to make, however much was declared."""

    __slots__ = ("_declared", "_planned", "quoted_nano_per_hour")

    def __init__(
        self,
        declared: Sequence[tuple[int, int]],
        planned: Sequence[tuple[int, int, int]],
        quoted_nano_per_hour: float,
    ) -> None:
        """`declared` (time_ms, rate) and `planned` (from_ms, until_ms, rate; disjoint) ascend in time.

        Of equal times the last one counts.
        """
        self._declared = declared
        self._planned = planned
        self.quoted_nano_per_hour = quoted_nano_per_hour

    def at(self, at_ms: int) -> float:
        """The expected rate at one instant."""
        position = bisect_right(self._planned, at_ms, key=_from) - 1
        if position >= 0 and at_ms < self._planned[position][1]:
            return float(self._planned[position][2])
        position = bisect_right(self._declared, at_ms, key=_from) - 1
        return float(self._declared[position][1]) if position >= 0 else self.quoted_nano_per_hour

    def constant(self, from_ms: int, until_ms: int) -> float | None:
        """The rate in [from, until); None if it changes there."""
        pieces = self.between(from_ms, until_ms)
        return pieces[0][1] if len(pieces) == 1 else None

    def between(self, from_ms: int, until_ms: int) -> list[tuple[int, float]]:
        """(from_ms, rate) of the pieces of [from, until)."""
        if not self._declared and not self._planned:
            return [(from_ms, self.quoted_nano_per_hour)]
        cuts_ms = {from_ms}
        for steps, of_step in ((self._declared, _from), (self._planned, _from), (self._planned, _until)):
            first = bisect_right(steps, from_ms, key=of_step)
            cuts_ms.update(map(of_step, steps[first : bisect_left(steps, until_ms, first, key=of_step)]))
        return [(at_ms, self.at(at_ms)) for at_ms in sorted(cuts_ms)]
