"""The SQL of the rules `double_held`, `after_node` and `metered_twice`: who holds what of nodes that have too little, or are gone, and which jobs go on."""

from __future__ import annotations

from typing import Final

from schemas.reserved import USERS_JOBS
from streams.worker.ledger_judges.usage_sql import BOOKED

FROM: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
IN: Final = f"minute >= {FROM} AND minute < {TO}"
#: Jobs that were paid in the span: minutes are read by job.
PAID_JOBS: Final = (
    f"job_id IN (SELECT job_id FROM job_hours WHERE hour >= toStartOfHour({FROM}) AND hour < {TO})"
)
#: Rows of GPU-time on a node.
GPU_ROWS: Final = (
    f"component = 'gpu' AND unit = 'gpu_milli_ms' AND quantity > 0 AND node != '' AND {USERS_JOBS}"
)
AT_MS: Final = "toInt64(toUnixTimestamp(minute)) * 1000"

#: Whether GPUs of any node are known at all: of rows that were written again since, former versions count, so it is cheap.
IS_THERE: Final = f"""
SELECT 1 AS found FROM node_minutes PREWHERE {IN} WHERE unit = 'gpu_milli_ms' AND quantity > 0 LIMIT 1"""

#: The minutes in which more of a node was held than it had, and what it had.
OVER: Final = f"""
SELECT n.node AS node, n.minute_ms AS minute_ms, n.has AS has
FROM
(
    SELECT node, {AT_MS} AS minute_ms, sum(quantity) AS has FROM node_minutes FINAL
    PREWHERE {IN} WHERE unit = 'gpu_milli_ms' AND quantity > 0 GROUP BY node, minute_ms
) AS n
INNER JOIN
(
    SELECT node, {AT_MS} AS minute_ms, sum(quantity) AS held FROM job_minutes FINAL
    PREWHERE {IN} AND {PAID_JOBS} WHERE {GPU_ROWS} GROUP BY node, minute_ms
) AS u ON u.node = n.node AND u.minute_ms = n.minute_ms
WHERE u.held > n.has
ORDER BY node, minute_ms"""

#: Who held GPUs of these nodes, and what they cost.
HOLDERS: Final = f"""
SELECT node, {AT_MS} AS minute_ms, job_id, max(attempt) AS last_attempt, sum(quantity) AS held,
    toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano
FROM job_minutes FINAL PREWHERE {IN} AND {PAID_JOBS} WHERE node IN {{nodes:Array(String)}} AND {GPU_ROWS}
GROUP BY node, minute_ms, job_id"""

#: What jobs paid for GPUs of nodes in minutes in which these were not paid, of nodes that were paid before.
WITHOUT_NODE: Final = f"""
SELECT u.node AS node, u.minute_ms AS minute_ms, u.job_id AS job_id, u.last_attempt AS last_attempt, u.nano AS nano
FROM
(
    SELECT node, {AT_MS} AS minute_ms, job_id, max(attempt) AS last_attempt,
        toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano
    FROM job_minutes FINAL PREWHERE {IN} AND {PAID_JOBS}
    WHERE {GPU_ROWS} AND node IN (SELECT node FROM node_hours WHERE paid_ms > 0 AND hour < {TO})
    GROUP BY node, minute_ms, job_id
) AS u
LEFT ANTI JOIN
(
    SELECT node, {AT_MS} AS minute_ms FROM node_minutes FINAL PREWHERE {IN} WHERE quantity > 0
) AS n ON n.node = u.node AND n.minute_ms = u.minute_ms"""

#: Whether any node was ever paid.
HAS_NODES: Final = "SELECT 1 AS found FROM node_hours WHERE paid_ms > 0 LIMIT 1"

#: The last minutes in which these nodes were paid, before each break of it.
LAST_PAID: Final = f"""
SELECT node, minute_ms AS last_ms FROM
(
    SELECT node, minute_ms, leadInFrame(minute_ms) OVER (
        PARTITION BY node ORDER BY minute_ms ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS next_ms
    FROM
    (
        SELECT DISTINCT node, {AT_MS} AS minute_ms FROM node_minutes FINAL
        PREWHERE {IN} AND node IN {{nodes:Array(String)}} WHERE quantity > 0
    )
)
WHERE next_ms != minute_ms + 60000"""

#: Up to when the rows of these nodes are stored: a shard whose jobs have all ended is not waited for.
STORED: Final = f"""
SELECT n.node AS node, toUnixTimestamp64Milli(max(least(b.accrued, b.accrued_from))) AS stored_ms
FROM (SELECT DISTINCT node, shard FROM node_hours WHERE node IN {{nodes:Array(String)}}) AS n
INNER JOIN ({BOOKED}) AS b ON b.shard = n.shard
GROUP BY n.node"""

#: The minutes in which GPUs of these nodes were sampled, by job.
SAMPLED: Final = f"""
SELECT DISTINCT node, {AT_MS} AS minute_ms, job_id FROM job_usage_minutes FINAL
PREWHERE {IN} AND {PAID_JOBS} WHERE node IN {{nodes:Array(String)}} AND sampled_gpu_s > 0"""

#: Since when each attempt of these jobs has held what it holds, and whose it is.
ATTEMPTS: Final = """
SELECT a.job_id AS job_id, a.attempt AS attempt, a.began_ms AS began_ms, j.owner AS owner, j.team AS team, j.project AS project
FROM
(
    SELECT job_id, attempt, toUnixTimestamp64Milli(ifNull(started, fromUnixTimestamp64Milli(0, 'UTC'))) AS began_ms
    FROM attempts FINAL WHERE job_id IN {jobs:Array(String)}
) AS a
INNER JOIN (SELECT job_id, owner, team, project FROM jobs FINAL WHERE job_id IN {jobs:Array(String)}) AS j ON j.job_id = a.job_id"""

#: The five minutes in which these jobs were paid for GPUs.
PAID: Final = f"""
SELECT DISTINCT job_id, intDiv(toInt64(toUnixTimestamp(minute)), 300) * 300000 AS begin_ms FROM job_minutes FINAL
PREWHERE {IN} AND job_id IN {{jobs:Array(String)}} WHERE component = 'gpu' AND quantity > 0"""

#: The five minutes in which GPUs of these jobs were sampled.
ALIVE: Final = f"""
SELECT DISTINCT job_id, intDiv(toInt64(toUnixTimestamp(minute)), 300) * 300000 AS begin_ms FROM job_usage_minutes FINAL
PREWHERE {IN} AND job_id IN {{jobs:Array(String)}} WHERE sampled_gpu_s > 0"""

#: Attempts that began in the span, and who says so.
BEGAN: Final = f"""
SELECT a.job_id AS job_id, a.attempt AS attempt, a.began_ms AS began_ms, a.sources AS sources, j.owner AS owner, j.team AS team,
    j.project AS project
FROM
(
    SELECT job_id, attempt, sources, toUnixTimestamp64Milli(assumeNotNull(started)) AS began_ms FROM attempts FINAL
    WHERE started IS NOT NULL AND began_ms >= {{from_ms:Int64}} AND began_ms < {{to_ms:Int64}} AND notEmpty(sources) AND {USERS_JOBS}
) AS a
INNER JOIN (SELECT job_id, owner, team, project FROM jobs FINAL) AS j ON j.job_id = a.job_id
ORDER BY began_ms, job_id, attempt"""

#: The nodes whose GPUs these jobs held in the span.
NODES_OF: Final = f"""
SELECT DISTINCT job_id, node FROM job_minutes FINAL PREWHERE {IN} AND job_id IN {{jobs:Array(String)}} WHERE {GPU_ROWS}"""

#: What these jobs held, minute by minute.
HELD_BY: Final = f"""
SELECT job_id, node, {AT_MS} AS minute_ms, sum(quantity) AS held, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano
FROM job_minutes FINAL PREWHERE {IN} AND job_id IN {{jobs:Array(String)}} WHERE {GPU_ROWS} GROUP BY job_id, node, minute_ms"""

#: What these nodes had, minute by minute.
HAS: Final = f"""
SELECT node, {AT_MS} AS minute_ms, sum(quantity) AS has FROM node_minutes FINAL
PREWHERE {IN} AND node IN {{nodes:Array(String)}} WHERE unit = 'gpu_milli_ms' AND quantity > 0 GROUP BY node, minute_ms"""

#: The minutes in which these jobs were sampled.
SAMPLED_JOBS: Final = f"""
SELECT DISTINCT job_id, {AT_MS} AS minute_ms FROM job_usage_minutes FINAL
PREWHERE {IN} AND job_id IN {{jobs:Array(String)}} WHERE sampled_gpu_s > 0"""
