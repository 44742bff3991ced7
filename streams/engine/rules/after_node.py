"""`after_node`: a job is billed on a node after the node was terminated, so it is over, or runs on others.

Which minutes of a job fall after the end of a node is handed in. A job that began after that end is none: then the node is back, and
only nobody said so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, short_instant, unheeded
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on

_NAME: Final = "after_node"
#: Enough to see which nodes they are.
_SHOWN: Final = 50


class BilledOn(NamedTuple):
    """A node that is gone since `gone_ms`, and what a job paid for it in the last minutes."""

    node: str
    gone_ms: int
    nano: int


def finding(
    of: LedgerSettings, job: str, nodes: Sequence[BilledOn], at_ms: int, about: Mapping[str, str]
) -> LedgerFinding:
    """The sentence and the evidence of a job on nodes that are gone. `about`: its owner, team and project."""
    minutes = int(of.thresholds["minutes"])
    nano = sum(each.nano for each in nodes)
    rate, more = nano * HOUR_MS // (minutes * MINUTE_MS), len(nodes) - 1
    first = min(nodes, key=lambda each: (each.gone_ms, each.node))

    def said(at_most: int) -> str:
        node = f"node {short(first.node, at_most)}" + (f" and {more} more" if more else "")
        cost = f" for {rounded_usd(rate)}/h" if rate else ""
        left = f", else {unheeded(rate, at_ms)}" if rate else ""
        return (
            f"{short(job, at_most)} is billed{cost} on {node}, terminated at {short_instant(first.gone_ms, at_ms)} UTC;"
            f" publish its end, or the nodes that it still holds{left}"
        )

    return LedgerFinding(
        _NAME, of.severity, "job", job, at_ms, sentence(said), _evidence(job, nodes, at_ms, minutes),
        float(len(nodes)), rate, nano, about["owner"], about["team"], about["project"],
        margins=(*margins(of.thresholds, minutes),),
    )  # fmt: skip


def _evidence(job: str, nodes: Iterable[BilledOn], at_ms: int, minutes: int) -> str:
    """SQL for what the job has paid for these nodes in the last minutes, and the last hour in which each was paid itself."""
    names = ", ".join(quoted(each.node) for each in [*nodes][:_SHOWN])
    since, until = (f"toDateTime({each // 1000:d}, 'UTC')" for each in (at_ms - minutes * MINUTE_MS, at_ms))
    return (
        "SELECT l.node AS node, any(n.last_hour) AS node_last_paid_in, any(l.state) AS state,"
        f" round(sum(l.quantity) / {minutes * MINUTE_MS * 1000}, 3) AS gpus, sum(l.cost_usd) AS cost_usd FROM ledger AS l LEFT ANY JOIN"
        f" (SELECT node, max(hour) AS last_hour FROM node_hours FINAL WHERE node IN ({names}) AND paid_ms > 0 GROUP BY node) AS n"
        f" ON n.node = l.node WHERE l.job_id = {quoted(job)} AND l.node IN ({names}) AND l.component = 'gpu'"
        f" AND l.minute >= {since} AND l.minute < {until} GROUP BY node ORDER BY node"
    )


def margins(of: Mapping[str, float], minutes: int) -> list[Margin]:
    """How far a job is from being billed for too long on a node that is gone."""
    return [
        from_threshold_on(
            "whole minutes in which it is billed on a node that is gone", minutes, of["minutes"]
        )
    ]


RULE: Final = LedgerRule(
    name=_NAME,
    title="Billed on a node that is gone",
    severity=TICKET,
    about="`job`",
    holds="it has been billed for GPUs of a node in each of 8 minutes after the node was `terminated`, and held them before; until"
    " it is no longer paid, or is sampled again",
    runbook="runbook.md#billed-on-a-node-that-is-gone",
    yields_to=("silent_job", "metered_twice", "double_held"),
    thresholds={
        "minutes": Threshold(
            8, 3, 1440, "whole minutes after the node's end: the job's end comes sooner", True
        )
    },
    each="job",
    finding=finding,
    margins=margins,
)
