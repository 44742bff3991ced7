"""Reads what was expected of jobs when alerts about what they burn opened: what was above it was wasted.

The row of an alert goes on with its figures, and what is kept of its opening is what the job paid; the expected rate of then is
that of the job's tick in `burn_rates`. All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from schemas.column_types import MILLI
from schemas.columns import rows_of, times_as_integers
from schemas.durations import MINUTE_MS
from schemas.tables import BURN_RATES
from schemas.units import nano_of_usd
from sinks.rows import Condition, Rows
from streams.notify.history import pieces

_KEPT_AT_MOST: Final = 10_000


class JobInstant(NamedTuple):
    """A job at an instant."""

    job_id: str
    at_ms: int


class OpeningRates:
    """Call `expected` for the openings of alerts; what was read is kept, as it does not change."""

    def __init__(self, store: Rows) -> None:
        self._store = store
        self._known: OrderedDict[JobInstant, int] = OrderedDict()

    def expected(self, openings: Iterable[JobInstant]) -> dict[JobInstant, int]:
        """What was expected of each job per hour at that instant, in nano-dollars; of one without a row nothing is known."""
        asked = set(openings)
        by_minute: dict[int, list[JobInstant]] = {}
        for each in sorted(asked - self._known.keys()):
            by_minute.setdefault(each.at_ms // MINUTE_MS * MINUTE_MS, []).append(each)
        for minute_ms, of_minute in by_minute.items():
            self._known.update(self._read(minute_ms, of_minute))
        found = {each: self._known[each] for each in asked if each in self._known}
        while len(self._known) > _KEPT_AT_MOST:
            self._known.popitem(last=False)
        return found

    def _read(self, minute_ms: int, openings: list[JobInstant]) -> Iterator[tuple[JobInstant, int]]:
        """Yield the rates as of these openings within a minute: each job has a row at its beginning, and one at each change."""
        rates: dict[str, list[tuple[int, int]]] = {}
        for some in pieces(sorted({each.job_id for each in openings})):
            where = [
                Condition("job_id", "in", some),
                Condition("time", ">=", minute_ms),
                Condition("time", "<", minute_ms + MINUTE_MS),
            ]
            page = self._store.select(BURN_RATES, where, ("job_id", "time", "expected_usd_per_hour"))
            for row in rows_of(times_as_integers(page, {"time": MILLI})):
                rate = row["time"], nano_of_usd(row["expected_usd_per_hour"])
                rates.setdefault(row["job_id"], []).append(rate)
        for each in openings:
            until = [rate for rate in rates.get(each.job_id, ()) if rate[0] <= each.at_ms]
            if until:
                yield each, max(until)[1]
