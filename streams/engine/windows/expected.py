"""The expected rate of a job at each instant: planned, declared or quoted, in this order."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence


class Expected:
    """A step function of time, in nano-dollars per hour."""

    __slots__ = ("_cuts_ms", "_declared", "_declared_ms", "_planned", "_planned_ms", "_quoted")

    def __init__(
        self,
        declared: Sequence[tuple[int, int]],
        planned: Sequence[tuple[int, int, int]],
        quoted_nano_per_hour: float,
    ) -> None:
        """`declared` (time_ms, rate) in the order of its events; `planned` (from_ms, until_ms, rate) disjoint."""
        # Of equal times the last one counts, and sorting is stable.
        self._declared = sorted(declared, key=_first)
        self._planned = sorted(planned, key=_first)
        self._declared_ms = [entry[0] for entry in self._declared]
        self._planned_ms = [entry[0] for entry in self._planned]
        self._quoted = quoted_nano_per_hour
        ends_ms = (entry[1] for entry in self._planned)
        self._cuts_ms = sorted({*self._declared_ms, *self._planned_ms, *ends_ms})

    def at(self, at_ms: int) -> float:
        """The expected rate at one instant."""
        position = bisect_right(self._planned_ms, at_ms) - 1
        if position >= 0 and at_ms < self._planned[position][1]:
            return float(self._planned[position][2])
        position = bisect_right(self._declared_ms, at_ms) - 1
        return float(self._declared[position][1]) if position >= 0 else self._quoted

    def constant(self, from_ms: int, until_ms: int) -> float | None:
        """The rate in [from, until); None if it changes there."""
        if not self._cuts_ms:
            return self._quoted
        pieces = self.between(from_ms, until_ms)
        return pieces[0][1] if len(pieces) == 1 else None

    def between(self, from_ms: int, until_ms: int) -> list[tuple[int, float]]:
        """(from_ms, rate) of the pieces of [from, until)."""
        if not self._cuts_ms:
            return [(from_ms, self._quoted)]
        cuts_ms = self._cuts_ms[bisect_right(self._cuts_ms, from_ms) :]
        inside = [from_ms, *(cut_ms for cut_ms in cuts_ms if cut_ms < until_ms)]
        return [(at_ms, self.at(at_ms)) for at_ms in inside]


def _first(entry: tuple[int, ...]) -> int:
    return entry[0]
