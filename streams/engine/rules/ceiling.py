"""`ceiling`: a job costs more per hour than any job may that nobody declared or planned.

A pure function of what its attempts pay: the only guard of the first job of its kind, which nothing can be compared with. Where
it can be compared, a burn rule tells more within minutes: for so long this one waits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache, partial
from itertools import pairwise
from math import ceil, lcm
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.burn_rule import dearer_price
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import gpus, rounded_usd, short_instant, span
from streams.engine.rules.job_view import (
    FactSpan,
    JobAt,
    JobKnown,
    JobRule,
    Words,
    per_hour_nano,
    yields_to_as_urgent,
)
from streams.engine.rules.rule import JOB, PAGE, Margin, Threshold, above_threshold, from_threshold_on
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.growing import paid_after
from streams.engine.timeline.intervals import Span, union
from streams.engine.timeline.lines import Lines
from streams.engine.windows.expected import Expected

#: So much more than was declared or planned is no other job.
_KNOWN_RATIO: Final = Fraction(6, 5)
#: What they tell of a job is what it costs, too.
_BURN_RULES: Final = ("burn_fast", "burn_sustained", "burn_drift")


class RateSteps(NamedTuple):
    """What attempts pay: (from_ms, until_ms, rate) in order of time, and the number of rate units of a nano-dollar per ms."""

    scale: int
    steps: list[tuple[int, int, int]]


def rate_steps(timelines: Mapping[int, Timeline], lines: Mapping[int, Lines], since_ms: int) -> RateSteps:
    """Return what attempts with events pay from `since_ms` on, in whole numbers: fractions are slow."""
    found = [
        lines[timeline.attempt]
        for timeline in paid_after(timelines, since_ms)
        if timeline.attempt in lines and not timeline.metered
    ]
    scale = lcm(*{line.price.divisor for each in found for line in each})
    changes: dict[int, int] = {}
    for each in found:
        for line, intervals in each.items():
            per_ms = line.price.usd_nano * (scale // line.price.divisor)
            for start_ms, end_ms, rate, _ in intervals if per_ms else ():
                if end_ms > since_ms:
                    changes[start_ms] = changes.get(start_ms, 0) + rate * per_ms
                    changes[end_ms] = changes.get(end_ms, 0) - rate * per_ms
    rate_now, steps = 0, []
    for from_ms, until_ms in pairwise(sorted(changes)):
        rate_now += changes[from_ms]
        steps.append((from_ms, until_ms, rate_now))
    return RateSteps(scale, steps)


def _spans(known: JobKnown) -> Iterable[FactSpan]:
    wait_ms = _wait_ms(known.thresholds)
    expected = Expected(known.job.declared(), known.planned, 0.0)
    # What began before by more than the wait is as good as what began then.
    for begin_ms, end_ms in _above(
        known.timelines, known.lines, known.thresholds, expected, known.since_ms - wait_ms - 1
    ):
        yield FactSpan(begin_ms + wait_ms + 1, end_ms)  # at its first instant nothing is paid yet


def _wait_ms(thresholds: Mapping[str, float]) -> int:
    return round(thresholds["minutes"] * MINUTE_MS)


@lru_cache(maxsize=256)
def _limit(usd_per_hour: float, scale: int) -> int:
    """The least rate, in whole units of which `scale` are a nano-dollar per ms, that is too much."""
    return ceil(Fraction(str(usd_per_hour)) * NANO_PER_USD * scale / HOUR_MS)


def _above(
    timelines: Mapping[int, Timeline],
    lines: Mapping[int, Lines],
    thresholds: Mapping[str, float],
    expected: Expected,
    since_ms: int,
) -> tuple[Span, ...]:
    """When the job pays more than it may; of what ends by `since_ms` some may be missing."""
    if not thresholds["usd_per_hour"]:
        return ()
    scale, steps = rate_steps(timelines, lines, since_ms)
    limit = _limit(thresholds["usd_per_hour"], scale)
    above: list[Span] = []
    for from_ms, until_ms, rate in steps:
        if rate < limit:
            continue
        per_hour = Fraction(rate * HOUR_MS, scale)
        pieces = expected.between(from_ms, until_ms)
        ends_ms = [*(begin_ms for begin_ms, _ in pieces[1:]), until_ms]
        for (begin_ms, said), end_ms in zip(pieces, ends_ms, strict=True):
            if per_hour > _KNOWN_RATIO * Fraction(said):
                above.append((begin_ms, end_ms))
    return union(above)


def _rate_now(at: JobAt) -> Fraction:
    scale, steps = rate_steps(at.timelines, at.lines, at.at_ms - 1)
    rate = next((rate for from_ms, until_ms, rate in steps if from_ms <= at.at_ms < until_ms), 0)
    return Fraction(rate, scale)


def _cause(at: JobAt) -> str:
    segments = [
        segment
        for line in paid_after(at.timelines, at.at_ms)
        for segment in line.paid(OPEN_MS)
        if segment.start_ms <= at.at_ms < segment.end_ms
    ]
    if not segments:
        return ""
    held = gpus(sum(segment.values.gpu_milli for segment in segments))
    since_ms = min(segment.start_ms for segment in segments)
    rate = rounded_usd(per_hour_nano(_rate_now(at)))
    limit = rounded_usd(round(at.settings["ceiling"]["usd_per_hour"] * NANO_PER_USD))
    for_ms = at.at_ms - since_ms
    since = f"for {span(for_ms)}, since {short_instant(since_ms, at.at_ms)} UTC"
    return f"{rate}/h with {held}, {since}; nobody declared or planned over {limit}/h"


def _margins(at: JobAt) -> list[Margin]:
    of = at.settings["ceiling"]
    limit, what = of["usd_per_hour"], "dollars per hour that it pays"
    if not limit or at.job is None:
        return [Margin(what, None, limit, None)]
    rate = _rate_now(at)
    expected = Expected(at.job.declared(), at.planned, 0.0)
    since_ms = at.at_ms - _wait_ms(of) - 1
    spans = _above(at.timelines, at.lines, of, expected, since_ms)
    begin_ms = next((begin_ms for begin_ms, end_ms in spans if begin_ms < at.at_ms < end_ms), None)
    minutes = None if begin_ms is None else (at.at_ms - 1 - begin_ms) / MINUTE_MS
    found = [
        yields_to_as_urgent(_BURN_RULES, "ceiling", at),
        from_threshold_on(what, float(rate * HOUR_MS / NANO_PER_USD), limit),
        from_threshold_on("minutes for which it has paid more than it may", minutes, of["minutes"]),
    ]
    said = expected.at(at.at_ms)
    if said:
        ratio = rate * HOUR_MS / Fraction(said)
        what, is_above = "that / what was declared or planned (holds above)", ratio > _KNOWN_RATIO
        found.append(above_threshold(what, float(ratio), float(_KNOWN_RATIO), is_above=is_above))
    return found


RULE: Final = JobRule(
    name="ceiling",
    title="Above the ceiling",
    severity=PAGE,
    about=JOB,
    holds="for 5 min it has paid $500/h or more, and more than 1.2 times what was declared or planned, if anything was",
    runbook="runbook.md#above-the-ceiling",
    yields_to=_BURN_RULES,
    thresholds={
        "usd_per_hour": Threshold(500, 0, 1e9, "dollars per hour that a job pays; 0: not looked at"),
        "minutes": Threshold(5, 1, 10_080, "minutes for which it pays so much: a burn rule tells more"),
    },
    window_ms=5 * MINUTE_MS,
    planned_quiets=True,
    spans=_spans,
    cause=_cause,
    shares=partial(dearer_price, HOUR_MS),
    margins=_margins,
    evidence=lambda of: attempts_evidence(of.job_id),
    words=Words(
        "pays {cause}",
        "stop or shrink it, or declare or plan it",
        "pays less, or its rate is declared, planned or acknowledged",
        unknown="more than any job may that nobody declared or planned",
    ),
    goes_on="all",
)
