"""When what an attempt pays reaches an amount, or a rate: instants and spans that rules about a job begin at."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from math import lcm

from schemas.durations import HOUR_MS
from streams.engine.rules.job_view import rate_at
from streams.engine.timeline.attempts import OPEN_MS
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines


def costly(lines: Lines, from_ms: int, until_ms: int, nano_per_hour: int) -> Iterator[Span]:
    """The parts of [from_ms, until_ms) in which the lines cost at least so much."""
    edges = {edge for intervals in lines.values() for interval in intervals for edge in interval[:2]}
    cuts = [from_ms, *sorted(edge for edge in edges if from_ms < edge < until_ms), until_ms]
    for start_ms, end_ms in pairwise(cuts):
        if rate_at(lines, start_ms) * HOUR_MS >= nano_per_hour:
            yield start_ms, end_ms


def cost_reached_ms(lines: Lines, since_ms: int, nano: int) -> int:
    """When the cost since an instant first is as large as this, in nano-dollars; OPEN_MS: never."""
    if nano <= 0:
        return since_ms
    # Whole numbers of one denominator: this is computed at each event of a job, and fractions are slow.
    scale = lcm(*{line.price.divisor for line in lines})
    changes: dict[int, int] = {}
    for line, intervals in lines.items():
        per_ms = line.price.usd_nano * (scale // line.price.divisor)
        for start_ms, end_ms, rate, _ in intervals if per_ms else ():
            if end_ms > since_ms:
                begin_ms = max(start_ms, since_ms)
                changes[begin_ms] = changes.get(begin_ms, 0) + rate * per_ms
                changes[end_ms] = changes.get(end_ms, 0) - rate * per_ms
    left, rate_now, at_ms = nano * scale, 0, since_ms
    for change_ms in sorted(changes):
        if rate_now and left <= rate_now * (change_ms - at_ms):
            return at_ms - -left // rate_now
        left -= rate_now * (change_ms - at_ms)
        rate_now, at_ms = rate_now + changes[change_ms], change_ms
    return OPEN_MS
