"""What the amounts of a job cost by minute, as its curve needs it: each amount is priced once, when it is new or its price is.

It reads what the amounts are; what else the job costs is not known here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from schemas.durations import MINUTE_MS
from streams.engine.kernels.bill import MAX_COST_NANO, cost_of
from streams.engine.kernels.burn import REPORTED_WITHIN_MS
from streams.engine.kernels.conditions import START_MS
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.context import Payer
from streams.engine.state.attempt import AttemptState
from streams.engine.state.job import JobState
from streams.engine.timeline.intervals import union
from streams.engine.timeline.lines import Line

#: Up to here all whole numbers are floats.
_EXACT: Final = 2.0**53


class _Start(NamedTuple):
    """What traffic cost before a minute."""

    end_minute: int
    nano: float


@dataclass(slots=True)
class JobAmounts:
    """Costs of amounts by (attempt, minute) in nano-dollars, as far as windows may need them.

    `unpriced`: the first instant of amounts without a price, by attempt.
    """

    unpriced: dict[int, int] = field(default_factory=dict)
    until_ms: int = 0  # the end of the newest minute with amounts, also of those that cost nothing
    _costs: dict[tuple[int, int], float] = field(default_factory=dict)
    _since_minute: int = 0  # costs of earlier minutes may be missing
    _start: _Start | None = None  # the traffic of its start; None: unknown, or there may be more

    def __bool__(self) -> bool:
        return bool(self._costs)

    def add(
        self, attempt: AttemptState, book: PriceBook, payer: Payer, since_ms: int, *, repriced: bool
    ) -> None:
        """Price the new amounts of an attempt, or all of them again; drop what was reported long before `since_ms`."""
        fresh, attempt.fresh_traffic = attempt.fresh_traffic, []
        if repriced:
            self._start = None
            self.unpriced.pop(attempt.number, None)
            if len(attempt.traffic):
                fresh = [attempt.traffic.all_minutes()]
        first = self._since_minute = max(self._since_minute, (since_ms - REPORTED_WITHIN_MS) // MINUTE_MS)
        for key in [key for key in self._costs if key[1] < first]:
            del self._costs[key]
        if not fresh:
            return
        if self._start is not None and min(lo for lo, _ in fresh) < self._start.end_minute:
            self._start = None
        for minute, rows in attempt.traffic.rows(union(fresh), book, payer, ()).items():
            if not all(line.price.sku for line in rows):
                at_ms = minute * MINUTE_MS
                self.unpriced[attempt.number] = min(self.unpriced.get(attempt.number, at_ms), at_ms)
            if minute >= first:
                self._costs[attempt.number, minute] = float(_billed_nano(rows))
                self.until_ms = max(self.until_ms, (minute + 1) * MINUTE_MS)

    def by_minute(self) -> dict[int, float]:
        """The costs by minute, all attempts together."""
        total: dict[int, float] = {}
        for (_, minute), cost in self._costs.items():
            total[minute] = total.get(minute, 0.0) + cost
        return total

    def start_nano(self, job: JobState, book: PriceBook, payer: Payer, first_paid_ms: int) -> float:
        """What amounts cost in the first paid hour and before, by minutes that began then."""
        end_minute = 0 if first_paid_ms < 0 else -(-(first_paid_ms + START_MS) // MINUTE_MS)
        if self._start is None or self._start.end_minute != end_minute:
            self._start = _Start(end_minute, self._before(end_minute, job, book, payer))
        return self._start.nano

    def _before(self, end_minute: int, job: JobState, book: PriceBook, payer: Payer) -> float:
        """What all amounts before a minute cost; of a job that began lately their costs are known."""
        traffic = [attempt.traffic for attempt in job.with_usage.values() if len(attempt.traffic)]
        if all(each.all_minutes()[0] >= self._since_minute for each in traffic):
            known = sum(cost for (_, minute), cost in self._costs.items() if minute < end_minute)
            if known < _EXACT:
                return known
        total_nano = 0
        for each in traffic:
            span = each.all_minutes()[0], end_minute
            if span[0] < end_minute:
                rows = each.rows([span], book, payer, ())
                total_nano += sum(map(_billed_nano, rows.values()))
        return float(total_nano)


def _billed_nano(rows: Mapping[Line, tuple[int, int]]) -> int:
    """Return what a minute's amounts cost as the ledger bills them.

    At a job's first ms, half a nano-dollar would show as 1,800,000 an hour.
    """
    return sum(
        min(cost_of(quantity, line.price.usd_nano, line.price.divisor), MAX_COST_NANO)
        for line, (quantity, _) in rows.items()
    )
