"""`held`: a job holds and pays for its GPUs for long, and is suspended or has not started.

A pure function of the attempts and of what they pay; a span may begin in the future, and stands unless the GPUs are released
or used before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import held_evidence
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


#: What an attempt does that holds GPUs and does not run.
HELD_PHASES: Final = ("starting", "suspended")


class HeldAttempt(NamedTuple):
    """An attempt that holds GPUs at a tick and does not run: what it does, since when, how many GPUs, and what it pays."""

    phase: str
    since_ms: int
    gpu_milli: int
    nano_per_ms: Fraction


def holding(line: Timeline) -> Iterator[Segment]:
    """The paid time of an attempt in which it holds GPUs and does not run."""
    return (
        segment
        for segment in line.paid(OPEN_MS)
        if segment.phase in HELD_PHASES and segment.values.gpu_milli > 0
    )


def held_spans(line: Timeline) -> tuple[Span, ...]:
    """When an attempt holds GPUs and does not run; a change of how many does not interrupt that."""
    return union((segment.start_ms, segment.end_ms) for segment in holding(line))


def _spans(known: JobKnown) -> Iterable[FactSpan]:
    longest_ms = round(known.thresholds["minutes"] * MINUTE_MS)
    least_nano = round(known.thresholds["least_usd_per_hour"] * NANO_PER_USD)
    for line in paid_after(known.timelines, known.since_ms):
        lines = known.lines.get(line.attempt, _NO_LINES)
        for since_ms, until_ms in held_spans(line):
            if since_ms + longest_ms < until_ms:
                for each in union(costly(lines, since_ms + longest_ms, until_ms, least_nano)):
                    yield FactSpan(*each)


def _standing(at: JobAt) -> HeldAttempt | None:
    """The attempt that does so at the tick; of several one that costs enough, and of those the longest."""
    least_nano = round(at.settings["held"]["least_usd_per_hour"] * NANO_PER_USD)

    def rank(each: HeldAttempt) -> tuple[bool, int]:
        return each.nano_per_ms * HOUR_MS >= least_nano, -each.since_ms

    return max(_at_tick(at.timelines, at.lines, at.at_ms), key=rank, default=None)


def _at_tick(
    timelines: Mapping[int, Timeline], lines: Mapping[int, Lines], at_ms: int
) -> Iterator[HeldAttempt]:
    for line in paid_after(timelines, at_ms):
        for segment in holding(line):
            if segment.start_ms <= at_ms < segment.end_ms:
                since_ms = next(a for a, b in held_spans(line) if a <= at_ms < b)
                rate = rate_at(lines.get(line.attempt, _NO_LINES), at_ms)
                yield HeldAttempt(segment.phase, since_ms, segment.values.gpu_milli, rate)


def _cause(at: JobAt) -> str:
    found = _standing(at)
    if found is None:
        return ""
    since = short_instant(found.since_ms, at.at_ms)
    per_hour = rounded_usd(per_hour_nano(found.nano_per_ms))
    long = span(at.at_ms - found.since_ms)
    return f"{found.phase} for {long}, since {since} UTC, and holds {gpus(found.gpu_milli)} at {per_hour}/h"


def _margins(at: JobAt) -> list[Margin]:
    of, standing = at.settings["held"], _standing(at)
    minutes = None if standing is None else (at.at_ms - standing.since_ms) / MINUTE_MS
    usd_per_hour = None if standing is None else float(standing.nano_per_ms * HOUR_MS / NANO_PER_USD)
    found = [from_threshold_on("minutes for which it holds GPUs and does not run", minutes, of["minutes"])]
    found += unless_zero("dollars per hour meanwhile", usd_per_hour, of["least_usd_per_hour"])
    return found


RULE: Final = JobRule(
    name="held",
    title="GPUs held without running",
    severity=TICKET,
    about=JOB,
    holds=(
        "a job that is suspended, or starts (`allocated` and not `started`), has held its GPUs for 30 min, and costs at least "
        "$1/h meanwhile; until it runs, releases them or ends"
    ),
    runbook="runbook.md#gpus-held-without-running",
    thresholds={
        "minutes": Threshold(30, 1, 10_080, "minutes for which it has held GPUs and has not run"),
        "least_usd_per_hour": Threshold(1, 0, 1e9, "dollars per hour that the attempt costs meanwhile"),
    }
    | page_from("dollars per hour that the job pays"),
    window_ms=5 * MINUTE_MS,
    spans=_spans,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: held_evidence(of.job_id, HELD_PHASES),
    words=Words(
        "has been {cause}",
        "release the GPUs (suspend without holding them) or resume it",
        "runs, or holds no GPUs any more",
        unknown="without running for long, and holds its GPUs",
        advice_on=(("starting for ", "find out why it does not start, or stop it"),),
    ),
    goes_on="all",
    waste=all_it_pays,
)
