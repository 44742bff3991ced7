"""`retry_overhead`, `oversized` and `unusual_length`, judged the plain way: hour by hour and job by job, from a whole log.

Must import nothing of the product. Money is integer nano-dollars.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

from tests.oracle.compute import compute
from tests.oracle.intake import take_in
from tests.oracle.model import COMPONENTS, DAY_MS, HOUR_MS, MINUTE_MS, JobRow, Line, Tables
from tests.oracle.runs import FOREVER, PlainAttempt, PlainSpan, loop_alerts, one_run, run_of
from tests.oracle.timeline import Attempt, attempts_of

USD = 10**9
TRAFFIC = ("network", "storage")
BROKEN = ("failed", "preempted", "superseded")


class Thresholds(NamedTuple):
    """The defaults of docs/ledger_rules.md."""

    lost_ratio: Fraction = Fraction(1, 10)
    lost_nano: int = 10 * USD
    broken: int = 3
    size_factor: Fraction = Fraction(5)
    size_jobs: int = 10
    length_factor: Fraction = Fraction(2)
    length_jobs: int = 20
    length_nano: int = 10 * USD


DEFAULTS = Thresholds()


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
    lost: dict[int, int]  # attempt -> what it lost, without traffic
    run: tuple[str, ...] | None = None  # what its run is known by

    @property
    def start_ms(self) -> int | None:
        """Its first `allocated` or `started`."""
        starts = (attempt.first_start_ms() for attempt in self.attempts)
        return min((at_ms for at_ms in starts if at_ms is not None), default=None)

    @property
    def gpu_milli(self) -> int:
        """Its GPUs at last."""
        return self.attempts[-1].final.gpu_milli

    def declared(self, at_ms: int) -> int:
        """The rate that it had declared by then, in nano-dollars; 0: none."""
        said = [
            (event["time_ms"], attempt.number, event["expected_usd_per_hour"])
            for attempt in self.attempts
            for event in attempt.events
            if event.get("expected_usd_per_hour") is not None and event["time_ms"] <= at_ms
        ]
        return int(Decimal(str(max(said, key=lambda each: each[:2])[2])) * USD) if said else 0

    @property
    def ended_ms(self) -> int | None:
        """When its last attempt ended."""
        last = self.attempts[-1]
        return last.superseded_ms if last.own_end is None else last.own_end["time_ms"]

    def wall_ms(self, before_ms: int) -> int:
        """For how long it was paid in hours before an instant."""
        return sum(each.wall_ms for each in self.hours if each.hour * HOUR_MS < before_ms)

    def first_rate(self) -> int:
        """What its first hour cost, per hour."""
        assert self.start_ms is not None
        inside = [each for each in self.hours if each.hour == self.start_ms // HOUR_MS]
        wall_ms, cost = sum(each.wall_ms for each in inside), sum(each.rate_cost for each in inside)
        return cost * HOUR_MS // wall_ms if wall_ms else 0


def judge_log(
    lines: Sequence[Line],
    tables: Tables | None = None,
    until_ms: int | None = None,
    of: Thresholds = DEFAULTS,
    since_ms: int = 0,
) -> list[Fired]:
    """All alerts of the rules up to an instant, the last event of the log if absent.

    `tables`: what the log comes to. `since_ms`: the end of the first hour that was judged: what holds by then opens then.
    """
    accepted = take_in(lines, job_horizon_ms=DAY_MS, late_horizon_s=600, run_start_ms=None)
    if until_ms is None:
        until_ms = accepted.newest_ms // MINUTE_MS * MINUTE_MS
    attempts = {name: attempts_of(log) for name, log in accepted.jobs.items()}
    jobs = _jobs(compute(lines) if tables is None else tables, attempts)
    found = [each for run in _with_one_key(jobs) for each in retry_overhead(run, until_ms, of, since_ms)]
    found += [each for job in jobs for each in oversized(job, jobs, until_ms, of)]
    found += [each for job in jobs for each in unusual_length(job, jobs, until_ms, of, since_ms)]
    return sorted(found)


def runs_at(lines: Sequence[Line], tables: Tables, at_ms: int) -> list[list[str]]:
    """Which jobs are one run, by what had happened up to an instant, the oldest job of each first."""
    accepted = take_in(lines, job_horizon_ms=DAY_MS, late_horizon_s=600, run_start_ms=None)
    jobs = _jobs(tables, {name: attempts_of(log) for name, log in accepted.jobs.items()})
    found: list[list[str]] = []
    for of in _with_one_key(jobs):
        spans = [span for job in of if (span := _span([*_plain_attempts(job)], at_ms + 1))]
        run = of[0].run
        found += one_run(spans, by_name=run[0] == "name") if run else [[span.job] for span in spans]
    return found


def _jobs(tables: Tables, attempts: dict[str, list[Attempt]]) -> list[PlainJob]:
    jobs = {
        name: PlainJob(
            name, row.team or "", row.experiment or "", attempts[name], [], {}, {}, _run_of(name, row)
        )
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
            lost = jobs[minute_key.job_id].lost
            lost[minute_key.attempt] = lost.get(minute_key.attempt, 0) + minute.lost_cost_nano
    return list(jobs.values())


def _run_of(job_id: str, row: JobRow) -> tuple[str, ...] | None:
    names = ("owner", "team", "experiment", "run_id", "work_dir")
    return run_of({"job_id": job_id, **{name: getattr(row, name) or "" for name in names}}, dict(row.labels))


def _with_one_key(jobs: Sequence[PlainJob]) -> list[list[PlainJob]]:
    """Jobs that may be one run; those that are of no run but their own by themselves."""
    found: dict[object, list[PlainJob]] = {}
    for job in jobs:
        found.setdefault(job.run or job.job_id, []).append(job)
    return [*found.values()]


def retry_overhead(
    jobs: Sequence[PlainJob], until_ms: int, of: Thresholds = DEFAULTS, since_ms: int = 0
) -> Iterator[Fired]:
    """More than 10 % lost, $10 or more, by three attempts of a run that broke off or more, in an hour that was paid, and those after it that were not.

    Not in an hour in which a loop of it stood, and without the attempts that an alert about one named. About the job that it was
    about before, else the last one of the run.
    """
    named = {job.job_id: [(_tick(begin), _tick(over)) for begin, over in _retry_loops(job)] for job in jobs}
    tried = {job.job_id: [*_plain_attempts(job)] for job in jobs}
    told = [each for loops in named.values() for each in loops]
    of_runs = (
        loop_alerts([each for of in tried.values() for each in of], told, until_ms) if len(jobs) > 1 else []
    )
    by_id = {job.job_id: job for job in jobs}
    first = min((each.hour for job in jobs for each in job.hours), default=0)
    firing: dict[str, Fired] = {}
    for hour in range(max(first, since_ms // HOUR_MS - 1), until_ms // HOUR_MS):
        end_ms = (hour + 1) * HOUR_MS
        spans = [span for job in jobs if (span := _span(tried[job.job_id], end_ms))]
        is_by_name = jobs[0].run is not None and jobs[0].run[0] == "name"
        runs = one_run(spans, by_name=is_by_name) if jobs[0].run else [[span.job] for span in spans]
        before = {*firing}
        for run in runs:
            of_run = [by_id[name] for name in run]
            loops = {
                name: named[name] + [(loop.began_ms, loop.over_ms) for loop in of_runs if loop.job in run]
                for name in run
            }
            stood = any(
                begin_ms < end_ms and end_ms - HOUR_MS < over_ms
                for each in loops.values()
                for begin_ms, over_ms in each
            )
            cost = sum(each.cost for job in of_run for each in job.hours if each.hour <= hour)
            sums = [_lost_before(job, end_ms, loops[job.job_id]) for job in of_run]
            lost, broken = sum(each for each, _ in sums), sum(each for _, each in sums)
            paid_hours = [
                each.hour for job in of_run for each in job.hours if each.cost > 0 and each.hour <= hour
            ]
            paid = hour in paid_hours
            about = next((name for name in run if name in before), run[-1])
            # "until 8 % or less": 0.8 of the share from which it opens
            ratio = of.lost_ratio * (Fraction(4, 5) if about in before else 1)
            holds = (
                paid and broken >= of.broken and not stood and lost >= of.lost_nano and lost > ratio * cost
            )
            if holds and about not in firing:
                firing[about] = Fired("retry_overhead", about, end_ms, None, lost)
            is_quiet = not paid and not stood and not _is_over(of_run, end_ms, max(paid_hours, default=-24))
            for name in before & {*run}:
                if not (is_quiet or (holds and name == about)):
                    yield firing.pop(name)._replace(resolved_ms=end_ms)
    yield from firing.values()


def _plain_attempts(job: PlainJob) -> Iterator[PlainAttempt]:
    for attempt in job.attempts:
        began_ms = attempt.first_start_ms()
        if began_ms is not None:
            ended_ms = attempt.superseded_ms if attempt.own_end is None else attempt.own_end["time_ms"]
            reason = (attempt.own_end or {}).get("reason") or ""
            hours = [each for each in job.hours if each.attempt == attempt.number]
            yield PlainAttempt(
                job.job_id, began_ms, FOREVER if ended_ms is None else ended_ms, attempt.state(), reason,
                sum(each.lost for each in hours), sum(each.cost for each in hours),
            )  # fmt: skip


def _span(attempts: Sequence[PlainAttempt], at_ms: int) -> PlainSpan | None:
    """When a job went on, of what was known then."""
    began = [each for each in attempts if each.began_ms < at_ms]
    if not began:
        return None
    last = max(began, key=lambda each: (each.ended_ms, each.began_ms))
    first_ms = min(each.began_ms for each in began)
    if last.ended_ms >= at_ms:
        return PlainSpan(first_ms, FOREVER, last.job, "running")
    return PlainSpan(first_ms, last.ended_ms, last.job, last.state)


def _is_over(jobs: Sequence[PlainJob], end_ms: int, last_hour: int) -> bool:
    """Whether their last attempt before an instant was completed or cancelled, or nothing came for 24 h after an hour."""
    ended: list[tuple[int, str]] = []
    for attempt in (each for job in jobs for each in job.attempts):
        ended_ms = attempt.superseded_ms if attempt.own_end is None else attempt.own_end["time_ms"]
        if ended_ms is not None and ended_ms < end_ms:
            ended.append((ended_ms, attempt.state()))
    is_done = bool(ended) and max(ended)[1] in ("completed", "cancelled")
    return is_done or end_ms // HOUR_MS - 1 - last_hour >= 24


def _tick(at_ms: int) -> int:
    return -(-at_ms // 10_000) * 10_000


def _retry_loops(job: PlainJob) -> Iterator[tuple[int, int]]:
    """When an alert of `retry_loop` fires: for an hour after an end, for longer in a slow loop, or until the job is done.

    Three failures within an hour, two that lost $25 without traffic, or six preemptions; or two failures in a row, hours apart.
    """
    ends: list[tuple[int, bool, int, int]] = []
    for place, attempt in enumerate(job.attempts):
        ended_ms = attempt.superseded_ms if attempt.own_end is None else attempt.own_end["time_ms"]
        if ended_ms is not None and attempt.state() in BROKEN:
            since_ms = min((begin for begin, _ in attempt.lost(has_lower=place > 0)), default=ended_ms)
            lost = job.lost.get(attempt.number, 0)
            ends.append((ended_ms, attempt.state() == "preempted", lost, since_ms))
    done_ms = job.ended_ms if job.attempts[-1].state() in ("completed", "cancelled") else None
    for ended_ms, preempted, _, _ in ends:
        alike = [each for each in ends if each[1] == preempted and 0 <= ended_ms - each[0] < HOUR_MS]
        dear = len(alike) >= 2 and sum(lost for _, _, lost, _ in alike) >= 25 * USD
        if len(alike) >= 6 if preempted else len(alike) >= 3 or dear:
            over_ms = min(ended_ms + HOUR_MS, done_ms or ended_ms + HOUR_MS)
            if ended_ms < over_ms:
                yield ended_ms, over_ms
    for (first_ms, _, lost, since_ms), (ended_ms, _, more, begin_ms) in pairwise(
        sorted(each for each in ends if not each[1])
    ):
        between_ms = ended_ms - first_ms
        if HOUR_MS <= between_ms < 12 * HOUR_MS and _is_slow(
            job, min(since_ms, begin_ms), ended_ms, lost + more
        ):
            # "It clears when half as long again as between them has passed without another failure"
            over_ms = min(ended_ms + 3 * between_ms // 2, done_ms or FOREVER)
            if ended_ms < over_ms:
                yield ended_ms, over_ms


def _is_slow(job: PlainJob, since_ms: int, ended_ms: int, lost: int) -> bool:
    """Whether $100 or more were lost per hour since that work began, and at least half of what the job paid meanwhile."""
    span_ms = max(ended_ms - since_ms, 15 * MINUTE_MS)
    return lost * HOUR_MS >= 100 * USD * span_ms and 2 * lost >= _paid_between(job, since_ms, ended_ms)


def _paid_between(job: PlainJob, begin_ms: int, end_ms: int) -> Fraction:
    """What it paid without traffic; of a minute that is cut, by the time in it that was paid."""
    paid = [
        (segment.start_ms, segment.end_ms)
        for attempt in job.attempts
        for segment in attempt.segments(end_ms + MINUTE_MS)
    ]

    def paid_ms(from_ms: int, until_ms: int) -> int:
        return sum(max(0, min(until_ms, end) - max(from_ms, start)) for start, end in paid)

    found = Fraction(0)
    for minute in range(begin_ms // MINUTE_MS, -(-end_ms // MINUTE_MS)):
        from_ms, until_ms = minute * MINUTE_MS, (minute + 1) * MINUTE_MS
        inside_ms = paid_ms(max(from_ms, begin_ms), min(until_ms, end_ms))
        if inside_ms:
            found += Fraction(job.minutes.get(minute, 0) * inside_ms, paid_ms(from_ms, until_ms))
    return found


def _lost_before(job: PlainJob, end_ms: int, loops: Sequence[tuple[int, int]] = ()) -> tuple[int, int]:
    """What was lost by then, and by how many attempts; an attempt's loss is known when it breaks off, a retry's start-up at once."""
    total = broken = 0
    for place, attempt in enumerate(job.attempts):
        hours = [each for each in job.hours if each.attempt == attempt.number]
        start_up = sum(each.starting_lost for each in hours if each.hour * HOUR_MS < end_ms)
        all_lost = sum(each.lost for each in hours)
        ended_ms = attempt.superseded_ms if attempt.own_end is None else attempt.own_end["time_ms"]
        if ended_ms is not None and ended_ms < end_ms and attempt.state() in BROKEN and all_lost > 0:
            named = (begin - HOUR_MS < ended_ms <= over for begin, over in loops if begin < end_ms)
            if any(named):
                continue
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


def oversized(
    job: PlainJob, jobs: Sequence[PlainJob], until_ms: int, of: Thresholds = DEFAULTS
) -> Iterator[Fired]:
    """Its rate in the five minutes after its first one, against the first hours of its narrowest kind with ten jobs before."""
    if job.start_ms is None:
        return
    first = job.start_ms // MINUTE_MS
    at_ms = next(m for m in range(first + 6, first + 11) if m % 5 == 0) * MINUTE_MS
    rate = 12 * sum(job.minutes.get(minute, 0) for minute in range(first + 1, first + 6))
    if at_ms > until_ms or not _is_large(job, rate, jobs, of):
        return
    declared = job.declared((first + 6) * MINUTE_MS)
    if declared and 5 * rate <= 6 * declared:
        return  # "up to 1.2 of what was declared"
    paid = {each.hour for each in job.hours if each.wall_ms > 0}
    over = [hour for hour in range(at_ms // HOUR_MS, until_ms // HOUR_MS) if hour not in paid]
    # At the very end of an hour it opens after that hour was looked at.
    resolved_ms = (over[0] + 1) * HOUR_MS if over else None
    yield Fired("oversized", job.job_id, at_ms, resolved_ms, rate)


def _is_large(job: PlainJob, rate: int, jobs: Sequence[PlainJob], of: Thresholds) -> bool:
    hour = (job.start_ms or 0) // HOUR_MS
    before = []
    for other in jobs:
        if other.team == job.team and other.start_ms is not None:
            other_hour = other.start_ms // HOUR_MS
            if hour - 30 * 24 <= other_hour < hour and other.first_rate() > 0:
                before.append((other_hour, other.job_id, other))
    before.sort(key=lambda each: each[:2])
    kinds = _kinds(job, [other for *_, other in before])
    for place, alike in enumerate(kinds):
        is_team = place == len(kinds) - 1
        own = next(
            (sorted(other.first_rate() for other in each[-200:]) for each in kinds[:-1] if len(each) >= 2), []
        )
        if is_team and own and (rate <= own[-1] or rate < of.size_factor * own[len(own) // 2]):
            return False
        began = [(other.start_ms or 0) // HOUR_MS for other in alike[-200:]]
        recurs = len(began) >= 3 and all(b - a >= 20 for a, b in pairwise(began))
        if len(alike) >= of.size_jobs or (recurs and not is_team):
            rates = sorted(other.first_rate() for other in alike[-200:])
            median = rates[len(rates) // 2]
            apart = sorted(max(Fraction(each, median), Fraction(median, each)) for each in rates)
            least = max(of.size_factor, apart[len(apart) // 2] ** 4) * median
            return rate > rates[-1] and rate >= least
    return False


def _kinds(job: PlainJob, others: Sequence[PlainJob]) -> list[list[PlainJob]]:
    """Those of the job's kind: by experiment, by name, by team."""
    found = []
    if job.experiment:
        found.append([other for other in others if other.experiment == job.experiment])
    if stem(job.job_id):
        found.append([other for other in others if stem(other.job_id) == stem(job.job_id)])
    return [*found, list(others)]


def unusual_length(
    job: PlainJob, jobs: Sequence[PlainJob], until_ms: int, of: Thresholds = DEFAULTS, since_ms: int = 0
) -> Iterator[Fired]:
    """Twice the p99 of twenty completed jobs of its kind or more, and $10 or more, in an hour that was paid, and those after it."""
    first = quiet_since = min((each.hour for each in job.hours), default=0)
    firing: Fired | None = None
    for hour in range(max(first, since_ms // HOUR_MS - 1), until_ms // HOUR_MS):
        end_ms = (hour + 1) * HOUR_MS
        cost = sum(each.cost for each in job.hours if each.hour <= hour)
        paid = any(each.wall_ms > 0 for each in job.hours if each.hour == hour)
        is_done = job.attempts[-1].state() in ("completed", "cancelled") and (job.ended_ms or 0) < end_ms
        p99_ms = _p99_before(job, jobs, end_ms, of)
        is_long = 0 < of.length_factor * p99_ms < job.wall_ms(end_ms)
        holds = paid and not is_done and cost >= of.length_nano and is_long
        quiet_since = hour if paid else quiet_since
        if holds and firing is None:
            firing = Fired("unusual_length", job.job_id, end_ms, None, cost)
        elif firing is not None and not holds and (paid or _is_over([job], end_ms, quiet_since)):
            yield firing._replace(resolved_ms=end_ms)
            firing = None
    if firing is not None:
        yield firing


def _p99_before(job: PlainJob, jobs: Sequence[PlainJob], at_ms: int, of: Thresholds) -> int:
    """The p99 of the run times of the narrowest kind; 0 without one."""
    before = []
    for other in jobs:
        if other.team == job.team and other.attempts[-1].state() == "completed":
            ended_ms = other.ended_ms or 0
            if at_ms - 30 * DAY_MS <= ended_ms < at_ms and other.wall_ms(2**60) > 0:
                before.append((ended_ms, other.job_id, other))
    before.sort(key=lambda each: each[:2])
    kinds = _kinds(job, [other for *_, other in before])
    for place, alike in enumerate(kinds):
        is_team = place == len(kinds) - 1
        if is_team and (any(len(each) >= 2 for each in kinds[:-1]) or not _is_as_large(job, alike[-1000:])):
            return 0
        if len(alike) >= of.length_jobs:
            lengths = sorted(other.wall_ms(2**60) for other in alike[-1000:])
            return next(ms for at, ms in enumerate(lengths, 1) if 100 * at >= 99 * len(lengths))
    return 0


def _is_as_large(job: PlainJob, others: Sequence[PlainJob]) -> bool:
    """Whether its GPUs are within four times of those of the median of them."""
    sizes = sorted(other.gpu_milli for other in others)
    median = sizes[len(sizes) // 2] if sizes else 0
    return max(job.gpu_milli, median) <= 4 * min(job.gpu_milli, median)
