"""All facts of one job: when the conditions of its rules hold, as far as its state says.

A pure function of the job's state, of what it pays, and of the settings of its rules; the kernel compares times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS, MINUTE_MS, NEVER_MS
from schemas.reserved import is_canary_job
from schemas.units import NANO_PER_USD
from streams.engine.alerts.profiles import Profile
from streams.engine.job_rules.price_basis import BasisChange, basis_changes, has_several_purchases
from streams.engine.job_rules.retry_loop import BrokenAttempt, BrokenAttempts, RetryLimits, retry_spans
from streams.engine.job_rules.silent_job import silent_spans
from streams.engine.kernels.episode import PRICE_BASIS, RETRY_LOOP, SILENT, UNPRICED
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import done_ms
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines
from streams.engine.windows.curves import Fact
from streams.engine.windows.expected import Expected

#: More spans of a rule say nothing new: the last ones count.
_SPANS_AT_MOST: Final = 16


class JobFacts(NamedTuple):
    """The facts but `silent_job`, which depends on every sample; and what sentences need of them."""

    rows: tuple[Fact, ...] = ()
    deadline_ms: int = NEVER_MS
    broken: Sequence[BrokenAttempt] = ()
    lost_nano: Mapping[int, Fraction] = {}  # of those attempts whose loss was asked for
    basis: Sequence[BasisChange] = ()
    unpriced_gpu_ms: int = NEVER_MS
    unpriced_traffic_ms: int = NEVER_MS


def facts_of(
    job: JobState,
    lines: Mapping[int, Lines],
    profile: Profile,
    unpriced_gpu_ms: int,
    unpriced_traffic_ms: int,
    planned: Sequence[tuple[int, int, int]] = (),
    breaks: BrokenAttempts | None = None,
    since_ms: int = BEGINNING_MS,
) -> JobFacts:
    """Return the facts; those of retries that are over by `since_ms` may be missing. `lines` are what each billed attempt pays, the instants those from which on a price is missing.

    `planned` is that of Expected; `breaks` are those of the job, as of any earlier time.
    """
    timelines = job.timelines()
    unpriced_ms = unpriced_gpu_ms
    if is_canary_job(job.id):
        unpriced_traffic_ms = NEVER_MS  # the meter's own test job sends an amount that nobody prices
    if profile.threshold(UNPRICED, "traffic"):
        unpriced_ms = min(unpriced_ms, unpriced_traffic_ms)
    rows: list[Fact] = []
    if unpriced_ms < NEVER_MS:
        rows.append(Fact(UNPRICED, unpriced_ms + 1, NEVER_MS))
    broken: Sequence[BrokenAttempt] = ()
    basis: list[BasisChange] = []
    lost: dict[int, Fraction] = {}
    if len(timelines) > 1:
        broken = (breaks or BrokenAttempts()).update(timelines)

        def lost_nano(attempt: int) -> Fraction:
            if attempt not in lost:
                lost[attempt] = _cost_in(lines.get(attempt, {}), timelines[attempt].lost)
            return lost[attempt]

        spans = retry_spans(broken, _retry_limits(profile), lost_nano, done_ms(job, timelines), since_ms)
        rows += [Fact(RETRY_LOOP, *span) for span in spans[-_SPANS_AT_MOST:]]
        if has_several_purchases(job.fields_held()):
            basis = basis_changes(
                timelines,
                Fraction(str(profile.threshold(PRICE_BASIS, "rise_ratio"))),
                lambda attempt, at_ms: rate_at(lines.get(attempt, {}), at_ms),
                Expected(job.declared(), planned, 0.0),
            )
        risen = [Fact(PRICE_BASIS, *span, change.extra_ratio) for change in basis for span in change.spans]
        rows += risen[-_SPANS_AT_MOST:]
    return JobFacts(tuple(rows), job.deadline_ms(), broken, lost, basis, unpriced_gpu_ms, unpriced_traffic_ms)


def silent_rows(job: JobState, timelines: Mapping[int, Timeline], profile: Profile) -> tuple[Fact, ...]:
    """Return the fact `silent_job`."""
    minutes = (profile.threshold(SILENT, name) for name in ("minutes", "never_heard_minutes"))
    lapse_ms, never_ms = (round(each * MINUTE_MS) for each in minutes)
    return tuple(Fact(SILENT, *span) for span in silent_spans(timelines, job.heard_ms, lapse_ms, never_ms))


def _retry_limits(profile: Profile) -> RetryLimits:
    failures, preemptions, lost_usd = profile.rules[RETRY_LOOP].thresholds
    return RetryLimits(round(failures), round(preemptions), round(lost_usd * NANO_PER_USD))


def _cost_in(lines: Lines, spans: Sequence[Span]) -> Fraction:
    """Return what the lines cost in these disjoint spans, in nano-dollars."""
    total = Fraction(0)
    for line, intervals in lines.items():
        if line.price.usd_nano:
            quantity = sum(
                rate * max(min(end_ms, until_ms) - max(start_ms, from_ms), 0)
                for start_ms, end_ms, rate, _ in intervals
                for from_ms, until_ms in spans
            )
            total += Fraction(quantity * line.price.usd_nano, line.price.divisor)
    return total


def rate_at(lines: Lines, at_ms: int) -> Fraction:
    """Return what the lines cost at an instant, in nano-dollars per ms."""
    return sum(
        (
            Fraction(rate * line.price.usd_nano, line.price.divisor)
            for line, intervals in lines.items()
            for start_ms, end_ms, rate, _ in intervals
            if start_ms <= at_ms < end_ms
        ),
        Fraction(0),
    )
