"""`retry_overhead` and `oversized`, judged the plain way: hour by hour and job by job, from a whole log.

Must import nothing of the product. Money is integer nano-dollars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

from tests.oracle.compute import compute
from tests.oracle.intake import take_in
from tests.oracle.model import COMPONENTS, DAY_MS, HOUR_MS, MINUTE_MS, Line, Tables
from tests.oracle.timeline import Attempt, attempts_of

USD = 10**9
TRAFFIC = ("network", "storage")
BROKEN = ("failed", "preempted", "superseded")


class Fired(NamedTuple):
    """An alert, and its cost: what was lost, or the rate per hour."""

    rule: str
    job_id: str
    started_ms: int
    resolved_ms: int | None
    cost_nano: int


@dataclass
class HourOf:
    """What an attempt did in an hour."""

    attempt: int
    hour: int
    wall_ms: int
    cost: int
    rate_cost: int
    lost: int
    starting_lost: int


@dataclass
class PlainJob:
    """One job of the log."""

    job_id: str
    team: str
    experiment: str
    attempts: list[Attempt]
    hours: list[HourOf]
    minutes: dict[int, int]  # minute -> cost without traffic

    @property
    def start_ms(self) -> int | None:
        """Its first `allocated` or `started`."""
        starts = (attempt.first_start_ms() for attempt in self.attempts)
        return min((at_ms for at_ms in starts if at_ms is not None), default=None)

    def first_rate(self) -> int:
        """What its first hour cost, per hour."""
        assert self.start_ms is not None
        inside = [each for each in self.hours if each.hour == self.start_ms // HOUR_MS]
        wall_ms, cost = sum(each.wall_ms for each in inside), sum(each.rate_cost for each in inside)
        return cost * HOUR_MS // wall_ms if wall_ms else 0


def judge_log(lines: Sequence[Line]) -> list[Fired]:
    """All alerts of both rules up to the last event of the log."""
    accepted = take_in(lines, job_horizon_ms=DAY_MS, late_horizon_s=600, run_start_ms=None)
    until_ms = accepted.newest_ms // MINUTE_MS * MINUTE_MS
    jobs = _jobs(compute(lines), {name: attempts_of(log) for name, log in accepted.jobs.items()})
    found = [each for job in jobs for each in retry_overhead(job, until_ms)]
    return sorted([*found, *(each for job in jobs for each in oversized(job, jobs, until_ms))])


def _jobs(tables: Tables, attempts: dict[str, list[Attempt]]) -> list[PlainJob]:
    jobs = {
        name: PlainJob(name, row.team or "", row.experiment or "", attempts[name], [], {})
        for name, row in tables.jobs.items()
    }
    for key, hour in tables.hours.items():
        by = dict(zip(COMPONENTS, hour.cost_nano, strict=True))
        jobs[key.job_id].hours.append(
            HourOf(
                key.attempt, key.hour, hour.wall_clock_ms, sum(by.values()),
                sum(cost for name, cost in by.items() if name not in TRAFFIC),
                hour.lost_cost_nano, hour.starting_lost_cost_nano,
            )
        )  # fmt: skip
    for minute_key, minute in tables.ledger.items():
        if minute_key.component not in TRAFFIC:
            of = jobs[minute_key.job_id].minutes
            of[minute_key.minute] = of.get(minute_key.minute, 0) + minute.cost_nano
    return list(jobs.values())


def retry_overhead(job: PlainJob, until_ms: int) -> Iterator[Fired]:
    """More than 10 % lost, $10 or more, by three attempts that broke off or more, in an hour that was paid."""
    first = min((each.hour for each in job.hours), default=0)
    firing: Fired | None = None
    for hour in range(first, until_ms // HOUR_MS):
        end_ms = (hour + 1) * HOUR_MS
        cost = sum(each.cost for each in job.hours if each.hour <= hour)
        lost, broken = _lost_before(job, end_ms)
        paid = any(each.cost > 0 for each in job.hours if each.hour == hour)
        holds = paid and broken >= 3 and lost >= 10 * USD and 10 * lost > cost
        if holds and firing is None:
            firing = Fired("retry_overhead", job.job_id, end_ms, None, lost)
        elif firing is not None and not holds:
            yield firing._replace(resolved_ms=end_ms)
            firing = None
    if firing is not None:
        yield firing


def _lost_before(job: PlainJob, end_ms: int) -> tuple[int, int]:
    """What was lost by then, and by how many attempts; an attempt's loss is known when it breaks off, a retry's start-up at once."""
    total = broken = 0
    for place, attempt in enumerate(job.attempts):
        hours = [each for each in job.hours if each.attempt == attempt.number]
        start_up = sum(each.starting_lost for each in hours if each.hour * HOUR_MS < end_ms)
        all_lost = sum(each.lost for each in hours)
        ended_ms = attempt.superseded_ms if attempt.own_end is None else attempt.own_end["time_ms"]
        if ended_ms is not None and ended_ms < end_ms and attempt.state() in BROKEN and all_lost > 0:
            total, broken = total + all_lost, broken + 1
        elif place > 0:
            total += start_up
    return total, broken


def stem(job_id: str) -> str:
    """The name without the parts at its end that have a digit."""
    for place in range(len(job_id) - 1, -1, -1):
        if job_id[place] in "-_.:/":
            return stem(job_id[:place]) if any(c in "0123456789" for c in job_id[place:]) else job_id
    return job_id


def oversized(job: PlainJob, jobs: Sequence[PlainJob], until_ms: int) -> Iterator[Fired]:
    """Its rate in the five minutes after its first one, against the first hours of its narrowest kind with ten jobs before."""
    if job.start_ms is None:
        return
    first = job.start_ms // MINUTE_MS
    at_ms = next(m for m in range(first + 6, first + 11) if m % 5 == 0) * MINUTE_MS
    rate = 12 * sum(job.minutes.get(minute, 0) for minute in range(first + 1, first + 6))
    if at_ms > until_ms or not _is_large(job, rate, jobs):
        return
    paid = {each.hour for each in job.hours if each.wall_ms > 0}
    over = [hour for hour in range(at_ms // HOUR_MS, until_ms // HOUR_MS) if hour not in paid]
    # At the very end of an hour it opens after that hour was looked at.
    resolved_ms = (over[0] + 1) * HOUR_MS if over else None
    yield Fired("oversized", job.job_id, at_ms, resolved_ms, rate)


def _is_large(job: PlainJob, rate: int, jobs: Sequence[PlainJob]) -> bool:
    hour = (job.start_ms or 0) // HOUR_MS
    before = []
    for other in jobs:
        if other.team == job.team and other.start_ms is not None:
            other_hour = other.start_ms // HOUR_MS
            if hour - 30 * 24 <= other_hour < hour and other.first_rate() > 0:
                before.append((other_hour, other.job_id, other))
    before.sort(key=lambda each: each[:2])
    for alike in (
        [other for *_, other in before if job.experiment and other.experiment == job.experiment],
        [other for *_, other in before if stem(job.job_id) and stem(other.job_id) == stem(job.job_id)],
        [other for *_, other in before],
    ):
        if len(alike) >= 10:
            rates = sorted(other.first_rate() for other in alike[-200:])
            median = rates[len(rates) // 2]
            apart = sorted(max(Fraction(each, median), Fraction(median, each)) for each in rates)
            least = max(Fraction(5), apart[len(apart) // 2] ** 4) * median
            return rate > rates[-1] and rate >= least
    return False
