"""The SQL of the rules across jobs that are judged by the hour: each row is an hour in which a rule holds for a subject.

Only names of fixed lists go into a statement; values are bound as parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.durations import NEVER_MS
from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS

_FROM: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
_TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
_IN: Final = f"hour >= {_FROM} AND hour < {_TO}"
_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
_END: Final = "toInt64(toUnixTimestamp(hour)) * 1000 + 3600000 AS at_ms"
_JOBS: Final = "SELECT job_id, owner, team, project, experiment FROM jobs FINAL"


def team_burn_sql(fields: Sequence[str]) -> str:
    """Return what matching jobs and all jobs cost in each hour; the values of `fields` are parameters of their names."""
    match = " AND ".join(f"j.{name} = {{{name}:String}}" for name in fields) or "1"
    return f"""SELECT {_END}, sumIf(h.cost, {match}) AS usd, sum(h.cost) AS fleet_usd
FROM (SELECT hour, job_id, {_COST} AS cost FROM job_hours FINAL WHERE {_IN} AND {USERS_JOBS}) AS h
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = h.job_id GROUP BY hour"""


#: What there is at all in the span, or the hour before it: of rows that were written again since, former versions count, so it is cheap.
IS_THERE: Final = f"""
SELECT (SELECT count() FROM job_hours WHERE {_IN}) > 0 AS jobs, (SELECT max(sampled_gpu_ms) FROM job_hours WHERE {_IN}) > 0 AS samples,
    (SELECT count() FROM node_hours WHERE hour >= {_FROM} - INTERVAL 1 HOUR AND hour < {_TO}) > 0 AS nodes"""

#: An attempt in one of these states has lost what it did since its last checkpoint.
_BROKEN: Final = "('failed', 'preempted', 'superseded')"

#: What attempts cost and lost in each hour, of jobs that were paid in the span and of which any attempt broke off.
_TRIED: Final = f"""
SELECT h.job_id AS job_id, h.attempt AS attempt, h.hour AS hour, h.cost AS cost, h.lost AS all_lost,
    if(a.is_retry, h.starting_lost, toDecimal128(0, 9)) AS start_lost, a.state AS state, a.ended AS ended
FROM
(
    SELECT job_id, attempt, hour, sum({_COST}) AS cost, sum(toDecimal128(lost_cost_usd, 9)) AS lost,
        sum(toDecimal128(starting_lost_cost_usd, 9)) AS starting_lost
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND job_id IN (SELECT job_id FROM job_hours WHERE {_IN}) AND hour < {_TO}
        AND job_id IN (SELECT job_id FROM attempts WHERE state IN {_BROKEN})
    GROUP BY job_id, attempt, hour
) AS h
LEFT ANY JOIN
(
    SELECT job_id, attempt, state, ended, attempt > min(attempt) OVER (PARTITION BY job_id) AS is_retry FROM attempts FINAL
) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt"""


def _episodes(rule: str) -> str:
    """Return SQL for the episodes of a rule that stood in the span or the hour before it, by job: they name the same cause."""
    return f"""
SELECT subject_name, groupArray((toUnixTimestamp64Milli(started),
    if(resolved IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(resolved))))) AS episodes
FROM alerts FINAL WHERE rule = '{rule}' AND started < {_TO} AND (resolved IS NULL OR resolved >= {_FROM})
GROUP BY subject_name"""


_STOOD: Final = "arrayExists(each -> each.1 < at_ms AND each.2 > at_ms - 3600000, r.episodes)"

#: What an attempt lost counts from the hour on in which it broke off, the start-up of a retry in its own hour.
RETRY_OVERHEAD: Final = f"""
SELECT {_END}, c.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project,
    c.usd AS usd, c.lost_usd AS lost_usd, c.broken AS broken
FROM
(
    SELECT job_id, hour, cost, sum(cost) OVER w AS usd, sum(lost) OVER w AS lost_usd, sum(broke) OVER w AS broken
    FROM
    (
        SELECT job_id, hour, sum(t.cost) AS cost, sum(t.lost) AS lost, sum(t.broke) AS broke
        FROM
        (
            SELECT job_id, hour, cost, start_lost AS lost, 0 AS broke FROM ({_TRIED})
            UNION ALL
            SELECT job_id, toStartOfHour(toDateTime(assumeNotNull(ended), 'UTC')) AS hour, toDecimal128(0, 9) AS cost,
                sum(all_lost) - sum(start_lost) AS lost, 1 AS broke
            FROM (SELECT job_id, attempt, all_lost, start_lost, state, ended FROM ({_TRIED}))
            WHERE state IN {_BROKEN} AND ended IS NOT NULL
            GROUP BY job_id, attempt, ended HAVING sum(all_lost) > 0
        ) AS t
        GROUP BY job_id, hour
    )
    WINDOW w AS (PARTITION BY job_id ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
) AS c
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = c.job_id
LEFT ANY JOIN ({_episodes("retry_loop")}) AS r ON r.subject_name = c.job_id
WHERE c.{_IN} AND NOT {_STOOD} AND c.cost > 0 AND c.broken >= {{attempts:UInt32}} AND toFloat64(c.lost_usd) >= {{least_usd:Float64}}
    AND toFloat64(c.lost_usd) > {{lost_ratio:Float64}} * toFloat64(c.usd)"""

#: GPU nodes by hour: what they cost, and what jobs used of it; GPU-time without a price at that of the node.
_NODES: Final = """
SELECT n.hour AS hour, n.node AS node, n.team AS team, n.cost AS node_usd, n.gpu_ms AS gpu_ms,
    u.cost AS job_usd, u.is_used AS is_used, u.unpriced_ms AS unpriced_ms
FROM
(
    SELECT hour, node, team, cost_usd AS cost, gpu_milli_ms AS gpu_ms FROM node_hours FINAL
    WHERE hour >= {since} AND hour < {to} AND gpu_milli_ms > 0
) AS n
LEFT ANY JOIN
(
    SELECT toStartOfHour(minute) AS hour, node, sum(cost_usd) AS cost, 1 AS is_used,
        sumIf(quantity, sku = '' AND unit = 'gpu_milli_ms') AS unpriced_ms
    FROM job_minutes FINAL
    PREWHERE minute >= {since} AND minute < {to} WHERE component = 'gpu' AND quantity != 0
    GROUP BY hour, node
) AS u ON u.hour = n.hour AND u.node = n.node"""

UNALLOCATED: Final = f"""
SELECT {_END}, sum(node_usd) AS usd, sum(greatest(toDecimal128(node_usd, 9) - toDecimal128(job_usd, 9)
    - toDecimal128(toFloat64(node_usd) * least(unpriced_ms / gpu_ms, 1), 9), toDecimal128(0, 9))) AS idle_usd
FROM ({_NODES.format(since=_FROM, to=_TO)}) GROUP BY hour
HAVING toFloat64(idle_usd) > {{idle_ratio:Float64}} * toFloat64(usd) AND toFloat64(idle_usd) >= {{least_usd:Float64}}"""

FORGOTTEN_NODE: Final = f"""
SELECT {_END}, node, team, node_usd AS usd
FROM
(
    SELECT hour, node, team, node_usd, max(is_used) OVER w AS was_used, count() OVER w AS hours
    FROM ({_NODES.format(since="fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')", to=_TO)})
    WINDOW w AS (PARTITION BY node ORDER BY hour RANGE BETWEEN {{before_s:UInt32}} PRECEDING AND CURRENT ROW)
)
WHERE {_IN} AND NOT was_used AND hours >= {{hours:UInt32}}"""

OWNER_COVERAGE: Final = f"""
SELECT {_END}, sum(h.cost) AS usd, sumIf(h.cost, j.owner = '') AS unowned_usd
FROM (SELECT hour, job_id, {_COST} AS cost FROM job_hours FINAL WHERE {_IN} AND {USERS_JOBS}) AS h
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = h.job_id
GROUP BY hour
HAVING toFloat64(usd) >= {{least_usd:Float64}} AND toFloat64(unowned_usd) > (1 - {{owned_ratio:Float64}}) * toFloat64(usd)"""

PROVISIONING_BURST: Final = f"""
SELECT {_END}, cluster, instance_type, nodes, usual_nodes FROM provisioning_bursts WHERE {_IN}"""

#: Samples count up to what is held: two attempts may be sampled on the same GPU. A `silent_job` names the same cause.
UNSAMPLED_GPUS: Final = f"""
SELECT {_END}, c.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, c.cluster AS cluster,
    c.held / 3600000000 AS gpus, (c.held - c.sampled) / c.held AS unsampled_ratio,
    (c.all_sampled - c.sampled) / (c.all_held - c.held) AS others_ratio, toFloat64(c.cost) * unsampled_ratio AS usd
FROM
(
    SELECT hour, job_id, cluster, held, sampled, wall_ms, starting_ms, cost,
        sum(held) OVER w AS all_held, sum(sampled) OVER w AS all_sampled
    FROM
    (
        SELECT hour, job_id, cluster, sum(gpu_milli_ms) AS held, least(sum(sampled_gpu_ms) * 1000, held) AS sampled,
            sum(wall_clock_ms) AS wall_ms, sum(t.starting_ms) AS starting_ms, sum(toDecimal128(gpu_cost_usd, 9)) AS cost
        FROM job_hours AS t FINAL WHERE {_IN} AND {USERS_JOBS}
        GROUP BY hour, job_id, cluster HAVING held > 0
    )
    WINDOW w AS (PARTITION BY hour, cluster)
) AS c
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = c.job_id
LEFT ANY JOIN ({_episodes("silent_job")}) AS r ON r.subject_name = c.job_id
WHERE c.wall_ms >= 3600000 AND c.starting_ms = 0 AND c.all_held - c.held >= 3600000000
    AND unsampled_ratio >= {{unsampled_ratio:Float64}} AND others_ratio >= {{cluster_ratio:Float64}}
    AND NOT {_STOOD}"""
