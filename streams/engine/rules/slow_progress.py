"""`slow_progress`: a running job does far less per hour than it did before, on as many GPUs, and pays as much.

A pure function of the progress that it reports and of what it pays. It compares a job with itself alone, so its first hour is quiet,
and so is a job that reports none. What stands still altogether is for `stalled`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import burn_evidence
from streams.engine.rules.formatting import many, rounded_usd, short, short_instant, span
from streams.engine.rules.job_view import (
    FactSpan,
    JobAt,
    JobKnown,
    JobRule,
    Words,
    cost_in,
    rate_at,
    yields_to,
)
from streams.engine.rules.line_costs import cost_reached_ms, costly
from streams.engine.rules.rule import (
    JOB,
    LEAST_WASTE,
    TICKET,
    Margin,
    Threshold,
    from_threshold_on,
    page_from,
    unless_zero,
    usual_up_to,
)
from streams.engine.state.laps import ProgressLaps
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.intervals import union
from streams.engine.timeline.lines import Lines

#: It is also slow for longer than ever before, by this factor, in halves; or for so long.
_LONGEST_HALVES: Final = 3
_SURE_MS: Final = 3 * HOUR_MS
_NO_LINES: Final[Lines] = {}


class Slow(NamedTuple):
    """Laps that are slow, one after another, and for how long the attempt runs on with the last one; [from_ms, until_ms)."""

    since_ms: int
    from_ms: int
    until_ms: int
    for_ms: int  # the length of the laps
    wait_ms: int  # which they must have
    ratio: float  # usual / now

    @property
    def lost_ratio(self) -> float:
        """The share of what it pays for which nothing is done that was done before."""
        return 1 - 1 / self.ratio


def slow_of(
    laps: ProgressLaps | None, timelines: Mapping[int, Timeline], thresholds: Mapping[str, float]
) -> Slow | None:
    """How slow the attempt is that reported last; None: it is not, stands still, or does not run."""
    line = None if laps is None else timelines.get(laps.attempt)
    if laps is None or not laps.slow_ms or line is None or line.metered:
        return None
    running = union(
        (segment.start_ms, segment.end_ms) for segment in line.paid(OPEN_MS) if segment.phase == "running"
    )
    until_ms = min(running[-1][1], laps.stands_from_ms) if running else laps.until_ms
    per_ms = laps.slow_gain / laps.slow_ms
    if until_ms <= laps.until_ms or not per_ms:
        return None
    longest_ms = min(-(-_LONGEST_HALVES * laps.longest_ms // 2), _SURE_MS)
    wait_ms = max(round(thresholds["minutes"] * MINUTE_MS), longest_ms)
    ratio = laps.usual_per_ms / per_ms
    return Slow(laps.slow_since_ms, laps.until_ms, until_ms, laps.slow_ms, wait_ms, ratio)


def _spans(known: JobKnown) -> Iterable[FactSpan]:
    laps = known.job.laps
    slow = slow_of(laps, known.timelines, known.thresholds)
    if laps is None or slow is None or slow.for_ms < slow.wait_ms or slow.ratio < known.thresholds["times"]:
        return ()
    lines = known.lines.get(laps.attempt, _NO_LINES)
    least_nano = round(known.thresholds["least_usd"] * NANO_PER_USD / slow.lost_ratio)
    if cost_reached_ms(lines, slow.since_ms, least_nano) > slow.from_ms:
        return ()
    least_nano = round(known.thresholds[LEAST_WASTE] * NANO_PER_USD / slow.lost_ratio)
    return [FactSpan(*each) for each in union(costly(lines, slow.from_ms, slow.until_ms, least_nano))]


def _cause(at: JobAt) -> str:
    slow, laps = _slow(at), None if at.job is None else at.job.laps
    if slow is None or laps is None:
        return ""
    now, usual = (_speed(per_ms * HOUR_MS) for per_ms in (laps.slow_gain / laps.slow_ms, laps.usual_per_ms))
    since = f"for {span(slow.for_ms)}, since {short_instant(slow.since_ms, at.at_ms)} UTC"
    wasted = rounded_usd(_lost_nano(slow, round(rate_at(_lines(at), at.at_ms) * HOUR_MS)))
    return f"{100 / slow.ratio:.0f} % of its usual speed {since}: {now} {short(laps.name)}/h, not {usual}; {wasted}/h is wasted"


def _speed(per_hour: float) -> str:
    if per_hour >= 10**6:
        return many(round(per_hour))
    return f"{per_hour:,.3g}" if per_hour < 1000 else f"{per_hour:,.0f}"


def _lost_nano(slow: Slow, paid_nano: int) -> int:
    return round(paid_nano * slow.lost_ratio)


def _waste(at: JobAt, paid_nano_per_hour: int) -> int:
    slow = _slow(at)
    return paid_nano_per_hour if slow is None else _lost_nano(slow, paid_nano_per_hour)


def _slow(at: JobAt) -> Slow | None:
    return None if at.job is None else slow_of(at.job.laps, at.timelines, at.settings["slow_progress"])


def _lines(at: JobAt) -> Lines:
    laps = None if at.job is None else at.job.laps
    return _NO_LINES if laps is None else at.lines.get(laps.attempt, _NO_LINES)


def _margins(at: JobAt) -> list[Margin]:
    of, slow = at.settings["slow_progress"], _slow(at)
    minutes = ratio = lost = usd_per_hour = None
    if slow is not None and slow.from_ms <= at.at_ms < slow.until_ms:
        minutes, ratio = slow.for_ms / MINUTE_MS, slow.ratio
        paid_nano = float(cost_in(_lines(at), [(slow.since_ms, slow.from_ms)]))
        lost = paid_nano * slow.lost_ratio / NANO_PER_USD
        paid_nano = float(rate_at(_lines(at), at.at_ms) * HOUR_MS)
        usd_per_hour = paid_nano * slow.lost_ratio / NANO_PER_USD
    wait = of["minutes"] if slow is None else slow.wait_ms / MINUTE_MS
    found = [
        yields_to("stalled", "slow_progress", at),
        yields_to("idle_gpus", "slow_progress", at),
        from_threshold_on("minutes of slow progress", minutes, wait),
        from_threshold_on("times slower than usual", ratio, of["times"]),
    ]
    found += unless_zero("dollars wasted meanwhile", lost, of["least_usd"])
    found += unless_zero("dollars wasted per hour", usd_per_hour, of[LEAST_WASTE])
    return found


RULE: Final = JobRule(
    name="slow_progress",
    title="Slow progress",
    severity=TICKET,
    about=JOB,
    holds="for 40 min, and 1.5 times as long as ever before, a running job makes [progress](usage_events.md#jobs) 2.5 times slower than"
    " it did before on as many GPUs; $10 in all, and $1/h, are wasted; until it goes on as before or stands still",
    runbook="runbook.md#slow-progress",
    yields_to=("stalled", "idle_gpus"),
    thresholds={
        "minutes": Threshold(40, 10, 10_080, "minutes for which progress is slow, at least"),
        "times": Threshold(2.5, 2, 1000, "times slower than usual"),
        "least_usd": Threshold(10, 0, 1e9, "dollars wasted meanwhile"),
        LEAST_WASTE: Threshold(1, 0, 1e9, "dollars wasted per hour"),
    }
    | page_from("dollars wasted per hour")
    | usual_up_to(),
    window_ms=5 * MINUTE_MS,
    spans=_spans,
    listens=True,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: burn_evidence(of.job_id, of.held_ms, HOUR_MS, of.expected_nano_per_hour),
    words=Words(
        "goes on at {cause}",
        "look at its data, its network and its slowest GPU",
        "goes on as before, stands still, or runs no longer",
        "",
        unknown="a part of its usual speed",
    ),
    waste=_waste,
    usual_by="length",
    inhibited_by=("straggler",),
)
