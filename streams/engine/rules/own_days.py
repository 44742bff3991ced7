"""What is usual for one job: what it burned on earlier days when an alert about it opened at about the same time of the day.

A service that has three times as many GPUs from nine to five each day is as usual as a kind of jobs that each do so. Only alerts
that were over an hour before count, so that a replay of the log says the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, MINUTE_MS
from streams.engine.rules.formatting import rounded_usd
from streams.engine.rules.usual_figures import FACTOR, STORED_BY_MS, SURE_LENGTH_MS

#: So many days back, and of so many of them at least: a single fault that comes again is none, and weekends may be quiet.
DAYS: Final = 14
LEAST_DAYS: Final = 3
#: Alerts open at about the same time of the day if they do so within this: clocks change by an hour.
NEAR_MS: Final = 90 * MINUTE_MS
#: Where its kind has a history, a job is not usual by itself beyond so many times what is usual for the kind.
FAR: Final = 2


class EarlierAlert(NamedTuple):
    """An alert of a burn rule about the same job that is over."""

    started_ms: int
    resolved_ms: int
    nano_per_hour: int  # the most that is known of what the job paid meanwhile


class OwnDays(NamedTuple):
    """What the job reached on enough earlier days from about this time on, and for how long."""

    started_ms: int  # of the alert that is compared with them
    usual: int
    lasted_ms: int
    days: int
    factor: Fraction = FACTOR  # 0: nothing counts as usual

    def limit_at(self, at_ms: int, kind_usual: int | None) -> int:
        """Up to which rate the alert is withheld at an instant; below 0: it is not. `kind_usual`: of the job's kind, if it has one."""
        if not self.factor or at_ms > self.until_ms:
            return -1
        limit = int(self.factor * self.usual)
        return limit if kind_usual is None else min(limit, FAR * kind_usual)

    @property
    def until_ms(self) -> int:
        """Until when it is usual that it lasts."""
        return self.started_ms + int(self.factor * self.lasted_ms) + SURE_LENGTH_MS


def own_days(started_ms: int, earlier: Iterable[EarlierAlert]) -> OwnDays | None:
    """What is usual for an alert that opens, by those about its job before it; None: too few days had one like it.

    As of a kind, the greatest rate and the greatest length that enough days reached count.
    """
    by_day: dict[int, tuple[int, int]] = {}
    for each in earlier:
        days, off_ms = divmod(started_ms - each.started_ms + NEAR_MS, DAY_MS)
        if not 1 <= days <= DAYS or off_ms > 2 * NEAR_MS or each.resolved_ms > started_ms - STORED_BY_MS:
            continue
        nano, lasted_ms = by_day.get(days, (0, 0))
        by_day[days] = (
            max(nano, each.nano_per_hour),
            max(lasted_ms, each.resolved_ms - each.started_ms),
        )
    if len(by_day) < LEAST_DAYS:
        return None
    rates, lengths = (sorted(found, reverse=True) for found in zip(*by_day.values(), strict=True))
    return OwnDays(started_ms, rates[LEAST_DAYS - 1], lengths[LEAST_DAYS - 1], len(by_day))


def own_reason(own: OwnDays) -> str:
    """Why an alert is withheld, in words."""
    return (
        f"usual for this job: on {own.days} of the last {DAYS} days it cost up to {rounded_usd(own.usual)}/h"
        " from about this time on"
    )
