"""What a budget's subject has used, by minute: sums, the first minute of a crossing, and the rate of the last hour.

Amounts are integers in the order of `Amounts`; a minute counts when it is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.budgets import Limits
from streams.engine.ledger_rules.periods import CalendarPeriod


class Amounts(NamedTuple):
    """Dollars in nano, GPU-time in thousandths of a GPU times ms, wall-clock time in ms."""

    usd_nano: int = 0
    gpu_milli_ms: int = 0
    wall_clock_ms: int = 0


def limits_of(limits: Limits) -> tuple[int | None, ...]:
    """The limits in the order of `Amounts`."""
    return limits.usd_nano, limits.gpu_milli_ms, limits.wall_clock_ms


def used_ratio(used: Sequence[int], limits: Limits) -> float:
    """The largest share of a limit that is used."""
    pairs = zip(used, limits_of(limits), strict=True)
    return max((amount / limit for amount, limit in pairs if limit), default=0.0)


class EarlierHours(NamedTuple):
    """Use by hour: `hour_ms`: [n] int64, starts of hours, ascending. `amounts`: [3, n] int64."""

    hour_ms: NDArray[np.int64] = np.empty(0, np.int64)
    amounts: NDArray[np.int64] = np.empty((3, 0), np.int64)


NO_HOURS: Final = EarlierHours()


@dataclass(frozen=True)
class Usage:
    """Use by minute from `from_ms`, a whole hour, on.

    `before`: what was used until then in the period that contains `from_ms`. `minute_ms`: [n] int64, starts of minutes,
    ascending. `amounts`: [3, n] int64. `earlier`: hours before `from_ms`, as many as a forecast looks at.
    """

    from_ms: int
    before: Amounts
    minute_ms: NDArray[np.int64]
    amounts: NDArray[np.int64]
    earlier: EarlierHours = NO_HOURS

    @classmethod
    def together(cls, parts: Sequence[Usage]) -> Usage:
        """What the jobs of a run used together, each from the same instant on; of a run no earlier hours are looked at."""
        if len(parts) == 1:
            return parts[0]
        minute_ms = np.unique(np.concatenate([each.minute_ms for each in parts]))
        amounts = np.zeros((3, len(minute_ms)), np.int64)
        for each in parts:
            amounts[:, np.searchsorted(minute_ms, each.minute_ms)] += each.amounts
        before = Amounts(*(sum(used) for used in zip(*(each.before for each in parts), strict=True)))
        return cls(parts[0].from_ms, before, minute_ms, amounts)

    @cached_property
    def _sums(self) -> NDArray[np.int64]:
        """[3, n + 1]: sums of the first minutes."""
        return np.concatenate([np.zeros((3, 1), np.int64), np.cumsum(self.amounts, axis=1)], axis=1)

    def _place(self, at_ms: int | NDArray[np.int64]) -> NDArray[np.intp]:
        """How many minutes began before each instant; whole minutes only are asked for."""
        return np.asarray(np.searchsorted(self.minute_ms, at_ms, side="left"))

    def used(self, period: CalendarPeriod, at_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """What is used in the period at whole minutes, [3, len(at_ms)]."""
        sums = self._sums
        first = int(self._place(period.start_ms))
        found = sums[:, self._place(at_ms)] - sums[:, [first]]
        if period.start_ms <= self.from_ms:
            found = found + np.array(self.before, np.int64)[:, None]
        return np.asarray(np.maximum(found, 0))

    def used_at(self, period: CalendarPeriod, at_ms: int) -> Amounts:
        """What is used in the period at a whole minute."""
        return Amounts(*(int(each) for each in self.used(period, np.array([at_ms], np.int64))[:, 0]))

    def by_hour(self, from_ms: int, until_ms: int) -> NDArray[np.int64]:
        """What was used in each of these whole hours, [3, n]."""
        edges_ms = np.arange(max(self.from_ms, from_ms), until_ms + 1, HOUR_MS, dtype=np.int64)
        found = np.zeros((3, (until_ms - from_ms) // HOUR_MS), np.int64)
        if len(edges_ms) > 1:
            found[:, found.shape[1] - len(edges_ms) + 1 :] = np.diff(self._sums[:, self._place(edges_ms)])
        hour_ms, amounts = self.earlier
        inside = slice(*np.searchsorted(hour_ms, [from_ms, min(self.from_ms, until_ms)]))
        found[:, (hour_ms[inside] - from_ms) // HOUR_MS] = amounts[:, inside]
        return found

    def per_hour(self, at_ms: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rates per hour of the hour before whole minutes, [3, len(at_ms)]; of the time since the first use in it.

        What lies before `from_ms` is not known.
        """
        sums = self._sums
        first = self._place(at_ms - HOUR_MS)
        used = sums[:, self._place(at_ms)] - sums[:, first]
        if not len(self.minute_ms):
            return np.asarray(used)
        first_ms = self.minute_ms[np.minimum(first, len(self.minute_ms) - 1)]
        since_ms = np.clip(at_ms - first_ms, MINUTE_MS, HOUR_MS)
        # In whole numbers, and without a product that 64 bits do not hold.
        whole, rest = np.divmod(used, since_ms)
        return np.asarray(whole * HOUR_MS + rest * (HOUR_MS // 1000) // (np.maximum(since_ms // 1000, 1)))

    def per_hour_at(self, at_ms: int) -> Amounts:
        """What was used in the hour before a whole minute."""
        return Amounts(*(int(each) for each in self.per_hour(np.array([at_ms], np.int64))[:, 0]))

    def reached(
        self, period: CalendarPeriod, limits: Limits, at_ms: NDArray[np.int64], percents: Sequence[int]
    ) -> NDArray[np.bool_]:
        """Whether so many percent of a limit are used in the period at whole minutes, [len(percents), len(at_ms)]."""
        used = self.used(period, at_ms)
        found = np.zeros((len(percents), len(at_ms)), np.bool_)
        for amounts, limit in zip(used, limits_of(limits), strict=True):
            if limit is not None:
                least = np.array([-(-limit * percent // 100) for percent in percents], np.int64)
                found |= amounts >= least[:, None]
        return found
