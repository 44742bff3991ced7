"""`metered_twice`: two collectors meter the same GPUs at the same time under two job ids.

Which jobs hold the same is handed in. Jobs that one collector reports share a node on purpose, and so do jobs on a node that has room for
both; jobs of two collectors that begin together with the same GPUs on the same nodes are one job.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import count, of_others, rounded_usd, sentence, short, unheeded
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on

_NAME: Final = "metered_twice"
#: Two collectors see one begin within so long of each other.
APART_MS: Final = 5 * MINUTE_MS
#: So long after their begin two jobs are compared.
NEW_MS: Final = HOUR_MS


class SourcedJob(NamedTuple):
    """An attempt, when it began, and the sources that say what it holds."""

    job_id: str
    attempt: int
    began_ms: int
    sources: tuple[str, ...]
    owner: str = ""
    team: str = ""
    project: str = ""


class SameJobs(NamedTuple):
    """A job that seems to be another one: the nodes and thousandths of GPUs that both hold, and what it paid in the last minutes."""

    job: SourcedJob
    other: SourcedJob
    nodes: tuple[str, ...]
    gpu_milli: int
    nano: int


def may_be_same(one: SourcedJob, other: SourcedJob) -> bool:
    """Whether two collectors, and each only one of them, say that they began, at one time."""
    if one.job_id == other.job_id or not (one.sources and other.sources):
        return False
    return abs(one.began_ms - other.began_ms) <= APART_MS and not {*one.sources} & {*other.sources}


def finding(of: LedgerSettings, same: SameJobs, at_ms: int) -> LedgerFinding:
    """The sentence and the evidence of a job that seems to be another one."""
    minutes = int(of.thresholds["minutes"])
    rate, more = same.nano * HOUR_MS // (minutes * MINUTE_MS), len(same.nodes) - 1
    first, second = same.other, same.job

    def said(at_most: int) -> str:
        by = [f"({short(', '.join(each.sources), at_most)})" for each in (first, second)]
        one, other = f"{short(first.job_id, at_most)} {by[0]}", f"{short(second.job_id, at_most)} {by[1]}"
        if first.team != second.team:  # the collector is no secret of a team, and is what must be changed
            one, other = other, f"{of_others(1)} {by[0]}"
        node = short(same.nodes[0], at_most) + (f" and {more} more" if more else "")
        cost = f", {rounded_usd(rate)}/h twice" if rate else ""
        left = f", else {unheeded(rate, at_ms)}" if rate else ""
        gpus = count(same.gpu_milli, "GPU")
        return f"{one} and {other} both meter {gpus} of {node}{cost}; let one leave them out{left}"

    return LedgerFinding(
        _NAME, of.severity, "job", second.job_id, at_ms, sentence(said),
        "SELECT a.job_id AS job_id, a.attempt AS attempt, a.sources AS sources, a.started AS started, a.state AS state,"
        f" a.gpu_count AS gpu_count, a.cluster AS cluster FROM attempts AS a FINAL WHERE {_both(same, at_ms)} ORDER BY started, job_id",
        float(same.gpu_milli) / 1000, rate, same.nano, second.owner, second.team, second.project,
        margins=(*margins(of.thresholds, minutes),),
    )  # fmt: skip


def _both(same: SameJobs, at_ms: int) -> str:
    """The condition of the attempts of both jobs; one of another team is found and not named, as the alert is its team's."""
    if same.other.team == same.job.team:
        return f"a.job_id IN ({', '.join(quoted(each.job_id) for each in (same.other, same.job))})"
    began_ms = sorted((same.other.began_ms, same.job.began_ms))
    begins = " AND ".join(
        f"a.started {sign} fromUnixTimestamp64Milli({each:d}, 'UTC')"
        for sign, each in zip((">=", "<="), began_ms, strict=True)
    )
    minute = f"toDateTime({(at_ms - MINUTE_MS) // 1000:d}, 'UTC')"
    held = f"SELECT job_id FROM job_minutes WHERE minute = {minute} AND node = {quoted(same.nodes[0])} AND component = 'gpu'"
    return f"{begins} AND a.job_id IN ({held})"


def margins(of: Mapping[str, float], minutes: int) -> list[Margin]:
    """How far two jobs that hold the same are from being taken for one."""
    return [from_threshold_on("whole minutes in which both hold the same GPUs", minutes, of["minutes"])]


def subject_first(
    pair: Sequence[SourcedJob], fires: set[str], sampled: set[str]
) -> tuple[SourcedJob, SourcedJob]:
    """The job that an alert is about, and the other one: the one it is about already, that without samples, the later one."""
    about, other = sorted(
        pair, key=lambda each: (each.job_id not in fires, each.job_id in sampled, -each.began_ms, each.job_id)
    )
    return about, other


RULE: Final = LedgerRule(
    name=_NAME,
    title="Metered twice",
    severity=TICKET,
    about="`job`",
    holds=(
        "another job, which other sources report, began within 5 min of it. Both have held the same GPUs of "
        "the same nodes in each of 8 minutes of their first hour, without room for both as far as is known, "
        "and still do"
    ),
    runbook="runbook.md#metered-twice",
    thresholds={"minutes": Threshold(8, 3, 50, "whole minutes in which both hold the same GPUs", True)},
    each="job",
    finding=finding,
    margins=margins,
)
