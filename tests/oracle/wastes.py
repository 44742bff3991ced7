"""What is wasted while a rule about a job holds, from where on that is a page, and what may go on in the next attempt.

Must import nothing of the project.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from tests.oracle.burn import Burn


def _all_it_pays(now: Burn, at_ms: int) -> int | Fraction:
    return now.cost.rate(now.burning_ms(at_ms))


#: What is wasted while a rule holds, as costs per ms, of the rules that know it.
WASTES: dict[str, Callable[[Burn, int], int | Fraction | None]] = {
    "idle_gpus": Burn.idle_waste,
    "held": _all_it_pays,
    "stalled": _all_it_pays,
    "slow_progress": lambda now, at_ms: now.attempts.slow_share() * _all_it_pays(now, at_ms),
    "traffic": Burn.traffic_waste,
    "silent_job": _all_it_pays,
    "no_checkpoint": _all_it_pays,
    "runaway_length": lambda now, at_ms: now.cost.rate(now.burning_ms(at_ms)) if now.is_late(at_ms) else None,
    "retry_loop": lambda now, at_ms: now.attempts.lost_per_ms(at_ms),
}
#: What may go on in the next attempt: whether it has since an instant.
GOES_ON: dict[str, Callable[[Burn, int], bool]] = {
    "no_checkpoint": lambda now, since_ms: now.attempts.saved_nothing_since(since_ms),
}


def page_usd(rule: str, now: Burn, at_ms: int) -> Fraction:
    """From how many dollars wasted per hour on an alert is a page."""
    thresholds = now.settings[rule].thresholds
    if rule == "retry_loop" and now.attempts.saves_most(at_ms):
        return max(thresholds["page_usd_per_hour"], thresholds["saving_page_usd_per_hour"])
    return thresholds["page_usd_per_hour"]
