"""`runaway_length`: a job still accrues cost after its deadline, or for too long. The kernel decides (`runs_away`).

A job that is retried again and again is named once, and then each time that it has become twice as old.
"""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS, MINUTE_MS, NEVER_MS
from streams.engine.rules.evidence import attempts_evidence
from streams.engine.rules.formatting import short_instant, span
from streams.engine.rules.job_view import JobAt, JobRule, Words
from streams.engine.rules.rule import JOB, TICKET, Margin, Threshold, flag, notified_from


def _cause(at: JobAt) -> str:
    """Return how long after its deadline, or after its first paid instant, the job still accrues cost."""
    deadline_ms, at_ms = at.facts.deadline_ms, at.at_ms
    if deadline_ms < NEVER_MS and deadline_ms <= at_ms:
        late = f"{span(at_ms - deadline_ms)} after" if deadline_ms < at_ms else "at"
        return f"{late} its deadline, {short_instant(deadline_ms, at_ms)} UTC"
    return f"after {span(at_ms - at.first_paid_ms)}, since {short_instant(at.first_paid_ms, at_ms)} UTC"


def _margins(at: JobAt) -> list[Margin]:
    of, figures = at.settings["runaway_length"], at.figures
    assert figures is not None  # margins are asked for with figures
    pays = figures.paid_now or (figures.is_undecided and RULE.name in figures.fires)
    for_ms = figures.since_paid_ms if pays else None
    longest_ms = round(of["hours"] * HOUR_MS)
    if figures.notified_until_ms:
        longest_ms = max(longest_ms, figures.notified_until_ms - (at.at_ms - figures.since_paid_ms))
    found = [
        Margin(
            "hours since the first paid instant",
            None if for_ms is None else for_ms / HOUR_MS,
            longest_ms / HOUR_MS,
            None if for_ms is None else for_ms / longest_ms,
        )
    ]
    if at.facts.deadline_ms < NEVER_MS:
        grace_ms = round(of["grace_minutes"] * MINUTE_MS)
        late_ms = at.at_ms - at.facts.deadline_ms if pays else None
        share = None
        if late_ms is not None:
            share = max(late_ms / grace_ms if grace_ms else 1.0, 1.0) if late_ms >= grace_ms else 0.0
            if 0 < late_ms < grace_ms:
                share = late_ms / grace_ms
        minutes = None if late_ms is None else late_ms / MINUTE_MS
        found.append(Margin("minutes after its deadline", minutes, of["grace_minutes"], share, way=1))
        found.append(flag("nobody was notified after this deadline", not figures.notified_until_ms, way=1))
    return found


def _waste(at: JobAt, paid_nano_per_hour: int) -> int | None:
    """All that it pays after its deadline; a job without one may have to run for weeks."""
    grace_ms = round(at.settings["runaway_length"]["grace_minutes"] * MINUTE_MS)
    return paid_nano_per_hour if at.facts.deadline_ms + grace_ms <= at.at_ms else None


RULE: Final = JobRule(
    name="runaway_length",
    title="Runs too long",
    severity=TICKET,
    about=JOB,
    holds="it still accrues cost after its `deadline_ms`, or 168 h after it first did; once, and again at twice the age",
    runbook="runbook.md#runaway-length",
    thresholds={
        "hours": Threshold(168, 0.1, 9600, "hours since the first paid instant"),
        "grace_minutes": Threshold(0, 0, 525_600, "minutes after the deadline of the job"),
    }
    | notified_from("dollars per hour that the job pays after its deadline"),
    window_ms=5 * MINUTE_MS,
    cause=_cause,
    margins=_margins,
    evidence=lambda of: attempts_evidence(of.job_id),
    words=Words(
        "is still billed {cause}",
        "stop it, set a later deadline, or publish its end",
        "is billed no longer, or has a later deadline",
    ),
    goes_on="all",
    waste=_waste,
)
