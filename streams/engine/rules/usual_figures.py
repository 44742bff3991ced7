"""What is usual for a kind of jobs: the figures that its completed jobs reached, up to which an alert about one is withheld.

Money is integer nano-dollars, times are ms, so that nothing depends on rounding.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, HOUR_MS, MINUTE_MS
from streams.engine.rules.formatting import rounded_usd, sentence, span
from streams.engine.rules.rule import USUAL_FACTOR, FigureKind
from streams.engine.rules.similar_jobs import TEAM, Similarity, jobs_of, similarities_of

#: Completed jobs of a kind that count: the last ones, as long as they ended so recently.
HISTORY_JOBS: Final = 200
HISTORY_MS: Final = 90 * DAY_MS
#: Of fewer nothing is usual.
LEAST_JOBS: Final = 5
#: What so many of them reached is usual, if they ended on so many days: the p99 of 200, and no single fault's of fewer.
REACHED_BY: Final = 3
REACHED_DAYS: Final = 2
#: Up to so many times what is usual nothing is unusual, unless a record says another ratio: a weekly batch grows.
FACTOR: Final = Fraction(str(USUAL_FACTOR))
#: `idle_gpus` is judged every 5 min, at an instant that differs by job: so much of a length says nothing.
SURE_LENGTH_MS: Final = 10 * MINUTE_MS
#: Shards may be stored so much later than others: jobs that ended on the day of the hour before do not count.
STORED_BY_MS: Final = HOUR_MS
#: A rate of an hour is known if the job ran for so much of it; traffic of less than half an hour is no rate.
RATE_LEAST_MS: Final = 5 * MINUTE_MS
TRAFFIC_LEAST_MS: Final = 30 * MINUTE_MS
#: A burn is compared with jobs that began at no more than so many times the rate that is expected of it, nor less.
ALIKE: Final = 2


class HourCost(NamedTuple):
    """What a job cost in an hour, or in a part of one."""

    job_id: str
    hour_ms: int
    ran_ms: int
    accrued_nano: int  # without traffic
    traffic_nano: int


class ReachedFigure(NamedTuple):
    """The greatest figure of a completed job: nano-dollars per hour, or ms; 0: it had none."""

    ended_ms: int
    figure: int


class UsualFigure(NamedTuple):
    """What jobs of a kind reach, the greatest first, and what is usual of it."""

    similarity: Similarity
    kind: FigureKind
    usual: int
    reached: tuple[int, ...]
    factor: Fraction = FACTOR  # 0: nothing counts as usual

    @property
    def limit(self) -> int:
        """Up to where an alert is withheld; below 0: it never is."""
        if not self.factor:
            return -1
        slack = SURE_LENGTH_MS if self.kind == "length" else 0
        return int(self.factor * self.usual) + slack


def history_span(at_ms: int) -> tuple[int, int]:
    """When jobs ended, [from, to), that an alert of a tick is compared with: a function of the tick's day alone."""
    to_ms = (at_ms - STORED_BY_MS) // DAY_MS * DAY_MS
    return to_ms - HISTORY_MS, to_ms


def kinds_of(job_id: str, team: str, experiment: str) -> list[Similarity]:
    """The kinds of a job, the narrowest first; a whole team is none."""
    return [each for each in similarities_of(job_id, team, experiment) if each.by != TEAM]


def usual_of(reached: Sequence[ReachedFigure]) -> int:
    """The greatest figure that enough jobs reached, on different days; 0: nothing is usual."""
    if len(reached) < LEAST_JOBS:
        return 0
    days: set[int] = set()
    for place, each in enumerate(sorted(reached, key=lambda each: -each.figure), 1):
        days.add(each.ended_ms // DAY_MS)
        if place >= REACHED_BY and len(days) >= REACHED_DAYS:
            return each.figure
    return 0


def greatest_traffic(hours: Iterable[HourCost]) -> dict[str, int]:
    """The highest traffic per hour of each job, over its clock hours."""
    found: dict[str, int] = {}
    for each in _by_hour(hours):
        divisor = max(each.ran_ms, TRAFFIC_LEAST_MS) if each.ran_ms else HOUR_MS
        found[each.job_id] = max(found.get(each.job_id, 0), each.traffic_nano * HOUR_MS // divisor)
    return found


def greatest_rates(hours: Iterable[HourCost], expected_nano: int) -> dict[str, int]:
    """The highest rate of each job, over its clock hours; only of jobs that began at about what is expected."""
    of_job: dict[str, dict[int, int]] = defaultdict(dict)
    for each in _by_hour(hours):
        if each.ran_ms >= RATE_LEAST_MS:
            of_job[each.job_id][each.hour_ms] = each.accrued_nano * HOUR_MS // each.ran_ms
    return {
        job_id: max(rates.values())
        for job_id, rates in of_job.items()
        if _alike(rates[min(rates)], expected_nano)
    }


def first_beyond(figures: Iterable[tuple[int, int]], limit_at: Callable[[int], int]) -> int | None:
    """The first instant at which a figure is beyond the limit of then; None: it never is."""
    return next((at_ms for at_ms, figure in figures if figure > limit_at(at_ms)), None)


def rolling_hours(minutes: Mapping[int, int], instants: Iterable[int]) -> list[tuple[int, int]]:
    """What was paid in the minutes that begin in the hour before each instant; `minutes`: what was paid in each."""
    begins = sorted(minutes)
    until = [0, *accumulate(minutes[each] for each in begins)]
    return [
        (at_ms, until[bisect_left(begins, at_ms)] - until[bisect_left(begins, at_ms - HOUR_MS)])
        for at_ms in instants
    ]


def reason(usual: UsualFigure) -> str:
    """Why an alert is withheld, in words."""
    count = sum(FACTOR * each >= usual.usual for each in usual.reached)
    said = {
        "rate": f"cost up to {rounded_usd(usual.usual)}/h",
        "traffic": f"had up to {rounded_usd(usual.usual)}/h of traffic",
        "length": f"had such an alert for up to {span(usual.usual)}",
    }[usual.kind]
    return sentence(
        lambda at_most: (
            f"usual for {jobs_of(usual.similarity, at_most)}: {count} of the last {len(usual.reached)} {said}"
        )
    )


def _by_hour(hours: Iterable[HourCost]) -> list[HourCost]:
    """One of each job and hour: a job has several where it had several attempts, or others of what prices go by."""
    found: dict[tuple[str, int], HourCost] = {}
    for each in hours:
        known = found.get((each.job_id, each.hour_ms))
        if known is not None:
            each = each._replace(
                ran_ms=known.ran_ms + each.ran_ms,
                accrued_nano=known.accrued_nano + each.accrued_nano,
                traffic_nano=known.traffic_nano + each.traffic_nano,
            )
        found[each.job_id, each.hour_ms] = each
    return [*found.values()]


def _alike(began_nano: int, expected_nano: int) -> bool:
    least, most = sorted((began_nano, expected_nano))
    return most <= ALIKE * least
