"""When the alert rules about a job hold at a tick, by its figures."""

from __future__ import annotations

from schemas.durations import HOUR_MS
from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import I64, as_int64
from streams.engine.kernels.burn import QUARTER_WINDOW, TRAFFIC_WINDOW
from streams.engine.kernels.episode import (
    DIGEST_LEVEL,
    PAGE_LEVEL,
    RUNAWAY,
    TICKET_LEVEL,
    TRAFFIC,
    UNSEEN,
    EpisodeArrays,
    RuleLimits,
)

# Costs are sums of doubles: a value below a threshold by less than their rounding error has reached it. An expected
# cost below half a nano-dollar is the remainder of a difference, not an expectation.
NOISE_RATIO = 1e-9
NOISE_NANO = 1.0
LEAST_EXPECTED_NANO = 0.5
#: An alert about traffic clears below so much of its thresholds, one about burn below so much of its short ratio.
CLEARS_BELOW = 0.8
#: Up to so many times what was expected an hour with traffic is as expected.
ANNOUNCED_RATIO = 1.2
#: A job has started: until then it may fetch what it needs.
START_MS = HOUR_MS
#: Traffic of an hour is young if it is less than so many times that of its last quarter.
YOUNG_RATIO = 1.25


@helper
def reaches(cost: float, expected: float, ratio: float) -> bool:
    """Whether cost / expected >= ratio; false where nothing is expected."""
    return expected >= LEAST_EXPECTED_NANO and cost >= ratio * expected * (1.0 - NOISE_RATIO)


@helper
def reaches_ratios(
    tick: int,
    job: int,
    rule: int,
    limits: RuleLimits,
    figures: EpisodeArrays,
    basis: bool = True,
) -> bool:
    """Whether what accrues with time reaches both ratios; `basis`: with the part that `price_basis` tells of."""
    long, short = limits.long_window[rule], limits.short_window[rule]
    profile = figures.profile[job]
    long_cost, short_cost = accrued(tick, job, long, figures), accrued(tick, job, short, figures)
    if not basis:
        long_cost = without_basis(tick, job, long, figures)
        short_cost = without_basis(tick, job, short, figures)
    # The shorter window first: most jobs fail it.
    return reaches(
        short_cost,
        figures.expected_nano[tick, job, short],
        limits.short_ratio[profile, rule],
    ) and reaches(
        long_cost,
        figures.expected_nano[tick, job, long],
        limits.long_ratio[profile, rule],
    )


@helper
def accrued(tick: int, job: int, window: int, figures: EpisodeArrays) -> float:
    """What accrued with time in a window: traffic has a rule of its own."""
    return float(figures.cost_nano[tick, job, window] - figures.traffic_nano[tick, job, window])


@helper
def without_basis(tick: int, job: int, window: int, figures: EpisodeArrays) -> float:
    """What accrued with time in a window, without the part that `price_basis` tells of."""
    cost_nano = figures.cost_nano[tick, job, window] - figures.traffic_nano[tick, job, window]
    return float(cost_nano - figures.basis_nano[tick, job, window])


@helper
def is_over(tick: int, job: int, figures: EpisodeArrays) -> bool:
    """Whether the job has ended for good: for 10 min after a failure or preemption, a next attempt may follow."""
    return bool(figures.ended[tick, job] and not figures.undecided[tick, job])


@helper
def may_open(tick: int, job: int, rule: int, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether a rule that holds opens, unless another rule takes precedence."""
    long = limits.long_window[rule]
    extra = accrued(tick, job, long, figures) - figures.expected_nano[tick, job, long]
    return (
        extra >= limits.extra_nano[figures.profile[job], rule] - NOISE_NANO
        and figures.paid_whole[tick, job, limits.short_window[rule]]
        and not is_over(tick, job, figures)
    )


@helper
def extra_rate(tick: int, job: int, figures: EpisodeArrays) -> float:
    """What a job pays per hour at a tick above the expected rate, in nano-dollars."""
    return float(figures.now_rate[tick, job] - figures.expected_rate[tick, job])


@helper
def burn_level(tick: int, job: int, rule: int, limits: RuleLimits, figures: EpisodeArrays) -> int:
    """How urgent an alert of a burn rule is at a tick: by the dollars per hour above the expected rate."""
    profile = figures.profile[job]
    extra = extra_rate(tick, job, figures)
    if limits.pages[profile] >> rule & 1:
        return as_int64(PAGE_LEVEL)
    if extra >= limits.page_nano[profile, rule] * (1.0 - NOISE_RATIO):
        return as_int64(PAGE_LEVEL)
    is_ticket = extra >= limits.ticket_nano[profile, rule] * (1.0 - NOISE_RATIO)
    return as_int64(TICKET_LEVEL if is_ticket else DIGEST_LEVEL)


@helper
def _is_most(traffic_nano: float, rest_nano: float, ratio: float) -> bool:
    """Whether traffic reaches a ratio to what accrues with time."""
    return traffic_nano >= ratio * rest_nano * (1.0 - NOISE_RATIO)


@helper
def _is_young(quarter_nano: float, hour_nano: float, dear_nano: float) -> bool:
    """Whether nearly all traffic of an hour is of its last quarter, which does not tell yet whether the hour becomes dear."""
    return hour_nano < YOUNG_RATIO * quarter_nano * (1.0 - NOISE_RATIO) and 4.0 * quarter_nano < dear_nano


@helper
def moves(tick: int, job: int, is_open: bool, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether traffic is more than the job should cost, and dear, new, or the same again and again.

    `is_open`: an alert goes on until it is clearly less, or does not come again.
    """
    traffic_nano = figures.traffic_nano[tick, job, TRAFFIC_WINDOW]
    profile = figures.profile[job]
    least_nano = limits.traffic_nano[profile] - NOISE_NANO
    repeated_nano = figures.recurring_nano[tick, job] if is_open else figures.repeated_nano[tick, job]
    if (traffic_nano < CLEARS_BELOW * least_nano and repeated_nano < least_nano) or is_over(
        tick, job, figures
    ):
        return False
    cost_nano = figures.cost_nano[tick, job, TRAFFIC_WINDOW]
    rest_nano = max(cost_nano - traffic_nano, 0.0)
    announced_nano = ANNOUNCED_RATIO * figures.expected_nano[tick, job, TRAFFIC_WINDOW] * (1.0 + NOISE_RATIO)
    ratio, repeated_ratio = limits.traffic_ratio[profile], limits.traffic_repeated_ratio[profile]
    if (
        repeated_nano >= least_nano
        and _is_most(repeated_nano, rest_nano, repeated_ratio)
        # Between two bursts an hour may have nothing.
        and rest_nano + figures.recurring_nano[tick, job] / 2.0 > announced_nano
    ):
        return True
    if cost_nano <= announced_nano:
        return False
    if is_open:
        return bool(
            traffic_nano >= CLEARS_BELOW * least_nano
            and _is_most(traffic_nano, rest_nano, CLEARS_BELOW * ratio)
        )
    if traffic_nano < least_nano or not _is_most(traffic_nano, rest_nano, ratio):
        return False
    dear_nano = limits.traffic_dear_nano[profile] - NOISE_NANO
    if traffic_nano >= dear_nano:
        return True
    steady_nano = figures.steady_nano[tick, job]
    if steady_nano >= least_nano and _is_most(steady_nano, rest_nano, ratio):
        return True
    if _is_young(figures.traffic_nano[tick, job, QUARTER_WINDOW], traffic_nano, dear_nano):
        return False
    began_nano = limits.traffic_start_times[profile] * figures.start_nano[job] * (1.0 + NOISE_RATIO)
    return bool(figures.since_paid_ms[tick, job] >= START_MS and traffic_nano > began_nano)


@helper
def runs_away(
    tick: int, job: int, is_open: bool, times_ms: I64, limits: RuleLimits, figures: EpisodeArrays
) -> bool:
    """Whether the job still accrues cost after its deadline, or for too long.

    `is_open`: an alert goes on while the next attempt may follow.
    """
    if not (figures.paid_now[tick, job] or (is_open and figures.undecided[tick, job])):
        return False
    profile = figures.profile[job]
    return bool(
        times_ms[tick] >= figures.deadline_ms[job] + limits.grace_ms[profile]
        or figures.since_paid_ms[tick, job] >= limits.longest_ms[profile]
    )


@helper
def holds_at(
    rule: int, tick: int, job: int, is_open: bool, times_ms: I64, limits: RuleLimits, figures: EpisodeArrays
) -> bool:
    """Whether a fact holds, whether or not its rule applies."""
    if figures.facts[tick, job] >> (rule + UNSEEN) & 1:
        return is_open
    if rule == RUNAWAY:
        return runs_away(tick, job, is_open, times_ms, limits, figures)
    if rule == TRAFFIC:
        return moves(tick, job, is_open, limits, figures)
    return bool(figures.facts[tick, job] >> rule & 1)
