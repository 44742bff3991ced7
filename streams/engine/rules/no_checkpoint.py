"""`no_checkpoint`: a job that saves its work, or runs on spot, has made no checkpoint for long, and much would be lost.

A pure function of the attempts and of what they pay; a span may begin in the future, and stands unless a checkpoint comes before.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from schemas.durations import BEGINNING_MS, HOUR_MS, MINUTE_MS
from schemas.events import PRICE_FIELDS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.precedence import UNSAVED_SILENT_MS
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import short_instant, span, usd
from streams.engine.rules.job_view import (
    FactSpan,
    JobAt,
    JobKnown,
    JobRule,
    Words,
    all_it_pays,
    cost_in,
    yields_to,
)
from streams.engine.rules.line_costs import cost_reached_ms
from streams.engine.rules.rule import (
    JOB,
    TICKET,
    Margin,
    Threshold,
    from_threshold_on,
    notified_from,
    unless_zero,
)
from streams.engine.timeline.attempts import OPEN_MS, SAVES, Timeline
from streams.engine.timeline.growing import have_saved, newest_first, paid_after
from streams.engine.timeline.intervals import Span
from streams.engine.timeline.lines import Lines

_PURCHASE: Final = PRICE_FIELDS.index("purchase")
#: What stands still has nothing to save.
_STANDSTILLS: Final = ("stalled", "idle_gpus")
_NO_LINES: Final[Lines] = {}


def unsaved(
    timelines: Mapping[int, Timeline], after_ms: int = BEGINNING_MS
) -> Iterator[tuple[Timeline, int, list[Span]]]:
    """Yield the attempts whose work is expected to be saved: since when it is not, and when each runs from then on.

    Expected of a job that has made a checkpoint in any attempt, and of an attempt whose newest purchase is `spot`. Attempts
    that ended by `after_ms` are left out.
    """
    saves = have_saved(timelines)
    for line in paid_after(timelines, after_ms):
        if not saves and line.values.fields[_PURCHASE] != "spot":
            continue
        since_ms = line.checkpoint_ms if line.checkpoint_ms is not None else line.started_ms
        if line.metered or since_ms is None:
            continue
        running = [
            (max(segment.start_ms, since_ms), segment.end_ms)
            for segment in line.paid(OPEN_MS)
            if segment.phase == "running" and segment.end_ms > since_ms
        ]
        yield line, since_ms, running


def usual_ms(timelines: Mapping[int, Timeline]) -> int:
    """How long the job usually runs between two checkpoints: the middle one of the last three times, of two the lesser.

    The first of an attempt counts from its start on. 0: it has made none.
    """
    last: tuple[int, ...] = ()
    if have_saved(timelines):
        for _, line in newest_first(timelines):
            last = (*line.saves_ms, *last)[-SAVES:]
            if len(last) == SAVES:
                break
    return sorted(last)[(len(last) - 1) // 2] if last else 0


def _longest_ms(timelines: Mapping[int, Timeline], thresholds: Mapping[str, float]) -> int:
    """How long it may run without a checkpoint."""
    least_ms = round(thresholds["hours"] * HOUR_MS)
    return max(least_ms, round(thresholds["usual_times"] * usual_ms(timelines)))


def _spans(known: JobKnown) -> Iterable[FactSpan]:
    least_ms, longest_ms = round(known.thresholds["hours"] * HOUR_MS), 0
    least_nano = round(known.thresholds["least_usd"] * NANO_PER_USD)
    for line, since_ms, running in unsaved(known.timelines, known.since_ms):
        # Most attempts end, or save, long before: neither what they cost is looked at, nor how often the job saves.
        if ran_for_ms(running, least_ms) is None:
            continue
        longest_ms = longest_ms or _longest_ms(known.timelines, known.thresholds)
        ran_long_ms = ran_for_ms(running, longest_ms)
        if ran_long_ms is None:
            continue
        lines = known.lines.get(line.attempt, _NO_LINES)
        from_ms = max(ran_long_ms, cost_reached_ms(lines, since_ms, least_nano))
        for start_ms, end_ms in running:
            if max(start_ms, from_ms) < end_ms:
                yield FactSpan(max(start_ms, from_ms), end_ms)


def ran_for_ms(running: Iterable[Span], longest_ms: int) -> int | None:
    """The instant at which it has run for so long, without the time in which it was suspended; None: it never has."""
    left_ms = longest_ms
    for start_ms, end_ms in running:
        if end_ms - start_ms > left_ms:
            return start_ms + left_ms
        left_ms -= end_ms - start_ms
    return None


def _standing(at: JobAt) -> tuple[Timeline, int, int] | None:
    """The attempt that runs at the tick, since when its work is not saved, and for how long it has run since (ms).

    Of several the one that has run longest.
    """
    found = [
        (
            since_ms,
            line,
            sum(min(end_ms, at.at_ms) - start_ms for start_ms, end_ms in running if start_ms < at.at_ms),
        )
        for line, since_ms, running in unsaved(at.timelines, at.at_ms)
        if any(start_ms <= at.at_ms < end_ms for start_ms, end_ms in running)
    ]
    if not found:
        return None
    since_ms, line, ran_ms = max(found, key=lambda each: each[2])
    return line, since_ms, ran_ms


def _at_risk_nano(at: JobAt, line: Timeline, since_ms: int) -> int:
    return round(cost_in(at.lines.get(line.attempt, _NO_LINES), [(since_ms, at.at_ms)]))


def _cause(at: JobAt) -> str:
    standing = _standing(at)
    if standing is None:
        return ""
    line, since_ms, _ = standing
    at_risk = usd(_at_risk_nano(at, line, since_ms))
    whence = "its last one" if line.checkpoint_ms is not None else "its start"
    known_ms, of = usual_ms(at.timelines), at.settings["no_checkpoint"]
    usual = f" (usually {span(known_ms)})" if known_ms * of["usual_times"] > of["hours"] * HOUR_MS else ""
    begin = f"{span(at.at_ms - since_ms)} since {whence}{usual}, {short_instant(since_ms, at.at_ms)} UTC"
    return f"{begin}: {at_risk} at risk"


def _margins(at: JobAt) -> list[Margin]:
    of, standing = at.settings["no_checkpoint"], _standing(at)
    ran = None if standing is None else standing[2] / HOUR_MS
    at_risk = None if standing is None else _at_risk_nano(at, *standing[:2]) / NANO_PER_USD
    longest_hours = _longest_ms(at.timelines, of) / HOUR_MS
    found = [
        from_threshold_on("hours of running since its last checkpoint, or its start", ran, longest_hours)
    ]
    found += unless_zero("dollars of work at risk", at_risk, of["least_usd"])
    found += [yields_to(other, "no_checkpoint", at, after_ms=UNSAVED_SILENT_MS) for other in _STANDSTILLS]
    return found


def _same_since(at: JobAt, since_ms: int) -> bool:
    """Whether no attempt has saved anything since then."""
    saved_ms = (line.checkpoint_ms for line in at.timelines.values())
    return all(each is None or each <= since_ms for each in saved_ms)


RULE: Final = JobRule(
    name="no_checkpoint",
    title="No checkpoint",
    severity=TICKET,
    about=JOB,
    holds="a running job on `spot`, or one that has made a checkpoint in any attempt, has made none in 6 h of"
    " running, and in twice as long as it usually runs between two, and its attempt has cost $100 since then, or since its start",
    runbook="runbook.md#no-checkpoint",
    yields_to=_STANDSTILLS,
    thresholds={
        "hours": Threshold(6, 0.1, 9600, "hours of running since its last checkpoint, or its start"),
        "usual_times": Threshold(
            2, 0, 1000, "times as long as the job usually runs between two checkpoints, if that is longer"
        ),
        "least_usd": Threshold(100, 0, 1e9, "dollars that the attempt has cost since then"),
    }
    | notified_from("dollars per hour that the job pays, each more at risk"),
    window_ms=5 * MINUTE_MS,
    spans=_spans,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: attempts_evidence(of.job_id),
    words=Words(
        "has made no checkpoint for {cause}",
        "look whether it still saves: that is lost if it breaks off",
        "has made a checkpoint, or runs no longer",
        unknown="hours",
    ),
    waste=all_it_pays,
    same_since=_same_since,
    inhibited_by=("silent_job",),  # whether it saves is not heard either
)
