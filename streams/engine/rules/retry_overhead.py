"""`retry_overhead`: too much of what a training run cost is lost, by attempts that failed or were preempted.

A run is one job with its attempts, or several jobs where each submission is another one (`lineage`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from functools import cache
from typing import Final

from schemas.counting import how_many
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import sentence, short, usd
from streams.engine.rules.lineage import RunJob
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.run_losses import NAMING, RunSums

NAME: Final = "retry_overhead"
#: Enough to see which jobs they are.
_SHOWN: Final = 100


def holds(of: Mapping[str, float], sums: RunSums, *, fires: bool) -> bool:
    """Whether it holds in an hour of a run: one in which it cost anything, and in which no alert about a loop of it stood.

    `fires`: whether its alert is open. It then stays open until the share is clearly lower, since that falls slowly between two losses.
    """
    if not sums.is_paid or sums.is_named or sums.broken < of["attempts"]:
        return False
    if sums.lost_nano < round(of["least_usd"] * NANO_PER_USD):
        return False
    numerator, denominator = _exact(of["lost_ratio"])
    if fires:
        numerator, denominator = numerator * 4, denominator * 5
    return sums.lost_nano * denominator > numerator * sums.cost_nano


@cache
def _exact(ratio: float) -> tuple[int, int]:
    """The fraction that a setting says in decimals."""
    return Fraction(str(ratio)).as_integer_ratio()


def finding(
    of: LedgerSettings, run: Sequence[str], subject: RunJob, shown: str, sums: RunSums, at_ms: int
) -> LedgerFinding:
    """The sentence and the evidence of an hour in which it holds.

    Args:
        of: The settings.
        run: The jobs of the run, the oldest first.
        subject: The one that the alert is about.
        shown: What people call the run.
        sums: What the run has come to.
        at_ms: The end of the hour.
    """
    share = sums.lost_nano / sums.cost_nano

    def said(at_most: int) -> str:
        name = short(subject.job_id, at_most)
        if len(run) > 1:
            name = f"run {short(shown, at_most)} ({len(run)} jobs, now {name})"
        return (
            f"{name} has lost {usd(sums.lost_nano)} of {usd(sums.cost_nano)} ({100 * share:.0f} %) to {how_many(sums.broken, 'attempt')}"
            " that failed or were preempted; checkpoint more often, or find out why they end"
        )

    return LedgerFinding(
        NAME, of.severity, "job", subject.job_id, at_ms, sentence(said), _evidence(run), share, 0, sums.lost_nano,
        subject.owner, subject.team, subject.project, margins=(*margins(of.thresholds, sums),),
    )  # fmt: skip


def _evidence(run: Sequence[str]) -> str:
    if len(run) == 1:
        return f"SELECT * FROM lost_work WHERE job_id = {quoted(run[0])} ORDER BY hour"
    names = ", ".join(quoted(each) for each in run[-_SHOWN:])
    return f"SELECT * FROM lost_work WHERE job_id IN ({names}) ORDER BY hour, job_id"


def margins(of: Mapping[str, float], sums: RunSums) -> list[Margin]:
    """How far what a run has come to is beyond the thresholds."""
    share = sums.lost_nano / sums.cost_nano if sums.cost_nano else None
    return [
        from_threshold_on("lost share of its cost (above)", share, of["lost_ratio"]),
        from_threshold_on("dollars lost", sums.lost_nano / NANO_PER_USD, of["least_usd"]),
        from_threshold_on("attempts that broke off and lost something", sums.broken, of["attempts"]),
    ]


RULE: Final = LedgerRule(
    name=NAME,
    title="Retries cost too much",
    severity=TICKET,
    about="`job`",
    holds=(
        "more than 10 % of what a [run](runs.md) cost is lost, at least $10, by at least 3 attempts of its "
        "jobs, whether retries followed them or not. It is judged in hours in which the run cost anything, "
        "and stays in those in which it did not. What `retry_loop` or `resubmit_loop` named does not count"
    ),
    runbook="ledger_rules.md#retry_overhead",
    yields_to=NAMING,
    thresholds={
        "lost_ratio": Threshold(0.1, 0.001, 1, "lost share of the cost of the run"),
        "least_usd": Threshold(10, 0.01, 1e9, "dollars lost"),
        "attempts": Threshold(3, 1, 1000, "attempts that broke off and lost something", True),
    },
    each="job",
    finding=finding,
    margins=margins,
)
