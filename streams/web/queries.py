"""The SQL behind the API; every value is bound as a parameter.

It must not build SQL from client input: orders and filters are chosen from fixed text.
"""

from __future__ import annotations

from typing import Final

from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from schemas.unpriced_sql import unpriced_compute
from streams.engine.timeline.states import HOLDING_STATES
from streams.explain import acts

#: A job whose newest burn rate is this much older than the newest of all has no current rate.
LIVE_MS: Final = 11 * 60_000
#: The span over which utilisation is averaged.
USAGE_MS: Final = 30 * 60_000
SPARKLINE_MS: Final = 3_600_000
SPARKLINE_POINTS: Final = 60
#: Maximum number of points in the chart of one job.
POINTS_MAX: Final = 720

# Settings of every query: FINAL only where it matters, and a time limit.
SETTINGS: Final = "SETTINGS final = 0, max_execution_time = 30"
_SINCE: Final = "time > fromUnixTimestamp64Milli({since_ms:Int64}, 'UTC')"
# The canary is no user's job. Lists of all jobs exclude it by the first column of the keys.

# Over all jobs including the canary, answered from the parts' min-max indexes without reading a row.
NEWEST: Final = f"""
SELECT toUnixTimestamp64Milli((SELECT max(time) FROM burn_rates)) AS burn_ms,
       toUnixTimestamp64Milli((SELECT max(last_event) FROM jobs)) AS event_ms
{SETTINGS}"""

#: States of jobs that go on. Others pay nothing: their newest row may be of a moment at which they still ran.
LIVE_STATES: Final = ("queued", *HOLDING_STATES)
IS_LIVE: Final = f"state IN ({', '.join(repr(state) for state in LIVE_STATES)})"

# The greatest version of a (job, time) counts, so the newest by both is the current row without FINAL. As one number:
# over tuples an aggregation takes three times as long.
NEWEST_FIRST: Final = "bitShiftLeft(toUInt128(toUnixTimestamp64Milli(time)), 64) + version"
WINDOWS: Final = (
    "usd_per_hour_now",
    "usd_per_hour",
    "usd_per_hour_15m",
    "usd_per_hour_1h",
    "usd_per_hour_6h",
    "expected_usd_per_hour",
)
#: What pays no more has neither of these. Those of several jobs are sums of theirs.
OF_NOW: Final = ("usd_per_hour_now", "expected_usd_per_hour")
#: The others are means over windows, in minutes. That of a job begins with its first paid instant, so those of several jobs are not
#: their sums: they are what all of them cost in the window, over the window.
MEANS: Final = {"usd_per_hour": 5, "usd_per_hour_15m": 15, "usd_per_hour_1h": 60, "usd_per_hour_6h": 360}
LONGEST_MS: Final = max(MEANS.values()) * 60_000


def latest(condition: str = USERS_JOBS) -> str:
    """SQL for the newest rates of jobs, columns `newest_...`."""
    rates = ", ".join(f"argMax({window}, newness) AS newest_{window}" for window in WINDOWS)
    return f"""
SELECT job_id, {rates}
FROM (SELECT job_id, {NEWEST_FIRST} AS newness, {", ".join(WINDOWS)} FROM burn_rates WHERE {_SINCE} AND {condition})
GROUP BY job_id"""


def rate_of(window: str) -> str:
    """SQL for a rate of job `j` that pays by `b`: one that has ended pays nothing, of one whose row is not stored yet that is not known."""
    newest = f"b.newest_{window}"
    return f"if(j.state = '' OR j.{IS_LIVE}, {newest}, toDecimal64(0, 9))" if window in OF_NOW else newest


def spent_in(name: str) -> str:
    """SQL for what rows of `job_minutes` cost in the window of a mean, its whole minutes that ended by `until_ms`."""
    until = "intDiv({until_ms:Int64}, 60000) * 60"
    return f"sumIf(cost_usd, minute >= toDateTime({until} - {MEANS[name] * 60}, 'UTC') AND minute < toDateTime({until}, 'UTC'))"


def mean_of(spent: str, name: str) -> str:
    """SQL for a mean, in nano-dollars an hour, of what was spent in its window."""
    return f"toDecimal128({spent}, 9) * 60 / {MEANS[name]}"


_RATES: Final = ", ".join(f"{rate_of(window)} AS {window}" for window in WINDOWS)

_SOME: Final = "job_id IN {jobs:Array(String)}"
#: What some jobs pay now; one that pays nothing any more has no row.
RATES: Final = f"""
SELECT b.job_id AS job_id, {_RATES}
FROM ({latest(_SOME)}) AS b LEFT ANY JOIN (SELECT job_id, state FROM jobs FINAL WHERE {_SOME}) AS j ON j.job_id = b.job_id
{SETTINGS}"""

_JOB_COLUMNS: Final = """
       j.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, j.experiment AS experiment,
       j.state AS state, j.attempts AS attempts, toFloat64(j.gpu_count) AS gpu_count, j.cluster AS cluster,
       j.region AS region, j.purchase AS purchase, j.gpu_type AS gpu_type,
       toUnixTimestamp64Milli(j.started) AS started_ms, toUnixTimestamp64Milli(j.ended) AS ended_ms"""

_HOUR_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)


def total_costs(condition: str) -> str:
    """SQL for what jobs cost in all, from their hours: reading each minute of a month takes too long.

    Jobs that an older version has archived have no hours; their minutes are read instead.
    """
    without_hours = f"SELECT job_id FROM jobs WHERE {condition} AND job_id NOT IN (SELECT job_id FROM job_hours WHERE {condition})"
    return f"""
SELECT job_id, sum(usd) AS cost_usd, sum(lost_usd) AS lost_cost_usd, toFloat64(sum(gpu)) / 3600000000 AS gpu_h,
    toFloat64(sum(unpriced)) / 3600000000 AS unpriced_gpu_h
FROM
(
    SELECT job_id, {_HOUR_COST} AS usd, lost_cost_usd AS lost_usd, toInt128(gpu_milli_ms) AS gpu,
        toInt128(unpriced_gpu_milli_ms) AS unpriced
    FROM job_hours FINAL WHERE {condition}
    UNION ALL
    SELECT job_id, toDecimal128(cost_usd, 9), lost_cost_usd, if(component = 'gpu', toInt128(quantity), 0),
        if(component = 'gpu' AND sku = '', toInt128(quantity), 0)
    FROM job_minutes FINAL WHERE job_id IN ({without_hours}) AND quantity != 0
)
GROUP BY job_id"""


#: What bills put on a job, by month.
BILLED: Final = f"""
SELECT toString(month) AS month, metered_usd, only_metered_usd, billed_usd, effective_usd, variance_usd, causes,
    provisional = 1 AS is_provisional
FROM billed_jobs WHERE job_id = {{job:String}} ORDER BY month
{SETTINGS}"""

JOBS: Final = f"""
SELECT {_JOB_COLUMNS}, {_RATES}
FROM (SELECT * FROM jobs FINAL WHERE {_SOME}) AS j
LEFT ANY JOIN ({latest(_SOME)}) AS b ON b.job_id = j.job_id
{SETTINGS}"""

TOTALS: Final = f"""
SELECT c.*, toFloat64(u.unpriced_compute_h) AS unpriced_compute_h
FROM ({total_costs(_SOME)}) AS c LEFT ANY JOIN ({unpriced_compute(_SOME)}) AS u ON u.job_id = c.job_id
{SETTINGS}"""

# Minutes are part of the tables' keys, so rows can be skipped before versions are compared (PREWHERE).
MINUTE_SINCE: Final = "minute >= toDateTime(intDiv({since_ms:Int64}, 1000), 'UTC')"
_PRODUCTIVE: Final = (
    "toFloat64(sum(productive_gpu_ms)) / nullIf(sum(sampled_gpu_s) * 1000, 0) AS productive_ratio"
)

PRODUCTIVE: Final = f"""
SELECT job_id, {_PRODUCTIVE}
FROM job_usage_minutes FINAL PREWHERE job_id IN {{jobs:Array(String)}} AND {MINUTE_SINCE} GROUP BY job_id
{SETTINGS}"""

SPARKLINES: Final = f"""
SELECT job_id, groupArray((time_ms, usd)) AS points
FROM
(
    SELECT job_id, toUnixTimestamp64Milli(max(time)) AS time_ms, toFloat64(argMax(usd_per_hour, (time, version))) AS usd
    FROM burn_rates WHERE job_id IN {{jobs:Array(String)}} AND {_SINCE}
    GROUP BY job_id, toStartOfMinute(time) ORDER BY time_ms
)
GROUP BY job_id
{SETTINGS}"""

FIRING: Final = f"""
SELECT alert_id, rule, severity, status, subject_name
FROM alerts FINAL WHERE status = 'firing' AND subject_kind = 'job' ORDER BY severity = 'digest', severity, started, alert_id LIMIT 10000
{SETTINGS}"""

# -- the fleet ---------------------------------------------------------------------------------------------

FLEET: Final = f"""
SELECT {", ".join(f"sum({rate_of(window)}) AS {window}" for window in OF_NOW)},
       countIf(j.state IN ('starting', 'running', 'suspended', 'metered')) AS jobs_live,
       toFloat64(sumIf(j.gpu_count, j.state IN ('starting', 'running', 'metered')
                                    OR (j.state = 'suspended' AND b.newest_usd_per_hour_now > 0))) AS gpus_held
FROM ({latest()}) AS b
LEFT ANY JOIN (SELECT job_id, state, gpu_count FROM jobs FINAL) AS j ON j.job_id = b.job_id
{SETTINGS}"""

_DAY: Final = "toDateTime(intDiv({day_ms:Int64}, 1000), 'UTC')"
SPEND: Final = f"""
SELECT sumIf(cost_usd, minute >= {_DAY} AND minute < {_DAY} + 86400) AS spend_today_usd,
       {", ".join(f"{mean_of(spent_in(name), name)} AS {name}" for name in MEANS)}
FROM job_minutes FINAL
PREWHERE {MINUTE_SINCE} AND minute < {_DAY} + 86400 WHERE quantity != 0 AND {USERS_JOBS}
{SETTINGS}"""

FLEET_PRODUCTIVE: Final = f"""
SELECT {_PRODUCTIVE} FROM job_usage_minutes FINAL PREWHERE {MINUTE_SINCE} AND {USERS_JOBS}
{SETTINGS}"""

ALERTS_FIRING: Final = f"""
SELECT severity, count() AS alerts FROM alerts FINAL WHERE status = 'firing' GROUP BY severity
{SETTINGS}"""

DELIVERIES_MADE: Final = f"""
SELECT outcome, count() AS deliveries FROM deliveries FINAL GROUP BY outcome
{SETTINGS}"""

# The sum of what jobs pay now, at the end of each minute: the rate of the last one is that of the fleet. Rows are written on change, and at least every ten minutes: each applies until the job's next one, or for LIVE_MS. Read in the order of the
# table they are not sorted again.
HISTORY: Final = f"""
SELECT toInt64(minute) * 60000 AS time_ms, toFloat64(sum(usd)) AS usd
FROM
(
    SELECT usd, arrayJoin(range(m, least(following, {{last:UInt64}} + 1))) AS minute
    FROM
    (
        SELECT usd_per_hour_now AS usd, toUInt32(intDiv(toUnixTimestamp64Milli(time), 60000)) AS m,
            least(m + 11, leadInFrame(m, 1, toUInt32(m + 11)) OVER (PARTITION BY job_id ORDER BY time, version
                                                                    ROWS BETWEEN CURRENT ROW AND 1 FOLLOWING)) AS following
        FROM burn_rates WHERE {_SINCE} AND {USERS_JOBS}
    )
    WHERE following > m
)
WHERE minute > {{last:UInt64}} - 60 GROUP BY minute ORDER BY minute
{SETTINGS}, optimize_read_in_window_order = 1"""

# -- alerts ------------------------------------------------------------------------------------------------

_ALERT_COLUMNS: Final = """
       alert_id, rule, severity, status, subject_kind, subject_name, owner, team, project,
       toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms, ratio,
       usd_per_hour, expected_usd_per_hour, cost_usd, window_ms, summary, evidence_sql, silenced,
       toUnixTimestamp64Milli(held) AS held_ms, exhausted_in_s, shared_cause"""

ALERTS: Final = f"""
SELECT {_ALERT_COLUMNS} FROM alerts FINAL
WHERE ({{status:String}} = '' OR status = {{status:String}})
ORDER BY changed DESC, alert_id LIMIT {{limit:UInt64}}
{SETTINGS}"""

ALERTS_OF_JOB: Final = f"""
SELECT {_ALERT_COLUMNS} FROM alerts FINAL
WHERE subject_kind = 'job' AND subject_name = {{job:String}} ORDER BY changed DESC, alert_id LIMIT 100
{SETTINGS}"""

SOME_ALERTS: Final = f"""
SELECT {_ALERT_COLUMNS} FROM alerts FINAL WHERE alert_id IN {{alerts:Array(String)}}
{SETTINGS}"""

#: What the list of alerts leaves out.
ALERT_MORE: Final = f"""
SELECT toUnixTimestamp64Milli(held) AS held_ms, toUnixTimestamp64Milli(changed) AS changed_ms, firings, opened_usd_per_hour, budget_usd,
       toUnixTimestamp64Milli(ticket_since) AS ticket_since_ms, toUnixTimestamp64Milli(page_since) AS page_since_ms
FROM alerts FINAL WHERE alert_id = {{alert:String}}
{SETTINGS}"""

KNOWN_ALERT: Final = f"""
SELECT owner, team, subject_name FROM alerts WHERE alert_id = {{alert:String}} ORDER BY version DESC LIMIT 1
{SETTINGS}"""

DELIVERIES: Final = f"""
SELECT alert_id, toUnixTimestamp64Milli(time) AS time_ms, status, receiver, attempt, outcome, http_status, detail
FROM deliveries FINAL WHERE alert_id IN {{alerts:Array(String)}} ORDER BY time, attempt
{SETTINGS}"""

CONTROLS: Final = f"""{acts.IN_FORCE}
{SETTINGS}"""

DIMENSIONS: Final = f"""{acts.DIMENSIONS}
{SETTINGS}"""

# -- one job -----------------------------------------------------------------------------------------------

_HAS_HOURS: Final = "{job:String} IN (SELECT job_id FROM job_hours WHERE job_id = {job:String})"
_BY_COMPONENT: Final = ", ".join(f"('{component}', {component}_cost_usd)" for component in COMPONENTS)

# Of hours, which stay when minutes are dropped; what cost nothing is named by minutes only.
COSTS: Final = f"""
SELECT component, sum(usd) AS cost_usd
FROM
(
    SELECT each.1 AS component, each.2 AS usd
    FROM (SELECT arrayJoin([{_BY_COMPONENT}]) AS each FROM job_hours FINAL WHERE job_id = {{job:String}}) WHERE usd != 0
    UNION ALL
    SELECT component, cost_usd FROM job_minutes FINAL WHERE job_id = {{job:String}} AND quantity != 0 AND NOT {_HAS_HOURS}
    UNION ALL
    SELECT DISTINCT component, toDecimal64(0, 9) FROM job_minutes WHERE job_id = {{job:String}} AND quantity != 0
)
GROUP BY component ORDER BY cost_usd DESC, component
{SETTINGS}"""

ATTEMPTS: Final = f"""
SELECT a.attempt AS attempt, a.state AS state, a.reason AS reason, toUnixTimestamp64Milli(a.started) AS started_ms,
       toUnixTimestamp64Milli(a.ended) AS ended_ms, toFloat64(a.gpu_count) AS gpu_count, a.region AS region,
       a.purchase AS purchase, a.gpu_type AS gpu_type, c.cost AS cost_usd, c.lost AS lost_cost_usd
FROM (SELECT * FROM attempts FINAL WHERE job_id = {{job:String}}) AS a
LEFT ANY JOIN
(
    SELECT attempt, sum(usd) AS cost, sum(lost_usd) AS lost
    FROM
    (
        SELECT attempt, {_HOUR_COST} AS usd, lost_cost_usd AS lost_usd FROM job_hours FINAL WHERE job_id = {{job:String}}
        UNION ALL
        SELECT attempt, toDecimal128(cost_usd, 9), lost_cost_usd FROM job_minutes FINAL
        WHERE job_id = {{job:String}} AND quantity != 0 AND NOT {_HAS_HOURS}
    )
    GROUP BY attempt
) AS c ON c.attempt = a.attempt
ORDER BY attempt
{SETTINGS}"""

# Runs of consecutive minutes in which an attempt was billed in one phase: as exact as the ledger alone allows.
PHASES: Final = f"""
SELECT attempt, phase, toUnixTimestamp(min(minute)) * 1000 AS start_ms, (toUnixTimestamp(max(minute)) + 60) * 1000 AS end_ms
FROM
(
    SELECT attempt, phase, minute,
           toUnixTimestamp(minute) - 60 * row_number() OVER (PARTITION BY attempt, phase ORDER BY minute) AS run
    FROM (SELECT DISTINCT attempt, phase, minute FROM job_minutes FINAL
          WHERE job_id = {{job:String}} AND quantity != 0 AND phase != '')
)
GROUP BY attempt, phase, run ORDER BY attempt, start_ms
{SETTINGS}"""

#: Of a job: its newest checkpoints, its nodes by GPU-time, its newest hours; the first two are counted as well.
CHECKPOINTS_MAX: Final = 500
NODES_MAX: Final = 200
#: Of one node.
GPUS_MAX: Final = 64
HOURS_MAX: Final = 2_000

#: The newest values that a job said of itself.
MEASURES: Final = f"""
SELECT progress, quality FROM jobs FINAL WHERE job_id = {{job:String}}
{SETTINGS}"""

CHECKPOINTS: Final = f"""
SELECT attempt, toUnixTimestamp64Milli(time) AS time_ms, duration_ms, count() OVER () AS checkpoints
FROM job_checkpoints FINAL WHERE job_id = {{job:String}} ORDER BY time DESC, attempt DESC, id LIMIT {CHECKPOINTS_MAX}
{SETTINGS}"""

NODES: Final = f"""
SELECT n.node AS node, n.gpu_h AS gpu_h, n.usd AS usd, n.from_ms AS from_ms, n.to_ms AS to_ms, n.nodes AS nodes, g.gpus AS gpus
FROM
(
    SELECT node, toFloat64(sum(if(component = 'gpu', quantity, 0))) / 3600000000 AS gpu_h, sum(cost_usd) AS usd,
           toInt64(toUnixTimestamp(min(minute))) * 1000 AS from_ms, toInt64(toUnixTimestamp(max(minute)) + 60) * 1000 AS to_ms,
           count() OVER () AS nodes
    FROM job_minutes FINAL WHERE job_id = {{job:String}} AND node != '' AND quantity != 0
    GROUP BY node ORDER BY gpu_h DESC, node LIMIT {NODES_MAX}
) AS n
LEFT ANY JOIN
(
    SELECT node, arraySort(groupUniqArray({GPUS_MAX})(gpu)) AS gpus
    FROM attempt_gpus FINAL WHERE job_id = {{job:String}} GROUP BY node
) AS g ON g.node = n.node
ORDER BY n.gpu_h DESC, n.node
{SETTINGS}"""

TRAFFIC: Final = f"""
SELECT toInt64(toUnixTimestamp(hour)) * 1000 AS hour_ms, sum(network_cost_usd) AS network_usd, sum(storage_cost_usd) AS storage_usd
FROM job_hours FINAL WHERE job_id = {{job:String}} GROUP BY hour ORDER BY hour DESC LIMIT {HOURS_MAX}
{SETTINGS}"""

USAGE: Final = f"""
WITH
    (SELECT (toUnixTimestamp(min(minute)), toUnixTimestamp(max(minute))) FROM job_usage_minutes WHERE job_id = {{job:String}}) AS ends,
    60 * greatest(1, intDiv(ends.2 - ends.1, 60 * {POINTS_MAX}) + 1) AS step_s
SELECT intDiv(toUnixTimestamp(minute), step_s) * step_s * 1000 AS minute_ms, sum(sampled_gpu_s) AS sampled,
       {_PRODUCTIVE}
FROM job_usage_minutes FINAL WHERE job_id = {{job:String}} AND sampled_gpu_s != 0
GROUP BY minute_ms ORDER BY minute_ms
{SETTINGS}"""

BURN: Final = f"""
WITH
    (SELECT (toUnixTimestamp64Milli(min(time)), toUnixTimestamp64Milli(max(time))) FROM burn_rates WHERE job_id = {{job:String}}) AS ends,
    greatest(1, intDiv(ends.2 - ends.1, {POINTS_MAX}) + 1) AS step_ms
SELECT toUnixTimestamp64Milli(max(time)) AS time_ms,
       argMax((toFloat64(usd_per_hour_now), toFloat64(usd_per_hour_1h), toFloat64(expected_usd_per_hour)), (time, version)) AS rates
FROM burn_rates WHERE job_id = {{job:String}}
GROUP BY intDiv(toUnixTimestamp64Milli(time), step_ms) ORDER BY time_ms
{SETTINGS}"""
