"""`silent_job`: a job runs, and sent neither a heartbeat nor a sample for longer than it usually does.

A span may begin in the future, and stands unless something is heard before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, NamedTuple

from schemas.durations import BEGINNING_MS, MINUTE_MS
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import span
from streams.engine.rules.job_view import FactSpan, JobAt, JobKnown, JobRule, Words, all_it_pays
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, notified_from
from streams.engine.rules.shared_cause import of_silence
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import OPEN_MS, Timeline
from streams.engine.timeline.growing import newest_first
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


class Unheard(NamedTuple):
    """The last time in which a job runs without a break, since when nothing is heard of it, and for how long that may be."""

    running: Span
    since_ms: int
    wait_ms: int


def unheard_of(
    job: JobState, timelines: Mapping[int, Timeline], thresholds: Mapping[str, float]
) -> Unheard | None:
    """How long nothing has been heard of a job that runs; None: it does not run, or may never have been heard of.

    Of a job that was never heard of only running with GPUs counts.
    """
    wait_ms, running = _wait_ms(job, thresholds), last_running(timelines, on_gpus=_is_never_heard(job))
    if not wait_ms or running is None:
        return None
    return Unheard(running, max(running[0], job.heard_ms), wait_ms)


def _is_never_heard(job: JobState | None) -> bool:
    return job is None or job.heard_ms == BEGINNING_MS


def _wait_ms(job: JobState | None, thresholds: Mapping[str, float]) -> int:
    """How long a job may send nothing; 0: one that was never heard of, for ever."""
    if job is None or _is_never_heard(job):
        return round(thresholds["never_heard_minutes"] * MINUTE_MS)
    return silence_ms(job, thresholds)


def last_running(timelines: Mapping[int, Timeline], *, on_gpus: bool = False) -> Span | None:
    """Return the last period in which the job runs (with GPUs) without a break; None: there is none."""
    running: tuple[Span, ...] = ()
    for until_ms, line in newest_first(timelines):
        if running and until_ms < running[-1][0]:
            break  # of thousands of attempts the last few decide
        of_attempt = (
            (segment.start_ms, segment.end_ms)
            for segment in line.paid(OPEN_MS)
            if segment.phase == "running" and (segment.values.gpu_milli > 0 or not on_gpus)
        )
        running = union((*running, *of_attempt))
    return running[-1] if running else None


def _spans(known: JobKnown) -> Iterator[FactSpan]:
    unheard = unheard_of(known.job, known.timelines, known.thresholds)
    if unheard is None:
        return
    from_ms, until_ms = unheard.since_ms + unheard.wait_ms, unheard.running[1]
    if from_ms < until_ms:
        yield FactSpan(from_ms, until_ms)


def _cause(at: JobAt) -> str:
    if at.job is None:
        return ""
    of = at.settings["silent_job"]
    wait_ms, heartbeats = _wait_ms(at.job, of), at.job.heartbeats
    if heartbeats is None or not heartbeats.usual_ms or wait_ms <= least_silence_ms(of):
        return span(wait_ms)
    return f"{span(wait_ms)}, and had one each {span(heartbeats.usual_ms)}"


def _margins(at: JobAt) -> list[Margin]:
    of = at.settings["silent_job"]
    never = _is_never_heard(at.job)
    what = "minutes of running on GPUs, never heard of" if never else "minutes without a heartbeat or sample"
    unheard, wait_ms = None if at.job is None else unheard_of(at.job, at.timelines, of), _wait_ms(at.job, of)
    if unheard is None or not unheard.running[0] <= at.at_ms < unheard.running[1]:
        return [Margin(what, None, wait_ms / MINUTE_MS, None)]
    silent_ms = max(at.at_ms - unheard.since_ms, 0)
    return [Margin(what, silent_ms / MINUTE_MS, wait_ms / MINUTE_MS, silent_ms / wait_ms)]


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
    shares=lambda at, job: of_silence("" if at.job is None else at.job.heard_source, job),
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
    inhibited_by=("after_node",),
)
