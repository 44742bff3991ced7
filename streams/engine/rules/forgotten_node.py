"""`forgotten_node`: nodes of a group are paid for and had no job for hours, or work for none after one has ended.

One alert for the group: its nodes come up one at a time, and stay for one cause.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.durations import HOUR_MS
from schemas.units import NANO_PER_USD
from streams.engine.kernels.bill import MAX_COST_NANO
from streams.engine.rules.empty_group import KIND, NodeGroup, group_evidence
from streams.engine.rules.finding import LedgerFinding, LedgerSettings
from streams.engine.rules.formatting import sentence, short, unheeded, usd
from streams.engine.rules.hourly_sql import END, IN, STRAY_NANO, STRAYS, TO, nodes_sql
from streams.engine.rules.rule import TICKET, HourlyRule, Margin, Threshold, from_threshold_on
from streams.engine.rules.wording import nano_of

_NAME: Final = "forgotten_node"
SQL: Final = f"""
SELECT {END}, concat(cluster, '/', if(instance_type != '', instance_type, node_gpu_type)) AS node_group, cluster, instance_type,
    if(instance_type != '', '', node_gpu_type) AS gpu_type, toInt64(count()) AS nodes, min(node) AS first_node,
    if(uniqExact(node_team) = 1, any(node_team), '') AS team, sum(node_usd) AS usd, max(empty_hours) AS hours,
    minIf(node, is_stray) AS stray_node, argMinIf(last_job, node, is_stray) AS last_job, argMinIf(gpus, node, is_stray) AS stray_gpus,
    toInt64(countIf(is_stray)) AS stray_nodes, max(stray_nano) AS stray_nano
FROM
(
    SELECT w.hour AS hour, w.node AS node, node_team, cluster, instance_type, node_gpu_type, node_usd, x.last_job AS last_job, x.gpus AS gpus,
        if(was_used, 0, paid_hours) AS empty_hours,
        {STRAY_NANO} AS stray_nano,
        stray_nano >= {{stray_nano:Int64}} AS is_stray
    FROM
    (
        SELECT hour, node, team AS node_team, cluster, instance_type, gpu_type AS node_gpu_type, node_usd, gpu_ms, used_ms,
            max(is_used) OVER w AS was_used, count() OVER w AS paid_hours
        FROM ({nodes_sql("fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')", TO)})
        WINDOW w AS (PARTITION BY node ORDER BY hour RANGE BETWEEN {{before_s:UInt32}} PRECEDING AND CURRENT ROW)
    ) AS w
    LEFT ANY JOIN ({STRAYS}) AS x ON x.hour = w.hour AND x.node = w.node
)
WHERE {IN} AND (empty_hours >= {{hours:UInt32}} OR is_stray) GROUP BY hour, node_group, cluster, instance_type, gpu_type"""


def finding(of: LedgerSettings, row: Mapping[str, Any]) -> LedgerFinding:
    """The sentence and the evidence of a row, which is of a node group."""
    hours, spent, nodes = int(of.thresholds["hours"]), nano_of(row["usd"]), int(row["nodes"])
    group = NodeGroup(row["cluster"], row["instance_type"], row["gpu_type"])

    def left(at_most: int) -> str:
        node, job = (short(each, at_most) for each in (row["stray_node"], row["last_job"]))
        more = f" and {row['stray_nodes'] - 1} more" if row["stray_nodes"] > 1 else ""
        return (
            f"{row['stray_gpus']} GPUs of node {node}{more} work for no job, {usd(row['stray_nano'])} in an hour; {job} held it last: end"
            f" what it left, or let the exporter name its job, else {unheeded(row['stray_nano'], row['at_ms'])}"
        )

    def said(at_most: int) -> str:
        name, kind = (
            short(each, at_most) for each in (row["first_node"], group.instance_type or group.gpu_type)
        )
        where = f" in cluster {short(group.cluster, at_most)}" if group.cluster else ""
        what, them = f"node {name} has", "it"
        if nodes > 1:
            what, them = f"{nodes} {kind} nodes{where} ({name}, ...) have".replace("  ", " "), "them"
        return (
            f"{what} been paid for {hours} h and had no job, {usd(spent)}/h; terminate {them}"
            f" or let jobs on {them}, else {unheeded(spent, row['at_ms'])}"
        )

    return LedgerFinding(
        _NAME, of.severity, KIND, group.subject, row["at_ms"], sentence(left if row["stray_nodes"] else said),
        group_evidence(group, row["at_ms"] - hours * HOUR_MS), float(nodes), spent, spent * hours, "", row["team"],
    )  # fmt: skip


def named_stray_nano(of: LedgerSettings) -> int:
    """From which nano-dollars of an hour GPUs of a node that worked for no job open an alert."""
    return round(of.thresholds["stray_usd"] * NANO_PER_USD) if of.enabled else MAX_COST_NANO


def _bound(of: Mapping[str, float], from_ms: int) -> Mapping[str, float]:
    hours = int(of["hours"])
    return {
        "since_ms": from_ms - (hours - 1) * HOUR_MS,
        "before_s": (hours - 1) * 3600,
        "hours": hours,
        "stray_nano": round(of["stray_usd"] * NANO_PER_USD),
    }


def margins(of: Mapping[str, float], row: Mapping[str, Any]) -> list[Margin]:
    """How far a row of the query is beyond the thresholds."""
    return [
        from_threshold_on("whole hours without a job, at least", row["hours"], of["hours"]),
        from_threshold_on(
            "dollars of GPUs that worked for no job", row["stray_nano"] / NANO_PER_USD, of["stray_usd"], way=1
        ),
    ]


RULE: Final = HourlyRule(
    name=_NAME,
    title="Node without jobs",
    severity=TICKET,
    about=f"`{KIND}`",
    holds=(
        "paid GPU nodes of one type in a cluster had no job for 6 h: one node is enough. Or GPUs of one that a job held in the last"
        " 24 h worked for no job, worth $2 in the hour: the job ended and left its processes"
    ),
    runbook="ledger_rules.md#forgotten_node",
    yields_to=("empty_group",),
    thresholds={
        "hours": Threshold(6, 1, 168, "whole hours in which a paid node had no job", True),
        "stray_usd": Threshold(2, 0.01, 1e9, "dollars of the hour in which GPUs of a node worked for no job"),
    },
    sql=SQL,
    needs="nodes",
    kind=KIND,
    key="node_group",
    bound=_bound,
    each="node group",
    operator="nodes",
    finding=finding,
    margins=margins,
    inhibited_by=("unallocated",),
)
