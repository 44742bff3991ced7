"""When the alert rules about a job hold at a tick, by its figures."""

from __future__ import annotations

from streams.engine.kernels._jit import helper
from streams.engine.kernels.arrays import I64, as_int64
from streams.engine.kernels.burn import TRAFFIC_WINDOW
from streams.engine.kernels.episode import (
    FAST,
    RUNAWAY,
    SUSTAINED,
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
    traffic: bool = True,
    basis: bool = True,
) -> bool:
    """Whether both windows reach their ratios; `traffic`, `basis`: with that part of the cost."""
    long, short = limits.long_window[rule], limits.short_window[rule]
    profile = figures.profile[job]
    long_cost, short_cost = figures.cost_nano[tick, job, long], figures.cost_nano[tick, job, short]
    if not traffic:
        long_cost -= figures.traffic_nano[tick, job, long]
        short_cost -= figures.traffic_nano[tick, job, short]
    if not basis:
        long_cost -= figures.basis_nano[tick, job, long]
        short_cost -= figures.basis_nano[tick, job, short]
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
def is_over(tick: int, job: int, figures: EpisodeArrays) -> bool:
    """Whether the job has ended for good: for 10 min after a failure or preemption, a next attempt may follow."""
    return bool(figures.ended[tick, job] and not figures.undecided[tick, job])


@helper
def may_open(tick: int, job: int, rule: int, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether a rule that holds opens, unless another rule takes precedence."""
    long = limits.long_window[rule]
    extra = figures.cost_nano[tick, job, long] - figures.expected_nano[tick, job, long]
    return (
        extra >= limits.extra_nano[figures.profile[job], rule] - NOISE_NANO
        and figures.paid_whole[tick, job, limits.short_window[rule]]
        and not is_over(tick, job, figures)
    )


@helper
def overtakes(tick: int, job: int, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether traffic costs more than what accrues with time, and enough to matter."""
    traffic_nano = figures.traffic_nano[tick, job, TRAFFIC_WINDOW]
    profile = figures.profile[job]
    if traffic_nano < limits.traffic_nano[profile] - NOISE_NANO or is_over(tick, job, figures):
        return False
    rest_nano = max(figures.cost_nano[tick, job, TRAFFIC_WINDOW] - traffic_nano, 0.0)
    return bool(traffic_nano >= limits.traffic_ratio[profile] * rest_nano * (1.0 - NOISE_RATIO))


@helper
def _makes_page(
    tick: int, job: int, rule: int, is_open: bool, limits: RuleLimits, figures: EpisodeArrays
) -> bool:
    """Whether traffic alone makes a burn rule page, and is most of the extra cost; `is_open`: until that clears."""
    long, short = limits.long_window[rule], limits.short_window[rule]
    profile = figures.profile[job]
    traffic_nano = figures.traffic_nano[tick, job, long]
    if traffic_nano <= 0.0 or not (limits.enabled[profile] & limits.pages[profile]) >> rule & 1:
        return False
    extra_nano = figures.cost_nano[tick, job, long] - figures.expected_nano[tick, job, long]
    if 2.0 * traffic_nano < extra_nano * (1.0 - NOISE_RATIO):
        return False
    if is_open:
        cost_nano, expected_nano = (
            figures.cost_nano[tick, job, short],
            figures.expected_nano[tick, job, short],
        )
        pages = not is_over(tick, job, figures) and reaches(
            cost_nano, expected_nano, limits.clear_ratio[profile, rule]
        )
    else:
        pages = reaches_ratios(tick, job, rule, limits, figures) and may_open(
            tick, job, rule, limits, figures
        )
    return pages and not reaches_ratios(tick, job, rule, limits, figures, False)


@helper
def _moves(tick: int, job: int, is_open: bool, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether traffic overtakes the rest, or alone makes a burn rule page: that is the page about traffic."""
    if overtakes(tick, job, limits, figures):
        return True
    for rule in (as_int64(FAST), as_int64(SUSTAINED)):
        if _makes_page(tick, job, rule, is_open, limits, figures):
            return True
    return False


@helper
def runs_away(tick: int, job: int, times_ms: I64, limits: RuleLimits, figures: EpisodeArrays) -> bool:
    """Whether the job still accrues cost after its deadline, or for too long."""
    if not figures.paid_now[tick, job]:
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
        return runs_away(tick, job, times_ms, limits, figures)
    if rule == TRAFFIC:
        return _moves(tick, job, is_open, limits, figures)
    return bool(figures.facts[tick, job] >> rule & 1)
