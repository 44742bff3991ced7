"""`resubmit_loop`: a training run breaks off again and again, each time as another job, as four `sbatch` of one name do.

What `retry_loop` says of one job's attempts, said of the jobs of one run. Which jobs these are, and where they are a loop, is
`lineage`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from schemas.durations import HOUR_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import sentence, short, span, usd
from streams.engine.rules.lineage import LoopLimits, RunJob, RunKey, RunLoop, RunLoss, reasons_of
from streams.engine.rules.rule import (
    PAGE,
    TICKET,
    URGENCY,
    LedgerRule,
    Margin,
    Threshold,
    from_threshold_on,
    loop_page_usd,
    loops_notified_from,
    severity_of,
)
from streams.engine.rules.slow_loops import LEAST_SPAN_MS, is_mostly_lost

NAME: Final = "resubmit_loop"
#: So many ids are named; of more the first ones, and how many follow.
_NAMED_AT_MOST: Final = 4
_REASONS_AT_MOST: Final = 3
#: Enough to see which jobs they are.
_SHOWN: Final = 100


def limits_of(thresholds: Mapping[str, float]) -> LoopLimits:
    """The thresholds in the units of `lineage`."""
    failures, dear, preemptions = (
        int(thresholds[name]) for name in ("failures", "dear_failures", "preemptions")
    )
    lost_nano, slow_nano = (
        round(thresholds[name] * NANO_PER_USD) for name in ("lost_usd", "slow_usd_per_hour")
    )
    slow_ms = round(thresholds["slow_hours"] * HOUR_MS)
    return LoopLimits(failures, dear, lost_nano, preemptions, slow_ms, slow_nano)


def _severity(
    of: LedgerSettings, loop: RunLoop, losses: Sequence[RunLoss], lost_nano: int, *, is_known: bool
) -> str:
    """That of the settings for a loop that gets nowhere; one that saves most of its work has that of the dollars it loses."""
    severity = of.severity if is_known else TICKET
    # Of the first attempt only what it lost is of the loop: it may have worked for days before.
    paid_nano = losses[0].lost_nano + sum(each.cost_nano for each in losses[1:])
    if is_mostly_lost(lost_nano, paid_nano):
        return severity
    length_ms = max(loop.attempts[-1].ended_ms - loop.attempts[0].ended_ms, LEAST_SPAN_MS)
    waste_nano = lost_nano * HOUR_MS // length_ms
    by_dollars = severity_of(TICKET, waste_nano, of.thresholds, loop_page_usd(of.thresholds))
    return min(severity, by_dollars, key=URGENCY.index)


def finding(
    of: LedgerSettings, key: RunKey, loop: RunLoop, subject: RunJob, losses: Sequence[RunLoss], at_ms: int
) -> LedgerFinding:
    """The sentence and the evidence of a loop; `subject`: the job that the alert is about. `losses`: of its attempts, in order."""
    first, last, jobs = loop.attempts[0], loop.attempts[-1], loop.jobs
    length_ms = max(last.ended_ms - first.began_ms, 1000)
    lost_nano = sum(each.lost_nano for each in losses)
    reasons = reasons_of(loop.attempts)[:_REASONS_AT_MOST]
    limits = limits_of(of.thresholds)
    is_known = key.is_declared or lost_nano >= limits.lost_nano

    def said(at_most: int) -> str:
        named = [short(each, at_most) for each in jobs[:_NAMED_AT_MOST]]
        more = len(jobs) - len(named)
        ids = f"{', '.join(named)} and {more} more" if more else f"{', '.join(named[:-1])} and {named[-1]}"
        verb = "failed" if last.is_failed else "were preempted"
        why = ", ".join(
            reason if count == 1 else f"{reason} x{count}" for reason, count in _shortened(reasons, at_most)
        )
        lost = f", {usd(lost_nano)} of work lost in all" if lost_nano else ""
        again = f"fix {short(key.shown, at_most)} before it is submitted again"
        return f"{ids} {verb} one after another in {span(length_ms)} ({why}){lost}; {again}"

    return LedgerFinding(
        NAME, _severity(of, loop, losses, lost_nano, is_known=is_known), "job", subject.job_id, at_ms, sentence(said), _evidence(jobs),
        float(len(loop.attempts)), lost_nano * HOUR_MS // length_ms, lost_nano, subject.owner, subject.team, subject.project,
        margins=(*margins(of.thresholds, loop, lost_nano),),
    )  # fmt: skip


def _shortened(reasons: list[tuple[str, int]], at_most: int) -> list[tuple[str, int]]:
    return [(short(reason, at_most), count) for reason, count in reasons]


def _evidence(jobs: list[str]) -> str:
    """SQL for the attempts of these jobs, with what each cost and lost."""
    names = ", ".join(quoted(each) for each in jobs[-_SHOWN:])
    return (
        "SELECT a.job_id AS job_id, a.attempt AS attempt, a.state AS state, a.reason AS reason, a.started AS started, a.ended AS ended,"
        " a.gpu_count AS gpu_count, c.cost_usd AS cost_usd, c.lost_usd AS lost_usd FROM attempts AS a FINAL LEFT ANY JOIN"
        " (SELECT l.job_id AS job_id, l.attempt AS attempt, sum(l.cost_usd) AS cost_usd, sum(l.lost_cost_usd) AS lost_usd"
        f" FROM attempt_costs AS l WHERE l.job_id IN ({names}) GROUP BY job_id, attempt) AS c"
        f" ON c.job_id = a.job_id AND c.attempt = a.attempt WHERE a.job_id IN ({names}) ORDER BY started, job_id, attempt"
    )


def margins(of: Mapping[str, float], loop: RunLoop, lost_nano: int) -> list[Margin]:
    """How far attempts of several jobs that broke off one after another are from a loop."""
    number, is_failed = float(len(loop.attempts)), loop.attempts[-1].is_failed
    failed, preempted = (number, 0.0) if is_failed else (0.0, number)
    first, last = loop.attempts[0], loop.attempts[-1]
    length_ms = last.ended_ms - first.began_ms
    slow = None
    if is_failed and len(loop.attempts) == 2 and last.ended_ms - first.ended_ms >= HOUR_MS:
        slow = lost_nano / NANO_PER_USD * HOUR_MS / length_ms
    return [
        from_threshold_on("attempts of several jobs failed one after another", failed, of["failures"]),
        from_threshold_on("such attempts that lost much", failed, of["dear_failures"], way=1),
        from_threshold_on("dollars that they lost", lost_nano / NANO_PER_USD, of["lost_usd"], way=1),
        from_threshold_on(
            "attempts of several jobs preempted one after another", preempted, of["preemptions"], way=2
        ),
        from_threshold_on(
            "dollars per hour lost by two that failed hours apart", slow, of["slow_usd_per_hour"], way=3
        ),
    ]


RULE: Final = LedgerRule(
    name=NAME,
    title="Failing again as another job",
    severity=PAGE,
    about="`job`",
    holds=(
        "jobs of one [run](runs.md), one after another: within an hour 4 of their attempts failed in a row, "
        "or 3 that lost $25, or 6 were preempted, and none was completed or cancelled between. It ends an "
        "hour after the last, or when one is completed or cancelled. Or 2 in a row failed within 12 h, and lost $100/h and half of "
        "what they cost; it ends half as long again as between them after the last. A ticket if only their names say that "
        "they are one run and less than $25 is lost. One that loses less than half of what it pays is as urgent as the dollars that it"
        " loses per hour: a ticket from $1/h on, a page from $100/h on"
    ),
    runbook="runbook.md#retry-loop",
    yields_to=("retry_loop",),
    thresholds={
        "failures": Threshold(4, 2, 1000, "attempts of several jobs that failed within an hour", True),
        "dear_failures": Threshold(3, 2, 1000, "such attempts, if they lost so many dollars", True),
        "lost_usd": Threshold(
            25.0, 0.01, 1e9, "dollars lost: then fewer attempts, or their names, are enough"
        ),
        "preemptions": Threshold(
            6, 2, 1000, "attempts of several jobs that were preempted within an hour", True
        ),
        "slow_hours": Threshold(12, 1, 168, "hours within which two failures in a row may be a slow loop"),
        "slow_usd_per_hour": Threshold(100, 0.01, 1e9, "dollars per hour that these lost"),
    }
    | loops_notified_from(),
    each="job",
    is_about_run=True,
    finding=finding,
    margins=margins,
)
