"""All facts of one job: when the conditions of its rules hold, as far as its state says.

A pure function of the job's state, of what it pays, and of the settings of its rules; the kernel compares times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.durations import BEGINNING_MS
from streams.engine.rules.job_view import JobFacts, JobKnown, JobRule, Unpriced
from streams.engine.rules.profiles import Profile
from streams.engine.rules.registry import JOB_RULES
from streams.engine.rules.retry_loop import BrokenAttempts
from streams.engine.state.job import JobState
from streams.engine.timeline.attempts import Timeline
from streams.engine.timeline.lines import Lines
from streams.engine.windows.curves import Fact

#: More spans of a rule say nothing new: the last ones count.
_SPANS_AT_MOST: Final = 16
_ASKED: Final = tuple((number, rule) for number, rule in enumerate(JOB_RULES) if rule.spans is not None)


def facts_of(
    job: JobState,
    lines: Mapping[int, Lines],
    profile: Profile,
    unpriced: Unpriced,
    planned: Sequence[tuple[int, int, int]] = (),
    breaks: BrokenAttempts | None = None,
    since_ms: int = BEGINNING_MS,
) -> JobFacts:
    """Return the facts; those of retries that are over by `since_ms` may be missing. `lines` are what each billed attempt pays.

    `planned` is that of Expected; `breaks` are those of the job, as of any earlier time.
    """
    known = JobKnown(
        job=job,
        timelines=job.timelines(),
        lines=lines,
        thresholds={},
        unpriced=unpriced,
        planned=planned,
        breaks=breaks,
        details=[],
        since_ms=since_ms,
    )
    rows: list[Fact] = []
    for number, rule in _ASKED:
        if not rule.listens:
            known.thresholds = profile.thresholds(number)
            rows += _rows(number, rule, known)
    return JobFacts(tuple(rows), job.deadline_ms(), tuple(known.details))


def heard_rows(
    job: JobState, timelines: Mapping[int, Timeline], lines: Mapping[int, Lines], profile: Profile
) -> tuple[Fact, ...]:
    """Return the facts that depend on every heartbeat and sample."""
    return tuple(
        fact
        for number, rule in _ASKED
        if rule.listens
        for fact in _rows(
            number,
            rule,
            JobKnown(
                job=job,
                timelines=timelines,
                lines=lines,
                thresholds=profile.thresholds(number),
                unpriced=Unpriced(),
                planned=(),
                breaks=None,
                details=[],
            ),
        )
    )


def _rows(number: int, rule: JobRule, known: JobKnown) -> list[Fact]:
    assert rule.spans is not None  # only such rules are asked
    return [Fact(number, *span) for span in rule.spans(known)][-_SPANS_AT_MOST:]
