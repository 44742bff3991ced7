"""`double_held`: jobs hold more GPUs of a node at one time than it has, so one of them is over, and its end was lost.

What each job held through the last minutes is handed in, by node. Only whole GPUs count: who holds a part shares it on purpose.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import of_others, rounded_usd, sentence, short, unheeded
from streams.engine.rules.rule import (
    TICKET,
    LedgerRule,
    Margin,
    Threshold,
    above_threshold,
    from_threshold_on,
)

_NAME: Final = "double_held"
#: Enough to see which nodes they are.
_SHOWN: Final = 50


class NodeHolding(NamedTuple):
    """The whole GPUs of a node that a job held in each of the last minutes, since when, and what they cost in these.

    `is_sampled`: there are samples of them, so the job is not over.
    """

    node: str
    job_id: str
    gpus: int
    began_ms: int
    nano: int
    is_sampled: bool = False


class NodeHeld(NamedTuple):
    """A node of which more is held than it has: how much, how much it has, and who holds it."""

    node: str
    held: int
    has: int
    by: tuple[NodeHolding, ...]


class DoubleHolding(NamedTuple):
    """A job that seems to be over, and the nodes whose GPUs others hold, too."""

    job_id: str
    nodes: tuple[NodeHeld, ...]

    @property
    def others(self) -> list[str]:
        """The jobs beside it, the one that has held most of these nodes first, of several the newest."""
        found: dict[str, tuple[int, int]] = {}
        for node in self.nodes:
            for each in node.by:
                nodes, began_ms = found.get(each.job_id, (0, each.began_ms))
                found[each.job_id] = nodes + 1, max(began_ms, each.began_ms)
        del found[self.job_id]
        return sorted(found, key=lambda job_id: (-found[job_id][0], -found[job_id][1], job_id))

    @property
    def held(self) -> int:
        """How many GPUs of these nodes are held."""
        return sum(each.held for each in self.nodes)

    @property
    def has(self) -> int:
        """How many GPUs these nodes have."""
        return sum(each.has for each in self.nodes)

    @property
    def nano(self) -> int:
        """What the job paid for these nodes in the last minutes."""
        return sum(each.nano for node in self.nodes for each in node.by if each.job_id == self.job_id)


def doubly_held(holdings: Iterable[NodeHolding], has: Mapping[str, int]) -> list[DoubleHolding]:
    """The jobs that hold what there is no room for. `has`: whole GPUs of the nodes of which that is known.

    The jobs that are sampled have what they hold, then the newest ones: what they were given, an older job gave back.
    """
    of_nodes: dict[str, list[NodeHolding]] = {}
    for each in holdings:
        if each.gpus and each.node in has:
            of_nodes.setdefault(each.node, []).append(each)
    found: dict[str, list[NodeHeld]] = {}
    for node, held in sorted(of_nodes.items()):
        room, without = has[node], list[str]()
        for each in sorted(held, key=lambda each: (not each.is_sampled, -each.began_ms, each.job_id)):
            if each.gpus <= room:
                room -= each.gpus
            else:
                without.append(each.job_id)
        if len(without) < len(held):  # else one job alone names more than there is: no end was lost
            at_node = NodeHeld(node, sum(each.gpus for each in held), has[node], tuple(held))
            for job_id in without:
                found.setdefault(job_id, []).append(at_node)
    return [DoubleHolding(job_id, tuple(nodes)) for job_id, nodes in sorted(found.items())]


def finding(
    of: LedgerSettings, double: DoubleHolding, at_ms: int, about_of: Callable[[str], Mapping[str, str]]
) -> LedgerFinding:
    """The sentence and the evidence of a job that holds what others hold. `about_of`: owner, team and project of a job.

    Jobs of other teams are counted and not named: the alert is its team's.
    """
    minutes = int(of.thresholds["minutes"])
    rate, job = double.nano * HOUR_MS // (minutes * MINUTE_MS), double.job_id
    about, beside = about_of(job), double.others
    others = [each for each in beside if about_of(each)["team"] == about["team"]]
    held, has = double.held, double.has
    more_nodes = len(double.nodes) - 1

    def said(at_most: int) -> str:
        name = short(job, at_most)
        more = f" and {len(beside) - 1} more" if len(beside) > 1 else ""
        jobs = f"{name} and " + (f"{short(others[0], at_most)}{more}" if others else of_others(len(beside)))
        node = f"node {short(double.nodes[0].node, at_most)}" + (
            f" and {more_nodes} more" if more_nodes else ""
        )
        cost = f", {rounded_usd(rate)}/h too much" if rate else ""
        left = f", else {unheeded(rate, at_ms)}" if rate else ""
        verb = "have" if more_nodes else "has"
        return f"{jobs} hold {held:,} GPUs of {node}, which {verb} {has:,}{cost}; if {name} is over, publish its end{left}"

    return LedgerFinding(
        _NAME, of.severity, "job", job, at_ms, sentence(said), _evidence([each.node for each in double.nodes], at_ms, minutes),
        held / has, rate, double.nano, about["owner"], about["team"], about["project"],
        margins=(*margins(of.thresholds, double, minutes),),
    )  # fmt: skip


def _evidence(nodes: Sequence[str], at_ms: int, minutes: int) -> str:
    """SQL for who holds GPUs of these nodes, in the minutes in which they were held twice."""
    names = ", ".join(quoted(node) for node in nodes[:_SHOWN])
    since, until = (f"toDateTime({each // 1000:d}, 'UTC')" for each in (at_ms - minutes * MINUTE_MS, at_ms))
    return (
        "SELECT l.node AS node, l.job_id AS job_id, any(l.owner) AS owner, any(l.state) AS state,"
        f" round(sum(l.quantity) / {minutes * MINUTE_MS * 1000}, 3) AS gpus, sum(l.cost_usd) AS cost_usd FROM ledger AS l"
        f" WHERE l.node IN ({names}) AND l.component = 'gpu' AND l.minute >= {since} AND l.minute < {until}"
        " GROUP BY node, job_id ORDER BY node, job_id"
    )


def margins(of: Mapping[str, float], double: DoubleHolding, minutes: int) -> list[Margin]:
    """How far GPUs that were held for so many whole minutes are from being held twice."""
    held, has = double.held, double.has
    return [
        above_threshold("GPUs held / GPUs of the nodes (above)", held / has, 1, is_above=held > has),
        from_threshold_on("whole minutes in which they were", minutes, of["minutes"]),
    ]


RULE: Final = LedgerRule(
    name=_NAME,
    title="GPUs held twice",
    severity=TICKET,
    about="`job`",
    holds=(
        "the same jobs have held more whole GPUs of a node than its events say it has, in each of the last 8 "
        "minutes. It is about the oldest of them, until that is no longer paid, or is sampled again and alone"
    ),
    runbook="runbook.md#gpus-held-twice",
    yields_to=("silent_job", "metered_twice"),
    thresholds={
        "minutes": Threshold(8, 3, 120, "whole minutes in which they are: a hand-over takes fewer", True)
    },
    each="job",
    finding=finding,
    margins=margins,
)
