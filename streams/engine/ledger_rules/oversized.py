"""The rule `oversized`: a job's first rate against those of similar jobs before it.

Money is integer nano-dollars, so that nothing depends on rounding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.alerts.alert import Alert
from streams.engine.alerts.resolving import resolved
from streams.engine.ledger_rules.fleet_rules import HourFinding, opened
from streams.engine.ledger_rules.similar_jobs import Similarity, similarities_of

#: It is judged at whole five minutes: `RATE_MS` of whole minutes after its first one say its rate.
EVERY_MS: Final = 5 * MINUTE_MS
RATE_MS: Final = 5 * MINUTE_MS
#: Similar jobs that count: the last ones, as long as they began so recently.
HISTORY_JOBS: Final = 200
HISTORY_MS: Final = 30 * 24 * HOUR_MS
#: A factor within which half of the first rates are of their median; beyond this power of it nothing is usual.
SPREADS: Final = 4


class FirstRate(NamedTuple):
    """A job and the rate at which it began: what accrues with time, without traffic."""

    job_id: str
    team: str
    experiment: str
    started_ms: int
    nano_per_hour: int

    @property
    def hour_ms(self) -> int:
        """Return the hour in which it began."""
        return self.started_ms // HOUR_MS * HOUR_MS


class Usual(NamedTuple):
    """The first rates of similar jobs: the median, and how far from it nothing is usual any more."""

    similarity: Similarity
    median: int
    largest: int
    spread: Fraction  # within this factor of the median half of them are

    def exceeded_by(self, rate: int, factor: float) -> bool:
        """Return whether a rate is far above them, and above each of them."""
        least = max(Fraction(str(factor)), self.spread**SPREADS) * self.median
        return self.median > 0 and rate > self.largest and rate >= least


def judged_ms(started_ms: int) -> int:
    """Return when a job is judged: the first whole five minutes by which the minutes of its rate are over."""
    over_ms = started_ms // MINUTE_MS * MINUTE_MS + MINUTE_MS + RATE_MS
    return -(-over_ms // EVERY_MS) * EVERY_MS


class History:
    """First rates by similarity, in the order in which the jobs began."""

    def __init__(self, jobs: Iterable[FirstRate]) -> None:
        self._of: dict[Similarity, list[tuple[int, str, int]]] = {}
        for job in jobs:
            for similarity in similarities_of(job.job_id, job.team, job.experiment):
                self._of.setdefault(similarity, []).append((job.hour_ms, job.job_id, job.nano_per_hour))
        for similar in self._of.values():
            similar.sort()

    def usual(self, job: FirstRate, jobs_least: int) -> Usual | None:
        """Return what is usual for the narrowest similarity with enough jobs that began in hours before the job's; None: of none."""
        for similarity in similarities_of(job.job_id, job.team, job.experiment):
            similar = self._of.get(similarity, [])
            begin = bisect_left(similar, (job.hour_ms - HISTORY_MS, "", 0))
            end = bisect_left(similar, (job.hour_ms, "", 0))
            rates = sorted(rate for *_, rate in similar[max(begin, end - HISTORY_JOBS) : end])
            if len(rates) >= jobs_least:
                median = rates[len(rates) // 2]
                apart = sorted(Fraction(max(rate, median), min(rate, median)) for rate in rates)
                return Usual(similarity, median, rates[-1], apart[len(apart) // 2])
        return None


def oversized_changes(
    firing: Mapping[str, Alert],
    found: Sequence[HourFinding],
    paid: Collection[tuple[str, int]],
    hours: Iterable[int],
) -> list[Alert]:
    """Return the changes: what is found opens, and clears at the end of the first hour in which the job was not paid.

    Args:
        firing: By job.
        found: Openings in order.
        paid: Each job, and the ends of the hours in which it was paid.
        hours: Ends of hours, ascending.
    """
    now, changes = dict(firing), list[Alert]()
    waiting = list(found)

    def open_before(at_ms: int) -> None:
        while waiting and waiting[0].at_ms < at_ms:
            each = waiting.pop(0)
            if each.subject_name not in now:
                now[each.subject_name] = opened(each)
                changes.append(now[each.subject_name])

    for at_ms in hours:
        open_before(at_ms)
        over = [job for job, row in now.items() if (job, at_ms) not in paid and row.changed_ms < at_ms]
        for job_id in over:
            changes.append(resolved(now.pop(job_id), at_ms))
    open_before(max((each.at_ms for each in waiting), default=0) + 1)
    return changes
