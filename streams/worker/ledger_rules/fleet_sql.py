"""The SQL of the rules across jobs that are judged by the hour: each row is an hour in which a rule holds for a subject.

Only names of fixed lists go into a statement; values are bound as parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from schemas.reserved import CANARY_JOB_PREFIX
from schemas.units import COMPONENTS

_USERS: Final = f"NOT startsWith(job_id, '{CANARY_JOB_PREFIX}')"
_FROM: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
_TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
_IN: Final = f"hour >= {_FROM} AND hour < {_TO}"
_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
#: What accrues with time, without traffic.
_RATE_COST: Final = " + ".join(
    f"toDecimal128({component}_cost_usd, 9)"
    for component in COMPONENTS
    if component not in ("network", "storage")
)
_END: Final = "toInt64(toUnixTimestamp(hour)) * 1000 + 3600000 AS at_ms"
_JOBS: Final = "SELECT job_id, owner, team, project, experiment FROM jobs FINAL"


def team_burn_sql(fields: Sequence[str]) -> str:
    """Return what matching jobs and all jobs cost in each hour; the values of `fields` are parameters of their names."""
    match = " AND ".join(f"j.{name} = {{{name}:String}}" for name in fields) or "1"
    return f"""SELECT {_END}, sumIf(h.cost, {match}) AS usd, sum(h.cost) AS fleet_usd
FROM (SELECT hour, job_id, {_COST} AS cost FROM job_hours FINAL WHERE {_IN} AND {_USERS}) AS h
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = h.job_id GROUP BY hour"""


RETRY_OVERHEAD: Final = f"""
SELECT {_END}, c.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, c.usd AS usd, c.lost_usd AS lost_usd
FROM
(
    SELECT job_id, hour, sum(cost) OVER w AS usd, sum(lost) OVER w AS lost_usd
    FROM
    (
        SELECT job_id, hour, sum({_COST}) AS cost, sum(toDecimal128(lost_cost_usd, 9)) AS lost FROM job_hours FINAL
        WHERE {_USERS} AND job_id IN (SELECT job_id FROM job_hours WHERE {_IN}) AND hour < {_TO} GROUP BY job_id, hour
    )
    WINDOW w AS (PARTITION BY job_id ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
) AS c
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = c.job_id
WHERE c.{_IN} AND toFloat64(c.usd) >= {{least_usd:Float64}} AND toFloat64(c.lost_usd) > {{lost_ratio:Float64}} * toFloat64(c.usd)"""

#: GPU nodes by hour: what they cost, and what jobs used of it.
_NODES: Final = """
SELECT n.hour AS hour, n.node AS node, n.team AS team, n.cost AS node_usd, u.cost AS job_usd
FROM
(
    SELECT hour, node, team, cost_usd AS cost FROM node_hours FINAL
    WHERE hour >= {since} AND hour < {to} AND gpu_milli_ms > 0
) AS n
LEFT ANY JOIN
(
    SELECT toStartOfHour(minute) AS hour, node, sum(cost_usd) AS cost FROM job_minutes FINAL
    PREWHERE minute >= {since} AND minute < {to} WHERE component = 'gpu' AND quantity != 0
    GROUP BY hour, node
) AS u ON u.hour = n.hour AND u.node = n.node"""

UNALLOCATED: Final = f"""
SELECT {_END}, sum(node_usd) AS usd, sum(greatest(toDecimal128(node_usd, 9) - toDecimal128(job_usd, 9), toDecimal128(0, 9))) AS idle_usd
FROM ({_NODES.format(since=_FROM, to=_TO)}) GROUP BY hour
HAVING toFloat64(idle_usd) > {{idle_ratio:Float64}} * toFloat64(usd) AND toFloat64(idle_usd) >= {{least_usd:Float64}}"""

FORGOTTEN_NODE: Final = f"""
SELECT {_END}, node, team, node_usd AS usd
FROM
(
    SELECT hour, node, team, node_usd, max(job_usd > 0) OVER w AS is_used, count() OVER w AS hours
    FROM ({_NODES.format(since="fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')", to=_TO)})
    WINDOW w AS (PARTITION BY node ORDER BY hour RANGE BETWEEN {{before_s:UInt32}} PRECEDING AND CURRENT ROW)
)
WHERE {_IN} AND NOT is_used AND hours >= {{hours:UInt32}}"""

OWNER_COVERAGE: Final = f"""
SELECT {_END}, sum(h.cost) AS usd, sumIf(h.cost, j.owner = '') AS unowned_usd
FROM (SELECT hour, job_id, {_COST} AS cost FROM job_hours FINAL WHERE {_IN} AND {_USERS}) AS h
LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = h.job_id
GROUP BY hour
HAVING toFloat64(usd) >= {{least_usd:Float64}} AND toFloat64(unowned_usd) > (1 - {{owned_ratio:Float64}}) * toFloat64(usd)"""

PROVISIONING_BURST: Final = f"""
SELECT {_END}, cluster, instance_type, nodes, usual_nodes FROM provisioning_bursts WHERE {_IN}"""

OVERSIZED: Final = f"""
SELECT toInt64(toUnixTimestamp(h.hour)) * 1000 + 3600000 AS at_ms, f.job_id AS job_id, f.team AS team, f.owner AS owner,
    f.project AS project, f.rate AS usd_per_hour, f.usual AS usual
FROM
(
    SELECT job_id, team, owner, project, rate, length(earlier) AS jobs,
        if(jobs = 0, 0., arrayReduce('median', earlier)) AS usual, arrayMax(earlier) AS largest
    FROM
    (
        SELECT r.job_id AS job_id, j.team AS team, j.owner AS owner, j.project AS project, r.rate AS rate,
            groupArray(r.rate) OVER (PARTITION BY j.team ORDER BY r.first, r.job_id ROWS BETWEEN 50 PRECEDING AND 1 PRECEDING) AS earlier
        FROM
        (
            SELECT job_id, min(hour) AS first,
                argMin(toFloat64(cost) * 3600000 / wall, hour) AS rate
            FROM
            (
                SELECT job_id, hour, sum({_RATE_COST}) AS cost, sum(wall_clock_ms) AS wall FROM job_hours FINAL
                WHERE {_USERS} AND hour < {_TO} AND hour >= {_FROM} - INTERVAL 30 DAY
                GROUP BY job_id, hour HAVING wall > 0 AND cost > 0
            )
            GROUP BY job_id
        ) AS r
        LEFT ANY JOIN ({_JOBS}) AS j ON j.job_id = r.job_id
    )
) AS f
INNER JOIN (SELECT DISTINCT job_id, hour FROM job_hours FINAL WHERE {_IN} AND wall_clock_ms > 0) AS h ON h.job_id = f.job_id
WHERE f.jobs >= {{jobs:UInt32}} AND f.usual > 0 AND f.rate > f.largest AND f.rate >= {{factor:Float64}} * f.usual"""

PRICE_JUMP: Final = f"""
SELECT toInt64(toUnixTimestamp(hour)) * 1000 + 3600000 AS at_ms, sku, usd, before_usd, per
FROM
(
    SELECT sku, per, usd, toStartOfHour(toDateTime(greatest(time, effective), 'UTC')) AS hour,
        lagInFrame(usd) OVER (PARTITION BY sku ORDER BY effective ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS before_usd
    FROM prices FINAL
)
WHERE {_IN} AND before_usd > 0
    AND (toFloat64(usd) > {{factor:Float64}} * toFloat64(before_usd) OR toFloat64(usd) * {{factor:Float64}} < toFloat64(before_usd))"""
