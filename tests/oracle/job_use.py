"""Which jobs have busy GPUs that do little, judged the plain way: half hour by half hour, at one instant.

Must import nothing of the project. Times are epoch milliseconds; GPU-time is in ms.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

MINUTE_MS = 60_000
HALF_HOUR_MS = 1_800_000
LATE_MS = 2 * MINUTE_MS


class Minute(NamedTuple):
    """What a job's GPUs did in a minute, and what was paid for them; None: that is not sampled."""

    busy: float
    sm: float | None
    tensor: float | None
    usd_per_hour: float
    gpus: int


def _is_low(minutes: Mapping[int, Minute], end_ms: int, measure: str) -> bool:
    """ "busy for a fifth of the time or more, and their tensor cores active for 2 % of it at most, or their multiprocessors for 10 %" """
    found = [minutes[at] for back in range(1, 31) if (at := end_ms - LATE_MS - back * MINUTE_MS) in minutes]
    active = [value for each in found if (value := getattr(each, measure)) is not None]
    if not active or 2 * len(active) < len(found):
        return False
    most = (
        100 if measure == "sm" else 20
    )  # permille, whole: sums of doubles miss a threshold by their last digit
    busy = sum(round(1000 * each.busy) for each in found)
    return busy >= 200 * len(found) and sum(round(1000 * each) for each in active) <= most * len(active)


def inefficient(minutes: Mapping[int, Minute], at_ms: int, fires: bool) -> bool:
    """ "in each half hour of the last 2 h ...; at $1.50 a GPU-hour or more, and $1/h are wasted; until they do more for an hour" """
    ends = [at_ms - back * HALF_HOUR_MS for back in range(4)]
    if fires:
        return any(_is_low(minutes, each, measure) for each in ends[:2] for measure in ("sm", "tensor"))
    for measure in ("sm", "tensor"):
        if all(_is_low(minutes, each, measure) for each in ends):
            whole = [each for at, each in minutes.items() if ends[-1] - HALF_HOUR_MS <= at + LATE_MS < at_ms]
            usd_per_hour = sum(each.usd_per_hour for each in whole) / 120
            per_gpu = sum(each.usd_per_hour for each in whole) / sum(each.gpus for each in whole)
            known = [each.sm for each in whole if each.sm is not None]
            if 2 * len(known) < len(whole):
                known = [each.tensor for each in whole if each.tensor is not None]
            return per_gpu >= 1.5 and usd_per_hour * (1 - sum(known) / len(known)) >= 1
    return False
