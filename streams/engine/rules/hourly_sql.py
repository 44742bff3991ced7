"""SQL that the rules judged by the hour share: which hours, what jobs and nodes cost in them, and what there is at all.

Only names of fixed lists go into a statement; values are bound as parameters.
"""

from __future__ import annotations

from typing import Final

from schemas.durations import NEVER_MS
from schemas.units import COMPONENTS

FROM: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
IN: Final = f"hour >= {FROM} AND hour < {TO}"
#: In the first hour that any node was paid in the fleet comes up. Any paid hour before the span says that it has.
AFTER_FIRST: Final = f"""hour > (SELECT min(hour) FROM
(
    SELECT hour FROM node_hours FINAL WHERE paid_ms > 0 AND hour < {FROM} LIMIT 1
    UNION ALL SELECT hour FROM node_hours FINAL WHERE paid_ms > 0 AND {IN}
))"""
COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
END: Final = "toInt64(toUnixTimestamp(hour)) * 1000 + 3600000 AS at_ms"
JOBS: Final = "SELECT job_id, owner, team, project, experiment FROM jobs FINAL"

#: What there is at all in the span, or the hour before it: of rows that were written again since, former versions count, so it is cheap.
IS_THERE: Final = f"""
SELECT (SELECT count() FROM job_hours WHERE {IN}) > 0 AS jobs, (SELECT max(sampled_gpu_ms) FROM job_hours WHERE {IN}) > 0 AS samples,
    (SELECT count() FROM node_hours WHERE hour >= {FROM} - INTERVAL 1 HOUR AND hour < {TO}) > 0 AS nodes"""


def episodes_of(*rules: str) -> str:
    """Return SQL for the episodes of rules that stood in the span, at its end or in the hour before it, by job: they name the same cause."""
    names = ", ".join(f"'{rule}'" for rule in rules)
    return f"""
SELECT subject_name, groupArray((toUnixTimestamp64Milli(started),
    if(resolved IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(resolved))))) AS episodes
FROM alerts FINAL WHERE rule IN ({names}) AND started <= {TO} AND (resolved IS NULL OR resolved >= {FROM})
GROUP BY subject_name"""


STOOD: Final = "arrayExists(each -> each.1 <= at_ms AND each.2 > at_ms - 3600000, r.episodes)"

#: Parameters that have the episodes of `empty_group` and `metered_twice`: subjects, and when they stood.
GROUPS: Final = ("groups", "groups_from", "groups_until")
TWICE: Final = ("twice", "twice_from", "twice_until")
#: Those that have the jobs whose samples come ahead of the log, as `clock_ahead` tells, and when they do.
AHEAD: Final = ("ahead", "ahead_from", "ahead_until")


def named_in_hour(parameters: tuple[str, str, str], name: str, begin_ms: str) -> str:
    """The condition that an alert of these parameters about a subject stood in the hour, or opened at its end: it names the same cause."""
    subjects, since, until = parameters
    return (
        f"arrayExists((each, began, over) -> each = {name} AND began <= {begin_ms} + 3600000 AND over > {begin_ms},"
        f" {{{subjects}:Array(String)}}, {{{since}:Array(Int64)}}, {{{until}:Array(Int64)}})"
    )


def in_named_group(cluster: str, type_: str) -> str:
    """The condition that an alert about the node group stood in the hour."""
    return named_in_hour(GROUPS, f"concat({cluster}, '/', {type_})", "toInt64(toUnixTimestamp(hour)) * 1000")


#: GPU nodes by hour, without those of a group that an alert names and that no job used: what they cost, and what jobs used of it; GPU-time without a price at that of the node.
_NODES: Final = """
SELECT n.hour AS hour, n.node AS node, n.team AS team, n.cluster AS cluster, n.instance_type AS instance_type,
    n.gpu_type AS gpu_type, n.cost AS node_usd, n.gpu_ms AS gpu_ms,
    u.cost AS job_usd, u.is_used AS is_used, u.unpriced_ms AS unpriced_ms, u.used_ms AS used_ms
FROM
(
    SELECT hour, node, team, cluster, instance_type, gpu_type, cost_usd AS cost, gpu_milli_ms AS gpu_ms, {is_named} AS is_named
    FROM node_hours FINAL
    WHERE hour >= {since} AND hour < {to} AND gpu_milli_ms > 0
) AS n
LEFT ANY JOIN
(
    SELECT toStartOfHour(minute) AS hour, node, sum(cost_usd) AS cost, 1 AS is_used,
        sumIf(quantity, sku = '' AND unit = 'gpu_milli_ms') AS unpriced_ms, sumIf(quantity, unit = 'gpu_milli_ms') AS used_ms
    FROM job_minutes FINAL
    PREWHERE minute >= {since} AND minute < {to} WHERE component = 'gpu' AND quantity != 0
    GROUP BY hour, node
) AS u ON u.hour = n.hour AND u.node = n.node
WHERE NOT (n.is_named AND NOT u.is_used)"""


def nodes_sql(since: str, to: str) -> str:
    """SQL for GPU nodes in these hours, as above."""
    type_ = "if(instance_type != '', instance_type, gpu_type)"
    return _NODES.format(since=since, to=to, is_named=in_named_group("cluster", type_))


#: A job that held the node so long before left what works on it: else its jobs are not metered, and nothing says that it should idle.
_LEFT_HOURS: Final = 24
#: What GPUs did for no job, by hour and node, and the last job that held any of these.
STRAYS: Final = f"""
SELECT s.hour AS hour, s.node AS node, s.stray_ms AS stray_ms, s.gpus AS gpus, j.job_id AS last_job
FROM
(
    SELECT toStartOfHour(minute) AS hour, node, toInt64(sum(productive_ms)) AS stray_ms, toInt64(uniqExactIf(gpu, productive_ms > 0)) AS gpus
    FROM unattributed_minutes FINAL WHERE minute >= {FROM} AND minute < {TO} GROUP BY hour, node HAVING stray_ms > 0
) AS s
ASOF LEFT JOIN
(
    SELECT toStartOfHour(minute) AS hour, node, argMax(job_id, (minute, job_id)) AS job_id
    FROM job_minutes FINAL PREWHERE minute >= {FROM} - INTERVAL {_LEFT_HOURS} HOUR AND minute < {TO}
    WHERE component = 'gpu' AND quantity != 0
        AND node IN (SELECT node FROM unattributed_minutes WHERE minute >= {FROM} AND minute < {TO} AND productive_ms > 0)
    GROUP BY hour, node
) AS j ON j.node = s.node AND s.hour >= j.hour
WHERE j.job_id != '' AND s.hour <= j.hour + INTERVAL {_LEFT_HOURS} HOUR"""
_STRAY_MS: Final = "least(x.stray_ms, intDiv(toInt64(w.gpu_ms - w.used_ms), 1000))"
#: What that cost, in nano-dollars, of a row `w` of `nodes_sql` and one `x` of these.
STRAY_NANO: Final = f"toInt64(intDiv(toInt256(toDecimal128(node_usd, 9) * 1000000000) * greatest({_STRAY_MS}, 0) * 1000, w.gpu_ms))"
