"""Gathers what the rules about a job see of it at a tick."""

from __future__ import annotations

from collections.abc import Mapping

from streams.engine.burn.job_curve import JobCurve
from streams.engine.coverage.coverage import Coverage
from streams.engine.pricing.book import PriceBook
from streams.engine.rules.burn_cause import JobRates
from streams.engine.rules.idle_check import idle_since
from streams.engine.rules.job_view import IdleSince, IdleUse, JobAt
from streams.engine.state.job import JobState


def job_at(
    at_ms: int,
    job: JobState | None,
    curve: JobCurve,
    settings: Mapping[str, Mapping[str, float]],
    book: PriceBook | None,
    first_paid_ms: int,
    idle: IdleUse | None,
    coverage: Coverage,
) -> JobAt:
    """Return the view of a job at a tick; `settings` are the thresholds in force for it, by rule."""

    def rates() -> JobRates | None:
        if job is None or book is None:
            return None
        return JobRates(curve.timelines, curve.stretches(), curve.declared, curve.planned, curve.passed)

    def since() -> IdleSince | None:
        ratio = settings["idle_gpus"]["productive_ratio"]
        return None if job is None else idle_since(coverage, job, at_ms, ratio)

    return JobAt(
        at_ms=at_ms,
        job=job,
        facts=curve.facts,
        timelines={} if job is None else job.timelines(),
        lines=curve.lines,
        settings=settings,
        planned=curve.planned,
        book=book,
        first_paid_ms=first_paid_ms,
        idle=idle,
        idle_since=since,
        rates=rates,
    )
