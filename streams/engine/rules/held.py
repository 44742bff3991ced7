"""`held`: a job is suspended, and holds and pays for its GPUs for long.

A pure function of the attempts and of what they pay; a span may begin in the future, and stands unless the GPUs are released
or used before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import suspended_evidence
from streams.engine.rules.formatting import gpus, rounded_usd, short_instant, span
from streams.engine.rules.job_view import (
    FactSpan,
    JobAt,
    JobKnown,
    JobRule,
    Words,
    all_it_pays,
    per_hour_nano,
    rate_at,
)
from streams.engine.rules.line_costs import costly
from streams.engine.rules.rule import (
    JOB,
    TICKET,
    Margin,
    Threshold,
    from_threshold_on,
    page_from,
    unless_zero,
)
from streams.engine.timeline.attempts import OPEN_MS, Segment, Timeline
from streams.engine.timeline.growing import paid_after
from streams.engine.timeline.intervals import Span, union
from streams.engine.timeline.lines import Lines

_NO_LINES: Final[Lines] = {}


class Suspension(NamedTuple):
    """An attempt that is suspended at a tick and holds GPUs: since when, how many, and what it pays."""

    since_ms: int
    gpu_milli: int
    nano_per_ms: Fraction


def holding(line: Timeline) -> Iterator[Segment]:
    """The paid time of an attempt in which it is suspended and holds GPUs."""
    return (
        segment
        for segment in line.paid(OPEN_MS)
        if segment.phase == "suspended" and segment.values.gpu_milli > 0
    )


def suspensions(line: Timeline) -> tuple[Span, ...]:
    """When an attempt is suspended and holds GPUs; a change of how many does not interrupt that."""
    return union((segment.start_ms, segment.end_ms) for segment in holding(line))


def _spans(known: JobKnown) -> Iterable[FactSpan]:
    longest_ms = round(known.thresholds["minutes"] * MINUTE_MS)
    least_nano = round(known.thresholds["least_usd_per_hour"] * NANO_PER_USD)
    for line in paid_after(known.timelines, known.since_ms):
        lines = known.lines.get(line.attempt, _NO_LINES)
        for since_ms, until_ms in suspensions(line):
            if since_ms + longest_ms < until_ms:
                for each in union(costly(lines, since_ms + longest_ms, until_ms, least_nano)):
                    yield FactSpan(*each)


def _standing(at: JobAt) -> Suspension | None:
    """The suspension at the tick; of several one that costs enough, and of those the longest."""
    least_nano = round(at.settings["held"]["least_usd_per_hour"] * NANO_PER_USD)

    def rank(each: Suspension) -> tuple[bool, int]:
        return each.nano_per_ms * HOUR_MS >= least_nano, -each.since_ms

    return max(_at_tick(at.timelines, at.lines, at.at_ms), key=rank, default=None)


def _at_tick(
    timelines: Mapping[int, Timeline], lines: Mapping[int, Lines], at_ms: int
) -> Iterator[Suspension]:
    for line in paid_after(timelines, at_ms):
        for segment in holding(line):
            if segment.start_ms <= at_ms < segment.end_ms:
                since_ms = next(a for a, b in suspensions(line) if a <= at_ms < b)
                rate = rate_at(lines.get(line.attempt, _NO_LINES), at_ms)
                yield Suspension(since_ms, segment.values.gpu_milli, rate)


def _cause(at: JobAt) -> str:
    found = _standing(at)
    if found is None:
        return ""
    since = short_instant(found.since_ms, at.at_ms)
    per_hour = rounded_usd(per_hour_nano(found.nano_per_ms))
    return f"{span(at.at_ms - found.since_ms)}, since {since} UTC, and holds {gpus(found.gpu_milli)} at {per_hour}/h"


def _margins(at: JobAt) -> list[Margin]:
    of, standing = at.settings["held"], _standing(at)
    minutes = None if standing is None else (at.at_ms - standing.since_ms) / MINUTE_MS
    usd_per_hour = None if standing is None else float(standing.nano_per_ms * HOUR_MS / NANO_PER_USD)
    found = [from_threshold_on("minutes suspended while it holds GPUs", minutes, of["minutes"])]
    found += unless_zero("dollars per hour meanwhile", usd_per_hour, of["least_usd_per_hour"])
    return found


RULE: Final = JobRule(
    name="held",
    title="Suspended with GPUs",
    severity=TICKET,
    about=JOB,
    holds="a suspended job has held its GPUs for 30 min, and costs at least $1/h meanwhile; until it is resumed, releases them or ends",
    runbook="runbook.md#suspended-with-gpus",
    thresholds={
        "minutes": Threshold(30, 1, 10_080, "minutes for which it has been suspended while it holds GPUs"),
        "least_usd_per_hour": Threshold(1, 0, 1e9, "dollars per hour that the attempt costs meanwhile"),
    }
    | page_from("dollars per hour that the job pays"),
    window_ms=5 * MINUTE_MS,
    spans=_spans,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: suspended_evidence(of.job_id),
    words=Words(
        "has been suspended for {cause}",
        "release the GPUs (suspend without holding them) or resume it",
        "is resumed, or holds no GPUs any more",
        unknown="long, and holds its GPUs",
    ),
    goes_on="all",
    waste=all_it_pays,
)
