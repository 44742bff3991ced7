"""Reads what was expected of jobs when alerts about what they burn opened: what was above it was wasted.

The row of an alert goes on with its figures, and what is kept of its opening is what the job paid; the expected rate of then is
that of the job's tick in `burn_rates`. All calls block, so they belong in a thread.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from schemas.columns import rows_of
from schemas.durations import MINUTE_MS
from sinks.port import Store
from streams.notify.history import pieces

_KEPT_AT_MOST: Final = 10_000
#: Each job has a row at the beginning of a minute, and one at each change in it.
_RATES: Final = """
SELECT job_id, toUnixTimestamp64Milli(time) AS at_ms, toInt64(toDecimal128(expected_usd_per_hour, 9) * 1000000000) AS nano
FROM burn_rates FINAL
PREWHERE job_id IN {jobs:Array(String)}
    AND time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND time < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
    AND (job_id, intDiv(toUnixTimestamp64Milli(time), 60000)) IN (
        SELECT pair.1, pair.2 FROM (SELECT arrayJoin(arrayZip({jobs:Array(String)}, {minutes:Array(Int64)})) AS pair))"""


class JobInstant(NamedTuple):
    """A job at an instant."""

    job_id: str
    at_ms: int


class OpeningRates:
    """Call `expected` for the openings of alerts; what was read is kept, as it does not change."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: OrderedDict[JobInstant, int] = OrderedDict()

    def expected(self, openings: Iterable[JobInstant]) -> dict[JobInstant, int]:
        """What was expected of each job per hour at that instant, in nano-dollars; of one without a row nothing is known."""
        asked = set(openings)
        # In order of time, so that each statement is about a short span.
        fresh = sorted(asked - self._known.keys(), key=lambda each: (each.at_ms, each.job_id))
        begin = 0
        for some in pieces([each.job_id for each in fresh]):
            self._known.update(self._read(fresh[begin : begin + len(some)]))
            begin += len(some)
        found = {each: self._known[each] for each in asked if each in self._known}
        while len(self._known) > _KEPT_AT_MOST:
            self._known.popitem(last=False)
        return found

    def _read(self, openings: Sequence[JobInstant]) -> Iterator[tuple[JobInstant, int]]:
        """Yield the rates as of these openings, in order of time, each by the rows of its minute."""
        minutes = [each.at_ms // MINUTE_MS for each in openings]
        bound = {
            "jobs": [each.job_id for each in openings],
            "minutes": minutes,
            "from_ms": minutes[0] * MINUTE_MS,
            "to_ms": (minutes[-1] + 1) * MINUTE_MS,
        }
        rates: dict[tuple[str, int], list[tuple[int, int]]] = {}
        for row in rows_of(self._store.query(_RATES, bound)):
            rate = row["at_ms"], row["nano"]
            rates.setdefault((row["job_id"], row["at_ms"] // MINUTE_MS), []).append(rate)
        for each, minute in zip(openings, minutes, strict=True):
            until = [rate for rate in rates.get((each.job_id, minute), ()) if rate[0] <= each.at_ms]
            if until:
                yield each, max(until)[1]
