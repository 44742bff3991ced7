"""What makes two failures hours apart a slow loop: the same for attempts of a job and for jobs of a run."""

from __future__ import annotations

from fractions import Fraction
from typing import Final

from schemas.durations import MINUTE_MS

#: What a few short attempts lost in a minute or two says little of an hour.
LEAST_SPAN_MS: Final = 15 * MINUTE_MS
#: What two attempts of a slow loop lost is at least this share of what was paid: such a loop saves hardly anything.
SLOW_LOST_RATIO: Final = 0.5
_HOLDS_HALVES: Final = 3


def hold_ms(period_ms: int) -> int:
    """For how long a slow loop goes on after its last attempt: half as long again as lies between its attempts."""
    return _HOLDS_HALVES * period_ms // 2


def is_mostly_lost(lost_nano: Fraction | int, paid_nano: Fraction | int) -> bool:
    """Whether that share of what was paid is lost."""
    return lost_nano >= Fraction(SLOW_LOST_RATIO) * paid_nano
