"""Says in a few words why a rule about a job holds: the figures that the job's state shows at an instant.

Names stay on one line, whatever they contain.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from operator import attrgetter
from typing import Final

from schemas.durations import BEGINNING_MS, HOUR_MS, MINUTE_MS, NEVER_MS
from schemas.events import FLOW_FIELDS
from streams.engine.alerts.formatting import short, short_instant, span, times, unheeded, usd
from streams.engine.alerts.profiles import Profile
from streams.engine.job_rules.facts import JobFacts, rate_at
from streams.engine.job_rules.idle_gpus import WINDOW_MINUTES, IdleShare
from streams.engine.job_rules.retry_loop import within_an_hour
from streams.engine.kernels.bill import cost_of
from streams.engine.kernels.episode import (
    IDLE_GPUS,
    PRICE_BASIS,
    RETRY_LOOP,
    RUNAWAY,
    SILENT,
    TRAFFIC,
    UNPRICED,
)
from streams.engine.pricing.book import PriceBook
from streams.engine.state.job import JobState
from streams.engine.state.job_facts import payer_of
from streams.engine.timeline.lines import Flow, Lines

_REASONS_AT_MOST: Final = 3
_UNKNOWN: Final = "unknown"


def cause_of(
    rule: int,
    at_ms: int,
    job: JobState | None,
    facts: JobFacts,
    lines: Mapping[int, Lines],
    profile: Profile,
    book: PriceBook | None,
    first_paid_ms: int,
    idle: IdleShare | None,
) -> str:
    """Return why a fact of a job holds at an instant; '' if nothing is known of the job any more.

    `lines` are what each attempt pays.
    """
    if rule == UNPRICED:
        return unpriced_cause(facts, at_ms, bool(profile.threshold(UNPRICED, "traffic")))
    if rule == RETRY_LOOP:
        return retry_cause(facts, at_ms)
    if rule == RUNAWAY:
        return runaway_cause(facts, first_paid_ms, at_ms)
    if rule == PRICE_BASIS:
        return basis_cause(facts, lines, at_ms)
    if rule == IDLE_GPUS:
        return idle_cause(idle)
    if job is None or book is None:
        return ""
    if rule == SILENT:
        name = "minutes" if job.heard_ms > BEGINNING_MS else "never_heard_minutes"
        return span(round(profile.threshold(SILENT, name) * MINUTE_MS))
    return traffic_cause(job, book, at_ms) if rule == TRAFFIC else ""


def retry_cause(facts: JobFacts, at_ms: int) -> str:
    """Return how many attempts broke off within an hour, why, since when, and what they lost as far as it was asked."""
    end = bisect_right(facts.broken, at_ms, key=attrgetter("ended_ms"))
    if not end:
        return ""
    last = facts.broken[end - 1]
    first = bisect_right(facts.broken, last.ended_ms - HOUR_MS, 0, end, key=attrgetter("ended_ms"))
    alike = within_an_hour(facts.broken[first:end], last)
    verb = "failed" if last.failed else "was preempted"
    reasons = Counter(short(each.reason) or _UNKNOWN for each in alike).most_common(_REASONS_AT_MOST)
    named = ", ".join(reason if count == 1 else f"{reason} x{count}" for reason, count in reasons)
    within = span(max(last.ended_ms - alike[0].ended_ms, 1000))
    words = f"{verb} {len(alike)} times in {within} ({named}), last attempt {last.attempt}"
    lost = sum(facts.lost_nano.get(each.attempt, 0) for each in alike)
    return f"{words}, {usd(round(lost))} of work lost" if lost else words


def basis_cause(facts: JobFacts, lines: Mapping[int, Lines], at_ms: int) -> str:
    """Return which attempt pays which purchase at which rate, instead of which, and how much more that is."""
    for change in reversed(facts.basis):
        if any(from_ms <= at_ms < until_ms for from_ms, until_ms in change.spans):
            before, after = change.before, change.after
            # The rate of 5 min says little yet: the rule opens at the first tick of the attempt.
            now = rate_at(lines.get(change.attempt, {}), at_ms)
            extra_nano = round(now * (1 - before.rate / after.rate) * HOUR_MS)
            return (
                f"{short(after.purchase)} {_hourly(after.rate)} per GPU-h instead of {short(before.purchase)}"
                f" {_hourly(before.rate)} ({times(float(after.rate / before.rate))}) since attempt {change.attempt},"
                f" {unheeded(extra_nano, at_ms)}"
            )
    return "another purchase than before"


def _hourly(rate: Fraction) -> str:
    return usd(round(rate * HOUR_MS))


def runaway_cause(facts: JobFacts, first_paid_ms: int, at_ms: int) -> str:
    """Return how long after its deadline, or after its first paid instant, the job still accrues cost."""
    if facts.deadline_ms < NEVER_MS and facts.deadline_ms <= at_ms:
        late = f"{span(at_ms - facts.deadline_ms)} after" if facts.deadline_ms < at_ms else "at"
        return f"{late} its deadline, {short_instant(facts.deadline_ms, at_ms)} UTC"
    return f"after {span(at_ms - first_paid_ms)}, since {short_instant(first_paid_ms, at_ms)} UTC"


def idle_cause(share: IdleShare | None) -> str:
    """Return how much of the sampled GPU-time was productive."""
    if share is None:
        return "its GPUs idle"
    percent = 100 * share.productive_ms / share.sampled_ms
    gpus = share.sampled_ms / (WINDOW_MINUTES * MINUTE_MS)
    held = "1 GPU" if gpus == 1 else f"{gpus:.3g} GPUs"
    did = f"{percent:.1f} % productive" if share.productive_ms else "no work"
    return f"{held} idle: {did} in {WINDOW_MINUTES} min"


def unpriced_cause(facts: JobFacts, at_ms: int, traffic_counts: bool) -> str:
    """Return what has no price."""
    gpu, traffic = facts.unpriced_gpu_ms < at_ms, traffic_counts and facts.unpriced_traffic_ms < at_ms
    return "GPU-time and traffic" if gpu and traffic else "traffic" if traffic else "GPU-time"


def traffic_cause(job: JobState, book: PriceBook, at_ms: int) -> str:
    """Return the flow of traffic that costs most in the hour before."""
    costs = flow_costs(job, book, at_ms - HOUR_MS, at_ms)
    if not costs:
        return ""
    # Of equal ones the first by name: the order of amounts must not matter.
    return f": {min(costs, key=lambda flow: (-costs[flow], flow))}"


def flow_costs(job: JobState, book: PriceBook, from_ms: int, at_ms: int) -> Counter[str]:
    """Return what each flow of traffic cost in the minutes of [from_ms, at_ms], in nano-dollars, by its words."""
    minutes = [(from_ms // MINUTE_MS, at_ms // MINUTE_MS + 1)]
    costs: Counter[str] = Counter()
    for attempt in job.with_usage.values():
        if len(attempt.traffic):
            for rows in attempt.traffic.rows(minutes, book, *payer_of(job), ()).values():
                for line, (quantity, _) in rows.items():
                    nano = cost_of(quantity, line.price.usd_nano, line.price.divisor)
                    costs[flow_words(line.price.component, line.flow)] += nano
    return costs


def flow_words(component: str, flow: Flow) -> str:
    """Return a flow in words: its path and regions, or its component, operation and storage class."""
    said = {name: short(value) for name, value in zip(FLOW_FIELDS, flow, strict=True)}
    words = [said["path"] or component, said["op"], said["storage_class"]]
    if said["region"] or said["dst_region"]:
        ends = said["region"] or "?", said["dst_region"]
        words.append(" -> ".join(end for end in ends if end))
    return " ".join(word for word in words if word)
