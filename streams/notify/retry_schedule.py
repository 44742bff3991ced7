"""The retry schedule of messages: exponential back-off with full jitter, and the receiver's Retry-After."""

import re
from email.utils import parsedate_to_datetime
from typing import Final

SCHEDULE_MS: Final = (0, 1_000, 5_000, 30_000, 120_000, 300_000, 900_000, 1_800_000)
"""The longest wait before the first attempt, the second...; the last one stands for all that follow."""

LONGEST_RETRY_AFTER_MS: Final = 3_600_000
_SECONDS: Final = re.compile(r"[0-9]+", re.ASCII)


def delay_ms(attempts_made: int, jitter_ratio: float, asked_ms: int | None = None) -> int:
    """The wait before the next attempt: `jitter_ratio` of the schedule's wait, but at least `asked_ms`."""
    longest_ms = SCHEDULE_MS[min(attempts_made, len(SCHEDULE_MS) - 1)]
    return max(round(longest_ms * jitter_ratio), asked_ms or 0)


def retry_after_ms(header: str, now_ms: int) -> int | None:
    """Parse a Retry-After header, in seconds or as an HTTP date; at most an hour; None if it is invalid."""
    text = header.strip()
    if _SECONDS.fullmatch(text):
        # More digits than int() accepts count as the longest wait, too.
        return LONGEST_RETRY_AFTER_MS if len(text) > 9 else min(int(text) * 1000, LONGEST_RETRY_AFTER_MS)
    try:
        then_ms = round(parsedate_to_datetime(text).timestamp() * 1000)
    except (ValueError, OverflowError):
        return None
    return min(max(then_ms - now_ms, 0), LONGEST_RETRY_AFTER_MS)
