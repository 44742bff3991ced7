"""`stalled`: the work of a running job does not go on, by the progress that it reports, and it goes on paying.

A pure function of its reports and of what it pays. Only reports show that it stands still: a job that sends none is for
`silent_job`, so that a source that fails pages nobody.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import burn_evidence
from streams.engine.rules.formatting import gpus, rounded_usd, short, short_instant, span
from streams.engine.rules.idle_gpus import shown_use
from streams.engine.rules.job_view import (
    FactSpan,
    JobAt,
    JobKnown,
    JobRule,
    Words,
    all_it_pays,
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
)
from streams.engine.state.pace import ProgressPace
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.intervals import Span, union
from streams.engine.timeline.lines import Lines

#: One report without a change is a coincidence where values change about as often as they are reported.
REPEATS_LEAST: Final = 2
#: It also stands still for longer than ever before, by this factor, in halves.
_LONGEST_HALVES: Final = 3
_SHOWN_FIRST: Final = ("step", "tokens", "epoch")
_NO_LINES: Final[Lines] = {}


class Stall(NamedTuple):
    """The time in which an attempt runs and its progress is as reported last, without a break; [from_ms, until_ms)."""

    from_ms: int
    until_ms: int
    reported_ms: int  # for how long reports show that it stands still
    wait_ms: int  # for how long they must


def wait_ms(pace: ProgressPace, thresholds: Mapping[str, float]) -> int:
    """How long values must be reported unchanged until the work stands still."""
    usual_ms = round(thresholds["usual_times"] * pace.stood_ms / pace.moves) if pace.moves else 0
    return max(round(thresholds["minutes"] * MINUTE_MS), usual_ms, -(-_LONGEST_HALVES * pace.longest_ms // 2))


def stall_of(
    pace: ProgressPace | None, timelines: Mapping[int, Timeline], thresholds: Mapping[str, float]
) -> Stall | None:
    """How long the progress of the attempt that reported last has been as it is; None: it never moved, or does not run."""
    line = None if pace is None else timelines.get(pace.attempt)
    if pace is None or line is None or line.metered or not pace.moves:
        return None
    running = union(
        (segment.start_ms, segment.end_ms) for segment in line.paid(OPEN_MS) if segment.phase == "running"
    )
    if not running or running[-1][1] <= pace.since_ms:
        return None
    from_ms = max(pace.since_ms, running[-1][0])
    return Stall(from_ms, running[-1][1], pace.last_ms - from_ms, wait_ms(pace, thresholds))


def _spans(known: JobKnown) -> Iterable[FactSpan]:
    pace = known.job.pace
    if pace is None or pace.repeats < REPEATS_LEAST:
        return ()
    stall = stall_of(pace, known.timelines, known.thresholds)
    if stall is None or stall.reported_ms < stall.wait_ms:
        return ()
    lines = known.lines.get(pace.attempt, _NO_LINES)
    least_nano = round(known.thresholds["least_usd"] * NANO_PER_USD)
    from_ms = max(stall.from_ms + stall.wait_ms, cost_reached_ms(lines, stall.from_ms, least_nano))
    if from_ms > pace.last_ms:
        return ()
    least_nano = round(known.thresholds[LEAST_WASTE] * NANO_PER_USD)
    return [FactSpan(*each) for each in union(costly(lines, from_ms, stall.until_ms, least_nano))]


def _cause(at: JobAt) -> str:
    stall = _stall(at)
    if stall is None or at.job is None:
        return ""
    since = short_instant(stall.from_ms, at.at_ms)
    stood = f"{_value(at)} for {span(at.at_ms - stall.from_ms)}, since {since} UTC"
    shown = shown_use(at)
    if shown is not None:
        return f"{stood}: {gpus(shown[0].gpu_milli)} {shown[1]}"
    spent = rounded_usd(round(cost_in(_lines(at), [(stall.from_ms, at.at_ms)])))
    return f"{stood}, and paid {spent}"


def _value(at: JobAt) -> str:
    """The value that a reader knows it by."""
    assert at.job is not None  # the caller knows the job
    values = dict(at.job.measures.shown()[1])
    name = next((name for name in _SHOWN_FIRST if name in values), min(values))
    value = values[name]
    shown = f"{value:,.0f}" if value == int(value) and abs(value) < 1e15 else f"{value:.6g}"
    return f"{short(name)} {shown}"


def _stood(at: JobAt) -> int | None:
    stall = _stall(at)
    return None if stall is None else stall.from_ms


def _stall(at: JobAt) -> Stall | None:
    return None if at.job is None else stall_of(at.job.pace, at.timelines, at.settings["stalled"])


def _lines(at: JobAt) -> Lines:
    pace = None if at.job is None else at.job.pace
    return _NO_LINES if pace is None else at.lines.get(pace.attempt, _NO_LINES)


def _margins(at: JobAt) -> list[Margin]:
    of, stall = at.settings["stalled"], _stall(at)
    pace = None if at.job is None else at.job.pace
    stands = stall is not None and stall.from_ms <= at.at_ms < stall.until_ms
    minutes = repeats = spent = usd_per_hour = None
    if stall is not None and pace is not None and stands:
        minutes, repeats = stall.reported_ms / MINUTE_MS, float(pace.repeats)
        shown: list[Span] = [(stall.from_ms, max(pace.last_ms, stall.from_ms))]
        spent = float(cost_in(_lines(at), shown) / NANO_PER_USD)
        usd_per_hour = float(rate_at(_lines(at), at.at_ms) * HOUR_MS / NANO_PER_USD)
    wait = of["minutes"] if stall is None else stall.wait_ms / MINUTE_MS
    found = [
        yields_to("idle_gpus", "stalled", at),
        from_threshold_on("minutes for which reports show no progress", minutes, wait),
        from_threshold_on("reports of the same values", repeats, REPEATS_LEAST),
    ]
    found += unless_zero("dollars paid meanwhile, until its last report", spent, of["least_usd"])
    found += unless_zero("dollars per hour that it pays", usd_per_hour, of[LEAST_WASTE])
    return found


RULE: Final = JobRule(
    name="stalled",
    title="Stands still",
    severity=TICKET,
    about=JOB,
    holds="a running job reports [progress](usage_events.md#jobs) that moved before and has not for 15 min, 6 times its usual interval and"
    " 1.5 times its longest, at $1/h or more and $20 in all; until it moves",
    runbook="runbook.md#stands-still",
    yields_to=("idle_gpus",),
    thresholds={
        "minutes": Threshold(15, 1, 10_080, "minutes for which reports show no progress, at least"),
        "usual_times": Threshold(6, 1, 1000, "times as long as it usually reported the same values"),
        "least_usd": Threshold(20, 0, 1e9, "dollars that the attempt has cost meanwhile"),
        LEAST_WASTE: Threshold(1, 0, 1e9, "dollars per hour that the attempt costs meanwhile"),
    }
    | page_from("dollars per hour that the job pays"),
    window_ms=5 * MINUTE_MS,
    spans=_spans,
    listens=True,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: burn_evidence(of.job_id, of.held_ms, HOUR_MS, of.expected_nano_per_hour),
    words=Words(
        "has stood at {cause}",
        "look where it hangs, restart it",
        "goes on, or runs no longer",
        unknown="the same progress for long",
    ),
    stood=_stood,
    goes_on="all",
    waste=all_it_pays,
    inhibited_by=("spinning",),
)
