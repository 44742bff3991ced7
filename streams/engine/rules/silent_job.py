"""`silent_job`: a job runs, and sent neither a heartbeat nor a sample for long.

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
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.intervals import Span, union


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
    lapse_ms, never_ms = (
        round(known.thresholds[name] * MINUTE_MS) for name in ("minutes", "never_heard_minutes")
    )
    for each in silent_spans(known.timelines, known.job.heard_ms, lapse_ms, never_ms):
        yield FactSpan(*each)


def _cause(at: JobAt) -> str:
    if at.job is None:
        return ""
    name = "minutes" if at.job.heard_ms > BEGINNING_MS else "never_heard_minutes"
    return span(round(at.settings["silent_job"][name] * MINUTE_MS))


def _margins(at: JobAt) -> list[Margin]:
    of = at.settings["silent_job"]
    never = at.job is None or at.job.heard_ms == BEGINNING_MS
    name, what = (
        ("never_heard_minutes", "minutes of running on GPUs, never heard of")
        if never
        else ("minutes", "minutes without a heartbeat or sample")
    )
    running = last_running(at.timelines, on_gpus=never)
    threshold_ms = round(of[name] * MINUTE_MS)
    if at.job is None or running is None or not running[0] <= at.at_ms < running[1] or not threshold_ms:
        return [Margin(what, None, of[name], None)]
    since_ms = running[0] if never else max(running[0], at.job.heard_ms)
    silent_ms = max(at.at_ms - since_ms, 0)
    return [Margin(what, silent_ms / MINUTE_MS, of[name], silent_ms / threshold_ms)]


RULE: Final = JobRule(
    name="silent_job",
    title="Silent job",
    severity=TICKET,
    about=JOB,
    holds="a running job that had heartbeats or samples has had none for 10 min: its end event may be lost",
    runbook="runbook.md#silent-job",
    thresholds={
        "minutes": Threshold(10, 1, 10_080, "minutes without a heartbeat or sample, of a job that had any"),
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
