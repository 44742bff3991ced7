"""`oversized`: a job's first rate is far above those of similar jobs before it.

Money is integer nano-dollars, so that nothing depends on rounding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, times, unheeded
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.similar_jobs import OWN_JOBS, TEAM, Similarity, jobs_of, similarities_of

#: It is judged at whole five minutes: `RATE_MS` of whole minutes after its first one say its rate.
EVERY_MS: Final = 5 * MINUTE_MS
RATE_MS: Final = 5 * MINUTE_MS
#: Similar jobs that count: the last ones, as long as they began so recently.
HISTORY_JOBS: Final = 200
HISTORY_MS: Final = 30 * 24 * HOUR_MS
#: A first rate up to so many times what was declared or planned is expected.
ANNOUNCED: Final = Fraction(6, 5)
#: So many jobs of a kind are enough if it comes each day or week: none begins so soon after the one before.
RECURRING_JOBS: Final = 3
RECURRING_MS: Final = 20 * HOUR_MS
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
    # Of a team: the median and the largest of the job's own kind, of which there are too few to say more; 0: there are none.
    own_median: int = 0
    own_largest: int = 0

    def exceeded_by(self, rate: int, factor: float) -> bool:
        """Return whether a rate is far above them, and above each of them, and so it is of the job's own kind."""
        least = max(Fraction(str(factor)), self.spread**SPREADS) * self.median
        is_own = rate <= self.own_largest or rate < Fraction(str(factor)) * self.own_median
        return self.median > 0 and rate > self.largest and rate >= least and not is_own


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
        """Return what is usual for the narrowest similarity with enough jobs that began in hours before the job's.

        What is usual for a team is so only of jobs that are unlike the earlier ones of their own kind, too.
        """
        own: list[int] = []
        for similarity in similarities_of(job.job_id, job.team, job.experiment):
            similar = self._of.get(similarity, [])
            begin = bisect_left(similar, (job.hour_ms - HISTORY_MS, "", 0))
            end = bisect_left(similar, (job.hour_ms, "", 0))
            before = similar[max(begin, end - HISTORY_JOBS) : end]
            if len(before) >= jobs_least or (similarity.by != TEAM and _recur([hour for hour, *_ in before])):
                rates = sorted(rate for *_, rate in before)
                median = rates[len(rates) // 2]
                apart = sorted(Fraction(max(rate, median), min(rate, median)) for rate in rates)
                usual = Usual(similarity, median, rates[-1], apart[len(apart) // 2])
                return usual._replace(own_median=own[len(own) // 2], own_largest=own[-1]) if own else usual
            if not own and len(before) >= OWN_JOBS:
                own = sorted(rate for *_, rate in before)
        return None


def _recur(hours_ms: Sequence[int]) -> bool:
    """Whether jobs that began in these hours, ascending, come each day, or less often."""
    return len(hours_ms) >= RECURRING_JOBS and all(
        after - before >= RECURRING_MS for before, after in pairwise(hours_ms)
    )


def finding(of: LedgerSettings, job: FirstRate, usual: Usual, owner: str, project: str) -> LedgerFinding:
    """Return the sentence and the evidence of a job whose first rate is unusual."""
    rate, ratio = job.nano_per_hour, job.nano_per_hour / usual.median
    return LedgerFinding(
        "oversized", of.severity, "job", job.job_id, judged_ms(job.started_ms),
        sentence(lambda at_most: f"{short(job.job_id, at_most)} began at {rounded_usd(rate)}/h, {times(ratio)} the"
            f" {rounded_usd(usual.median)}/h usual for {jobs_of(usual.similarity, at_most)}; if unintended, stop it and ask"
            f" for fewer GPUs, else {unheeded(rate - usual.median, judged_ms(job.started_ms))}"),
        f"SELECT * FROM cost_hours WHERE job_id = {quoted(job.job_id)} ORDER BY hour",
        ratio, rate, rate, owner, job.team, project, margins=(*margins(of.thresholds, job, usual),),
    )  # fmt: skip


def margins(of: Mapping[str, float], job: FirstRate, usual: Usual) -> list[Margin]:
    """Return how far a job's first rate is above what is usual."""
    return [
        from_threshold_on(
            "first rate / median of similar jobs", job.nano_per_hour / usual.median, of["factor"]
        ),
        from_threshold_on(
            f"first rate / (spread^{SPREADS} x median)",
            float(job.nano_per_hour / (usual.spread**SPREADS * usual.median)),
            1,
        ),
        from_threshold_on(
            "first rate / largest of similar jobs (above)", job.nano_per_hour / usual.largest, 1
        ),
    ]


RULE: Final = LedgerRule(
    name="oversized",
    title="Larger than usual",
    severity=TICKET,
    about="`job`",
    holds="its first rate is at least 5 times the median of similar earlier jobs, of which there are at least 10; until the end"
    " of the first hour in which it accrued no cost",
    runbook="ledger_rules.md#oversized",
    thresholds={
        "factor": Threshold(5, 1.1, 1e6, "first rate / median of those of similar jobs"),
        "jobs": Threshold(10, 1, 200, "similar jobs that began in earlier hours", True),
    },
    each="job",
    goes_on="above usual",
    finding=finding,
    margins=margins,
    inhibited_by=("ceiling",),
)
