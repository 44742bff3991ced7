"""`silent_job`: a job runs, and sent neither a heartbeat nor a sample for longer than it usually does.

A span may begin in the future, and stands unless something is heard before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from schemas.durations import BEGINNING_MS, MINUTE_MS
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import span
from streams.engine.rules.job_view import FactSpan, JobAt, JobKnown, JobRule, Words, all_it_pays
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, notified_from
from streams.engine.rules.shared_cause import of_silence
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.intervals import Span, union


def least_silence_ms(thresholds: Mapping[str, float]) -> int:
    """How long any job may send nothing."""
    return round(thresholds["minutes"] * MINUTE_MS)


def silence_ms(job: JobState, thresholds: Mapping[str, float]) -> int:
    """How long it may send nothing: by how often it sends heartbeats, if one of them was the last that was heard of it."""
    least_ms, known = least_silence_ms(thresholds), job.heartbeats
    if known is None or known.newest_ms < job.heard_ms:
        return least_ms
    if not known.intervals_ms:
        return max(least_ms, round(thresholds["first_minutes"] * MINUTE_MS))
    return max(least_ms, round(thresholds["usual_times"] * known.usual_ms))


def silent_spans(
    timelines: Mapping[int, Timeline], heard_ms: int, lapse_ms: int, never_heard_ms: int
) -> tuple[Span, ...]:
    """Return the span in which it runs without activity for `lapse_ms`; of several running periods the last one counts.

    `heard_ms`: the newest heartbeat or sample, BEGINNING_MS if there was none ever. Then only running with GPUs counts,
    for `never_heard_ms` (0: never).
    """
    never = heard_ms == BEGINNING_MS
    if never and not never_heard_ms:
        return ()
    running = last_running(timelines, on_gpus=never)
    if running is None:
        return ()
    start_ms, until_ms = running
    from_ms = start_ms + never_heard_ms if never else max(start_ms, heard_ms) + lapse_ms
    return ((from_ms, until_ms),) if from_ms < until_ms else ()


def last_running(timelines: Mapping[int, Timeline], *, on_gpus: bool = False) -> Span | None:
    """Return the last period in which the job runs (with GPUs) without a break; None: there is none."""
    running = [
        (segment.start_ms, segment.end_ms)
        for line in timelines.values()
        for segment in line.paid(OPEN_MS)
        if segment.phase == "running" and (segment.values.gpu_milli > 0 or not on_gpus)
    ]
    return union(running)[-1] if running else None


def _spans(known: JobKnown) -> Iterator[FactSpan]:
    lapse_ms = silence_ms(known.job, known.thresholds)
    never_ms = round(known.thresholds["never_heard_minutes"] * MINUTE_MS)
    for each in silent_spans(known.timelines, known.job.heard_ms, lapse_ms, never_ms):
        yield FactSpan(*each)


def _cause(at: JobAt) -> str:
    if at.job is None:
        return ""
    of = at.settings["silent_job"]
    if at.job.heard_ms == BEGINNING_MS:
        return span(round(of["never_heard_minutes"] * MINUTE_MS))
    lapse_ms = silence_ms(at.job, of)
    usual_ms = 0 if at.job.heartbeats is None else at.job.heartbeats.usual_ms
    known = (
        f", and had one each {span(usual_ms)}" if lapse_ms > of["minutes"] * MINUTE_MS and usual_ms else ""
    )
    return f"{span(lapse_ms)}{known}"


def _margins(at: JobAt) -> list[Margin]:
    of = at.settings["silent_job"]
    never = at.job is None or at.job.heard_ms == BEGINNING_MS
    what = "minutes of running on GPUs, never heard of" if never else "minutes without a heartbeat or sample"
    if at.job is None or never:
        threshold_ms = round(of["never_heard_minutes"] * MINUTE_MS)
    else:
        threshold_ms = silence_ms(at.job, of)
    threshold = threshold_ms / MINUTE_MS
    running = last_running(at.timelines, on_gpus=never)
    if at.job is None or running is None or not running[0] <= at.at_ms < running[1] or not threshold_ms:
        return [Margin(what, None, threshold, None)]
    since_ms = running[0] if never else max(running[0], at.job.heard_ms)
    silent_ms = max(at.at_ms - since_ms, 0)
    return [Margin(what, silent_ms / MINUTE_MS, threshold, silent_ms / threshold_ms)]


RULE: Final = JobRule(
    name="silent_job",
    title="Silent job",
    severity=TICKET,
    about=JOB,
    holds="a running job that had heartbeats or samples has had none for 10 min, or for 3 times as long as it usually is between its"
    " heartbeats: its end event may be lost",
    runbook="runbook.md#silent-job",
    thresholds={
        "minutes": Threshold(10, 1, 10_080, "minutes without a heartbeat or sample, of a job that had any"),
        "usual_times": Threshold(3, 1, 1000, "times as long as it usually is between two of its heartbeats"),
        "first_minutes": Threshold(
            45, 1, 10_080, "minutes without a second heartbeat, of a job of which one is known and no sample"
        ),
        "never_heard_minutes": Threshold(
            0, 0, 10_080, "minutes of running on GPUs without any heartbeat or sample ever; 0: not looked at"
        ),
    }
    | notified_from("dollars per hour that the job pays"),
    spans=_spans,
    listens=True,
    cause=_cause,
    shares=lambda _at, job: of_silence(job),
    margins=_margins,
    evidence=lambda of: attempts_evidence(of.job_id),
    words=Words(
        "is billed as running, but sent no heartbeat or sample for {cause}",
        "its end event may be lost: look at it, and publish its end if it is over",
        "sent a heartbeat or sample again",
        "",
        "10 min",
    ),
    waste=all_it_pays,
)
