"""Which sources are silent, judged the plain way: minute by minute, from the times of their records.

Must import nothing of the project. Times are epoch milliseconds.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS


def silent_source(
    records: Sequence[tuple[int, bool]], until_ms: int, hours: int = 3
) -> Iterator[tuple[int, str]]:
    """ "has reported 3 times or more, has said nothing for 3 h, and for 3 times as long as usual between its last 10 records; until it
    reports, is forgotten, or has been silent for 7 days": when its alert changes, and how. `records`: when, and whether it was forgotten.
    """
    is_firing = False
    for now_ms in range(0, until_ms + 1, MINUTE_MS):
        times: list[int] = []
        for at_ms, is_forgotten in records:
            if at_ms < now_ms:
                times = [] if is_forgotten else [*times, at_ms]
        last = times[-10:]
        holds = False
        if len(last) >= 3:
            silent_ms = now_ms - last[-1]
            holds = hours * HOUR_MS <= silent_ms < 168 * HOUR_MS and silent_ms >= 3 * _median(last)
        if holds != is_firing:
            yield now_ms, "firing" if holds else "resolved"
        is_firing = holds


def _median(times: Sequence[int]) -> Fraction:
    gaps = sorted(times[place] - times[place - 1] for place in range(1, len(times)))
    middle = len(gaps) // 2
    return Fraction(gaps[middle]) if len(gaps) % 2 else Fraction(gaps[middle - 1] + gaps[middle], 2)
