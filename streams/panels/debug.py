"""One job: its attempts, what it moves and stores, where it runs, how busy its GPUs are, and how it saves its work."""

from __future__ import annotations

from typing import Final

from schemas.durations import DAY_MS
from schemas.units import COMPONENTS
from streams.panels.oncall import ALERTS_COLUMNS
from streams.panels.panel import (
    COST_SUM,
    FROM_TIME,
    IN_HOURS,
    IN_MINUTES,
    JOB,
    JOB_SHORT_S,
    TO_TIME,
    Dashboard,
    Panel,
    bucket,
    covered_hours,
    is_long,
    is_short,
)

_SHORT: Final = is_short(JOB_SHORT_S)
_LONG: Final = is_long(JOB_SHORT_S)
_ITS_MINUTES: Final = f"job_id = {JOB} AND {IN_MINUTES}"
_ITS_HOURS: Final = f"job_id = {JOB} AND {IN_HOURS}"

FACTS: Final = f"""
SELECT
    j.state AS "state",
    j.attempts AS "attempts",
    a.preempted AS "preempted",
    j.gpu_count AS "GPUs",
    h.wall_ms / 3600000 AS "ran for",
    h.usd AS "cost so far",
    toFloat64(h.usd) * 3600000 / nullIf(h.wall_ms, 0) AS "per training hour",
    h.lost AS "lost",
    h.productive / nullIf(h.sampled, 0) AS "productive"
FROM (SELECT job_id, toString(state) AS state, attempts, gpu_count FROM jobs FINAL WHERE job_id = {JOB}) AS j
LEFT ANY JOIN
(
    SELECT job_id, {COST_SUM} AS usd, sum(lost_cost_usd) AS lost, sum(wall_clock_ms) AS wall_ms,
        sum(productive_gpu_ms) AS productive, sum(sampled_gpu_ms) AS sampled
    FROM job_hours FINAL WHERE job_id = {JOB} GROUP BY job_id
) AS h ON h.job_id = j.job_id
LEFT ANY JOIN
(
    SELECT job_id, countIf(state = 'preempted' OR reason IN ('spot_reclaim', 'preemption')) AS preempted
    FROM attempts FINAL WHERE job_id = {JOB} GROUP BY job_id
) AS a ON a.job_id = j.job_id"""

ATTEMPTS: Final = f"""
SELECT
    a.attempt AS "attempt",
    a.state AS "state",
    a.reason AS "reason",
    a.started AS "started",
    a.ended AS "ended",
    a.wall_clock_ms / 3600000 AS "ran for",
    h.queued / 1000 AS "queue",
    h.starting / 1000 AS "start",
    a.gpu_count AS "GPUs",
    a.region AS "region",
    a.purchase AS "purchase",
    h.usd AS "cost",
    h.lost AS "lost"
FROM
(
    SELECT attempt, toString(state) AS state, toString(reason) AS reason, started, ended, wall_clock_ms, gpu_count, region, purchase
    FROM attempts FINAL
    WHERE job_id = {JOB} AND (started IS NULL OR started <= {TO_TIME}) AND (ended IS NULL OR ended >= {FROM_TIME})
    ORDER BY attempt DESC
    LIMIT 200
) AS a
LEFT ANY JOIN
(
    SELECT attempt, {COST_SUM} AS usd, sum(lost_cost_usd) AS lost, sum(queued_ms) AS queued, sum(starting_ms) AS starting
    FROM job_hours FINAL WHERE job_id = {JOB} GROUP BY attempt
) AS h ON h.attempt = a.attempt
ORDER BY a.attempt DESC"""

COST: Final = f"""
SELECT time, series, sum(usd) AS "$/h"
FROM
(
    SELECT {bucket("minute", 60)} AS time, toString(component) AS series, toDecimal128(sum(cost_usd) / {covered_hours(60)}, 9) AS usd
    FROM job_minutes FINAL
    WHERE {_ITS_MINUTES} AND {_SHORT} AND cost_usd != 0
    GROUP BY time, series
    UNION ALL
    SELECT time, each.1 AS series, toDecimal128(sum(each.2) / {covered_hours(3_600)}, 9) AS usd
    FROM
    (
        SELECT {bucket("hour", 3_600)} AS time, arrayJoin([{", ".join(f"('{component}', toDecimal128({component}_cost_usd, 9))" for component in COMPONENTS)}]) AS each
        FROM job_hours FINAL
        WHERE {_ITS_HOURS} AND {_LONG}
    )
    WHERE each.2 != 0
    GROUP BY time, series
)
GROUP BY time, series
ORDER BY time, series"""

PHASES: Final = f"""
SELECT
    {bucket("hour", 3_600)} AS time,
    sum(queued_ms) / 3600000 AS "queue",
    sum(starting_ms) / 3600000 AS "start",
    sum(wall_clock_ms - starting_ms) / 3600000 AS "run"
FROM job_hours FINAL
WHERE {_ITS_HOURS}
GROUP BY time
ORDER BY time"""

REQUESTS: Final = f"""
SELECT {bucket("minute", 60)} AS time, toString(op) AS series, sum(quantity) AS "requests"
FROM job_minutes FINAL
WHERE {_ITS_MINUTES} AND component = 'storage' AND unit = 'requests' AND quantity != 0
GROUP BY time, series
ORDER BY time, series"""

BYTES: Final = f"""
SELECT
    {bucket("minute", 60)} AS time,
    if(component = 'storage', concat('storage ', op), concat(if(direction = 'ingress', 'in, ', 'out, '), if(path = '', 'unclassified', path))) AS series,
    sum(quantity) AS "bytes"
FROM job_minutes FINAL
WHERE {_ITS_MINUTES} AND component IN ('network', 'storage') AND unit = 'bytes' AND quantity != 0
GROUP BY time, series
ORDER BY time, series"""

NODES: Final = f"""
SELECT
    n.node AS "node",
    n.gpus AS "GPUs",
    n.began AS "from",
    n.until AS "until",
    n.gpu_h AS "GPU-hours",
    u.productive AS "productive",
    u.memory AS "memory in use, at most",
    n.usd AS "cost",
    nullIf(s.starting_s, 0) AS "node start-up",
    g.ids AS "GPU ids"
FROM
(
    SELECT
        node,
        maxIf(quantity, component = 'gpu') / 60000000 AS gpus,
        min(minute) AS began,
        max(minute) + INTERVAL 1 MINUTE AS until,
        sumIf(toInt128(quantity), component = 'gpu') / 3600000000 AS gpu_h,
        sum(cost_usd) AS usd
    FROM job_minutes FINAL
    WHERE {_ITS_MINUTES} AND node != '' AND quantity != 0
    GROUP BY node
    ORDER BY usd DESC, node
    LIMIT 200
) AS n
LEFT ANY JOIN
(
    SELECT
        node,
        sum(productive_gpu_ms) / nullIf(sum(sampled_gpu_s) * 1000, 0) AS productive,
        nullIf(max(memory_used_mib_max), 0) * 1048576 AS memory
    FROM job_usage_minutes FINAL
    WHERE {_ITS_MINUTES}
    GROUP BY node
) AS u ON u.node = n.node
LEFT ANY JOIN
(
    SELECT node, sum(starting_ms) / 1000 AS starting_s
    FROM node_hours FINAL
    WHERE {IN_HOURS} AND node IN (SELECT node FROM job_minutes WHERE {_ITS_MINUTES})
    GROUP BY node
) AS s ON s.node = n.node
LEFT ANY JOIN
(
    SELECT node, arrayStringConcat(arraySort(groupUniqArray(gpu)), ' ') AS ids
    FROM attempt_gpus FINAL
    WHERE job_id = {JOB}
    GROUP BY node
) AS g ON g.node = n.node
ORDER BY n.usd DESC, n.node"""

GPU_USE: Final = f"""
SELECT
    time,
    sum(productive) / nullIf(sum(sampled), 0) AS "productive",
    sum(sm) / nullIf(sum(sm_sampled), 0) AS "SMs",
    sum(tensor) / nullIf(sum(tensor_sampled), 0) AS "tensor cores"
FROM
(
    SELECT
        {bucket("minute", 60)} AS time,
        productive_gpu_ms AS productive, sampled_gpu_s * 1000 AS sampled,
        sm_gpu_ms AS sm, sm_sampled_gpu_s * 1000 AS sm_sampled,
        tensor_gpu_ms AS tensor, tensor_sampled_gpu_s * 1000 AS tensor_sampled
    FROM job_usage_minutes FINAL
    WHERE {_ITS_MINUTES} AND {_SHORT}
    UNION ALL
    SELECT {bucket("hour", 3_600)}, productive_gpu_ms, sampled_gpu_ms, 0, 0, tensor_gpu_ms, tensor_sampled_gpu_ms
    FROM job_hours FINAL
    WHERE {_ITS_HOURS} AND {_LONG}
)
GROUP BY time
HAVING sum(sampled) > 0
ORDER BY time"""

_ITS_SAVES: Final = f"job_id = {JOB} AND time <= {TO_TIME}"

CHECKPOINTS: Final = f"""
SELECT {bucket("time", 60)} AS time, count() AS "checkpoints"
FROM (SELECT time FROM job_checkpoints FINAL WHERE {_ITS_SAVES} AND time >= {FROM_TIME})
GROUP BY time
ORDER BY time"""

INTERVALS: Final = f"""
SELECT {bucket("at", 60)} AS time, avg(since_s) AS "mean", max(since_s) AS "longest"
FROM
(
    SELECT
        time AS at,
        dateDiff('millisecond', lagInFrame(toNullable(time), 1) OVER
            (PARTITION BY attempt ORDER BY time ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), time) / 1000 AS since_s
    FROM (SELECT time, attempt FROM job_checkpoints FINAL WHERE {_ITS_SAVES} AND time >= {FROM_TIME} - INTERVAL 1 DAY)
)
WHERE at >= {FROM_TIME} AND since_s IS NOT NULL
GROUP BY time
ORDER BY time"""

SAVES: Final = f"""
SELECT {bucket("at", 60)} AS time, avg(duration_ms) / 1000 AS "mean", max(duration_ms) / 1000 AS "longest"
FROM (SELECT time AS at, duration_ms FROM job_checkpoints FINAL WHERE {_ITS_SAVES} AND time >= {FROM_TIME} AND duration_ms IS NOT NULL)
GROUP BY time
ORDER BY time"""

ALERTS: Final = f"""
SELECT{ALERTS_COLUMNS}
FROM alerts AS a FINAL
WHERE a.subject_kind = 'job' AND a.subject_name = {JOB} AND a.started <= {TO_TIME} AND (a.status = 'firing' OR a.changed >= {FROM_TIME})
ORDER BY a.status = 'firing' DESC, a.started DESC, a.alert_id
LIMIT 100"""

DEBUG: Final = Dashboard(
    "debug",
    "Debug a job",
    "How one job runs: its attempts and preemptions, what it moves, where it is, how busy its GPUs are, and how it saves its work.",
    DAY_MS // 1000,
    (
        Panel(
            "job_facts",
            "The job",
            "All of its life, whatever the range.",
            FACTS,
            "number",
            "count",
            {
                "state": "text",
                "GPUs": "gpus",
                "ran for": "hours",
                "cost so far": "usd",
                "per training hour": "usd_per_hour",
                "lost": "usd",
                "productive": "ratio",
            },
            span=24,
            height=4,
        ),
        Panel(
            "job_attempts",
            "Attempts: runtime, retries, preemptions",
            "Those that the range touches, the newest 200.",
            ATTEMPTS,
            "table",
            "text",
            {
                "started": "time",
                "ended": "time",
                "attempt": "count",
                "ran for": "hours",
                "queue": "seconds",
                "start": "seconds",
                "GPUs": "gpus",
                "cost": "usd",
                "lost": "usd",
            },
            span=24,
        ),
        Panel(
            "job_cost",
            "What it costs per hour, by component",
            "Beyond 2 days the mean of each hour.",
            COST,
            "stacked",
            "usd_per_hour",
        ),
        Panel(
            "job_phases",
            "Queue, start, run",
            "Hours of all attempts in each step: waiting in the queue (once the wait has ended), starting, running.",
            PHASES,
            "bars",
            "hours",
        ),
        Panel(
            "job_requests",
            "Storage requests",
            "By operation, as far back as minutes are kept.",
            REQUESTS,
            "bars",
        ),
        Panel(
            "job_bytes",
            "Bytes: network and storage",
            "By direction and path, and by operation of the storage, as far back as minutes are kept.",
            BYTES,
            "bars",
            "bytes",
        ),
        Panel(
            "job_nodes",
            "Where it ran: job, node, GPUs",
            "Each node that the job held in the range, with the GPUs held there, what it made of them, how long the node took to be ready, and the GPUs that were sampled; the 200 dearest, as far back as minutes are kept.",
            NODES,
            "table",
            "text",
            {
                "GPUs": "gpus",
                "from": "time",
                "until": "time",
                "GPU-hours": "gpu_hours",
                "productive": "ratio",
                "memory in use, at most": "bytes",
                "cost": "usd",
                "node start-up": "seconds",
            },
            span=24,
        ),
        Panel(
            "job_checkpoints",
            "Checkpoints",
            "How many in each step.",
            CHECKPOINTS,
            "bars",
            span=8,
        ),
        Panel(
            "job_intervals",
            "Time between checkpoints",
            "Since the one before of the same attempt: the mean of each step, and the longest.",
            INTERVALS,
            "lines",
            "seconds",
            span=8,
        ),
        Panel(
            "job_saves",
            "How long checkpoints take",
            "The mean of each step and the longest, of those whose event says so.",
            SAVES,
            "lines",
            "seconds",
            span=8,
        ),
        Panel(
            "job_gpu_use",
            "GPU use",
            "Shares of the sampled GPU-time: productive, SMs busy, tensor cores busy. Beyond 2 days by the hour, without SMs.",
            GPU_USE,
            "lines",
            "ratio",
            span=24,
            most=1,
        ),
        Panel(
            "job_alerts",
            "Alerts of the job",
            "Those that fire, and those that changed since the range began.",
            ALERTS,
            "table",
            "text",
            {"started": "time", "resolved": "time", "ratio": "count", "$/h": "usd_per_hour", "cost": "usd"},
            span=24,
        ),
    ),
)
