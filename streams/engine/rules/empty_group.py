"""`empty_group`: several nodes of one type came up together, and no job uses them.

When nodes came up, and were first used, is handed in. One that gets its job within a quarter of an hour is ordinary, as are the first nodes
of a job that waits for all of its own; a lone spare node is what `forgotten_node` is for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS, MINUTE_MS
from schemas.units import NANO_PER_USD
from streams.engine.rules.evidence import quoted
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import rounded_usd, sentence, short, short_instant, unheeded
from streams.engine.rules.rule import TICKET, LedgerRule, Margin, Threshold, from_threshold_on

NAME: Final = "empty_group"
KIND: Final = "node_group"
#: Nodes that came up within so long of each other came up together; a cluster is in use if a job used a node of it within so long.
TOGETHER_MS: Final = HOUR_MS


class NodeGroup(NamedTuple):
    """A node group: a cluster, and the type of its nodes; of the GPUs where no event names an instance type."""

    cluster: str
    instance_type: str
    gpu_type: str = ""

    @property
    def subject(self) -> str:
        """The name of the alert's subject."""
        return f"{self.cluster}/{self.instance_type or self.gpu_type}"


class EmptyNode(NamedTuple):
    """A node that is paid, and that no job has used since it came up: in the minutes [begin_ms, until_ms)."""

    node: str
    group: NodeGroup
    begin_ms: int
    until_ms: int
    nano_per_hour: int
    team: str = ""

    def ripens_ms(self, of: Mapping[str, float]) -> int:
        """When it has been empty for long enough; the minute in which it came up is not over before the next one."""
        return self.begin_ms + (int(of["minutes"]) + 1) * MINUTE_MS


def is_enough(of: Mapping[str, float], nodes: Sequence[EmptyNode]) -> bool:
    """Whether so many nodes are worth a message."""
    rate = sum(each.nano_per_hour for each in nodes)
    return len(nodes) >= of["nodes"] and rate >= of["least_usd_per_hour"] * NANO_PER_USD


def finding(of: LedgerSettings, group: NodeGroup, nodes: Sequence[EmptyNode], at_ms: int) -> LedgerFinding:
    """The sentence and the evidence of a group; `nodes`: all that are empty, those that came up last among them."""
    rate = sum(each.nano_per_hour for each in nodes)
    spent = sum(each.nano_per_hour * (at_ms - each.begin_ms) // HOUR_MS for each in nodes)
    first_ms, teams = min(each.begin_ms for each in nodes), {each.team for each in nodes}

    def said(at_most: int) -> str:
        kind = short(group.instance_type or group.gpu_type, at_most)
        where = f" in cluster {short(group.cluster, at_most)}" if group.cluster else ""
        return (
            f"{len(nodes)} {kind} nodes{where} came up since {short_instant(first_ms, at_ms)} UTC and no job uses them, {rounded_usd(rate)}/h;"
            f" give them back and look at the autoscaler, else {unheeded(rate, at_ms)}"
        )

    return LedgerFinding(
        NAME, of.severity, KIND, group.subject, at_ms, sentence(said), group_evidence(group, first_ms),
        float(len(nodes)), rate, spent, "", teams.pop() if len(teams) == 1 else "",
        margins=(*margins(of.thresholds, nodes),),
    )  # fmt: skip


def group_evidence(group: NodeGroup, first_ms: int) -> str:
    """SQL for the nodes of the group hour by hour: what they cost, and what of them jobs used."""
    type_ = f"instance_type = {quoted(group.instance_type)} AND gpu_type = {quoted(group.gpu_type)}"
    since = f"toDateTime({first_ms // HOUR_MS * HOUR_MS // 1000:d}, 'UTC')"
    return (
        f"SELECT * FROM node_hour_balance WHERE cluster = {quoted(group.cluster)} AND {type_} AND hour >= {since}"
        " ORDER BY hour DESC, used_gpu_milli_ms, node LIMIT 200"
    )


def margins(of: Mapping[str, float], nodes: Sequence[EmptyNode]) -> list[Margin]:
    """How far nodes that have been empty for long enough are from a message."""
    rate = sum(each.nano_per_hour for each in nodes)
    return [
        from_threshold_on("nodes that came up and that no job uses", float(len(nodes)), of["nodes"]),
        from_threshold_on("dollars per hour of them", rate / NANO_PER_USD, of["least_usd_per_hour"]),
    ]


RULE: Final = LedgerRule(
    name=NAME,
    title="Node group without jobs",
    severity=TICKET,
    about=f"`{KIND}`",
    holds=(
        "3 or more nodes of one type came up within an hour in a cluster whose other nodes jobs use, and cost"
        " $10/h or more. Each had no job for 13 min, and so many of them still have none"
    ),
    runbook="runbook.md#node-group-without-jobs",
    thresholds={
        "nodes": Threshold(3, 2, 1e5, "nodes that no job has used since they came up", True),
        "minutes": Threshold(13, 3, 240, "whole minutes for which each of them has had none", True),
        "least_usd_per_hour": Threshold(10, 0.01, 1e9, "dollars per hour of them"),
    },
    each="node group",
    operator="nodes",
    finding=finding,
    margins=margins,
)
