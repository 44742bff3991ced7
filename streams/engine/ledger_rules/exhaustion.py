"""What a budget's subject is to use until the end of its period, and when its budget is used up.

A run goes on at the rate of its last hour; what is shared goes on as in like hours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from schemas.durations import HOUR_MS
from streams.engine.ledger_rules.like_hours import outlook
from streams.engine.ledger_rules.periods import CalendarPeriod
from streams.engine.ledger_rules.subject import BudgetSubject
from streams.engine.ledger_rules.usage import Usage, limits_of


def to_come(
    subject: BudgetSubject, usage: Usage, ends_ms: int, at_ms: NDArray[np.int64]
) -> NDArray[np.int64]:
    """What is to be used from each of these whole minutes until the end, [3, len(at_ms)]."""
    per_hour = usage.per_hour(at_ms)
    if subject.run is not None:
        whole, rest_ms = np.divmod(np.maximum(ends_ms - at_ms, 0), HOUR_MS)
        rest = per_hour // HOUR_MS * rest_ms + per_hour % HOUR_MS * rest_ms // HOUR_MS
        return np.asarray(per_hour * whole + rest)
    found = np.zeros((3, len(at_ms)), np.int64)
    hours, first = np.unique(at_ms // HOUR_MS, return_index=True)
    for hour, begin, end in zip(hours, first, np.append(first, len(at_ms))[1:], strict=True):
        if hour * HOUR_MS < ends_ms:
            seen = outlook(usage, int(hour) * HOUR_MS, ends_ms, subject.budget.calendar)
            found[:, begin:end] = seen.until_end(at_ms[begin:end], per_hour[:, begin:end])
    return found


def exhausted_in_ms(subject: BudgetSubject, usage: Usage, period: CalendarPeriod, at_ms: int) -> int | None:
    """Return in how many ms the first limit is used up, as seen at a whole minute; 0: it is, None: not in this period.

    Without an end, and of a run: at the rate of the last hour.
    """
    used, per_hour = usage.used_at(period, at_ms), usage.per_hour_at(at_ms)
    limits = limits_of(subject.budget.limits)
    left = tuple(
        None if limit is None else max(limit - each, 0) for limit, each in zip(limits, used, strict=True)
    )
    if 0 in left:
        return 0
    ends_ms = period.end_ms
    if subject.run is not None or ends_ms is None:
        pairs = zip(left, per_hour, strict=True)
        found = [each * HOUR_MS // rate for each, rate in pairs if each is not None and rate > 0]
        return min(found, default=None)
    if at_ms >= ends_ms:
        return None
    seen = outlook(usage, at_ms // HOUR_MS * HOUR_MS, ends_ms, subject.budget.calendar)
    used_up_ms = seen.used_up_ms(at_ms, left, per_hour)
    return None if used_up_ms is None else used_up_ms - at_ms
