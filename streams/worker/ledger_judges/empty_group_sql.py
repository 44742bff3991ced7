"""The SQL of the rule `empty_group`: since when nodes are paid, and when jobs use them."""

from __future__ import annotations

from typing import Final

from streams.worker.ledger_judges.held_jobs_sql import AT_MS, FROM, GPU_ROWS, IN, PAID_JOBS, TO


def _stretches(minutes: str) -> str:
    """SQL for the first and the last minutes of stretches without a break; `next_nano`: the cost of the minute after."""
    window = "PARTITION BY node ORDER BY minute_ms ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING"
    return f"""
SELECT node, minute_ms, before_ms != minute_ms - 60000 AS begins, next_ms != minute_ms + 60000 AS ends, next_nano
FROM
(
    SELECT node, minute_ms, lagInFrame(minute_ms) OVER w AS before_ms, leadInFrame(minute_ms) OVER w AS next_ms,
        leadInFrame(nano) OVER w AS next_nano
    FROM ({minutes})
    WINDOW w AS ({window})
)
WHERE begins OR ends ORDER BY node, minute_ms"""


#: When nodes with GPUs are paid.
PAID: Final = _stretches(f"""
        SELECT node, {AT_MS} AS minute_ms, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano FROM node_minutes FINAL
        PREWHERE {IN} WHERE unit = 'gpu_milli_ms' AND quantity > 0 GROUP BY node, minute_ms""")

#: When jobs hold GPUs of these nodes.
USED: Final = _stretches(f"""
        SELECT DISTINCT node, {AT_MS} AS minute_ms, toInt64(0) AS nano FROM job_minutes FINAL
        PREWHERE {IN} AND {PAID_JOBS} WHERE node IN {{nodes:Array(String)}} AND {GPU_ROWS}""")

#: What these nodes are.
NODES: Final = f"""
SELECT node, argMax(cluster, hour) AS cluster, argMax(instance_type, hour) AS instance_type, argMax(gpu_type, hour) AS gpu_type,
    argMax(team, hour) AS team
FROM node_hours FINAL WHERE hour >= toStartOfHour({FROM}) AND hour < {TO} AND node IN {{nodes:Array(String)}} GROUP BY node"""

_SLOT: Final = "intDiv(toInt64(toUnixTimestamp(minute)), 300) * 300000 AS begin_ms"

#: The five minutes in which jobs held GPUs of nodes of a cluster.
IN_USE: Final = f"""
SELECT DISTINCT n.cluster AS cluster, u.begin_ms AS begin_ms
FROM
(
    SELECT DISTINCT node, {_SLOT} FROM job_minutes FINAL PREWHERE {IN} AND {PAID_JOBS} WHERE {GPU_ROWS}
) AS u
INNER JOIN
(
    SELECT DISTINCT node, cluster FROM node_hours WHERE hour >= toStartOfHour({FROM}) AND hour < {TO} AND paid_ms > 0
) AS n ON n.node = u.node"""

#: The five minutes in which jobs held GPUs, and no event said of which nodes.
UNPLACED: Final = f"""
SELECT DISTINCT j.cluster AS cluster, u.begin_ms AS begin_ms
FROM
(
    SELECT DISTINCT job_id, {_SLOT} FROM job_minutes FINAL
    PREWHERE {IN} AND {PAID_JOBS} WHERE component = 'gpu' AND quantity > 0 AND node = ''
) AS u
INNER JOIN (SELECT job_id, cluster FROM jobs FINAL) AS j ON j.job_id = u.job_id"""
