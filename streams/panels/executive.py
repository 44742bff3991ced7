"""What the fleet costs by month, by team and by training hour, and which share of it nobody accounts for."""

from __future__ import annotations

from typing import Final

from schemas.durations import DAY_MS, HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.panels.panel import (
    COST_COLUMNS,
    COST_SUM,
    FROM_TIME,
    IN_HOURS,
    ROW_COST,
    TEAMS,
    TO,
    Dashboard,
    Panel,
    bucket,
    is_long,
    is_short,
)

#: Hours of the ledger are what all of this is read from.
_STEP_S: Final = HOUR_MS // 1000
#: Up to so long a range the balance of nodes is read in minutes, as `costs --metric m3` does.
_BALANCE_S: Final = 2 * DAY_MS // 1000
_RAN_MS: Final = 300_000
#: Up to so long a range what each job cost in each step is added up in the order of the table.
_STREAMED_S: Final = 31 * DAY_MS // 1000

_BASIS_DAYS: Final = 28
#: The end of the last hour of the range, its day, and that day's month.
_UNTIL: Final = f"toDateTime(intDiv({TO} + 3599, 3600) * 3600, 'UTC')"
_TODAY: Final = f"toDate({_UNTIL} - 3600)"
_MONTH: Final = f"toStartOfMonth({_TODAY})"
_DAYS_LEFT: Final = f"toInt64(toDate({_MONTH} + INTERVAL 1 MONTH) - {_TODAY})"  # today is one of them
_LEFT_OF_TODAY: Final = (
    f"(toUnixTimestamp(toDateTime({_TODAY} + 1, 'UTC')) - toUnixTimestamp({_UNTIL})) / 86400"
)
# What streams/costs/month.py says, which the page of costs shows: of 14 to 28 whole days before today each weekday by itself, of fewer
# all alike. `days` are these days, from yesterday on; null without one. Any hour before them says that all are known: the first of all is not looked for.
_REST: Final = f"""
    SELECT if(counted = 0, NULL, arraySum(ahead -> if(ahead = 0, {_LEFT_OF_TODAY}, 1) * arrayAvg(
        arrayFilter((usd, back) -> back <= counted AND (counted < 14 OR (back + ahead) % 7 = 0), days, range(1, {_BASIS_DAYS + 1}))
    ), range(0, {_DAYS_LEFT}))) AS rest
    FROM
    (
        SELECT
            arrayMap(day -> arraySum(arrayMap((back, usd) -> if(back = day, usd, 0), backs, usds)), range(1, {_BASIS_DAYS + 1})) AS days,
            (
                SELECT least({_BASIS_DAYS}, toInt64({_TODAY} - toDate(min(first))))
                FROM
                (
                    SELECT hour AS first FROM job_hours WHERE {USERS_JOBS} AND hour < {_TODAY} - {_BASIS_DAYS} LIMIT 1
                    UNION ALL
                    SELECT min(hour) FROM job_hours
                    WHERE {USERS_JOBS} AND hour >= {_TODAY} - {_BASIS_DAYS} AND hour < {_UNTIL}
                    HAVING count() > 0
                )
            ) AS known,
            greatest(0, if(known >= 14, known - known % 7, known)) AS counted
        FROM
        (
            SELECT groupArray(back) AS backs, groupArray(usd) AS usds
            FROM
            (
                SELECT toInt64({_TODAY} - toDate(hour)) AS back, toFloat64({COST_SUM}) AS usd
                FROM job_hours FINAL
                WHERE {USERS_JOBS} AND hour >= {_TODAY} - {_BASIS_DAYS} AND hour < {_TODAY}
                GROUP BY back
            )
        )
    )"""

MONTH: Final = f"""
SELECT so_far AS "so far", toFloat64(so_far) + rest AS "forecast", before AS "last month"
FROM
(
    SELECT sumIf(usd, is_now) AS so_far, sumIf(usd, NOT is_now) AS before
    FROM
    (
        SELECT hour >= {_MONTH} AS is_now, {COST_SUM} AS usd
        FROM job_hours FINAL
        WHERE {USERS_JOBS} AND hour >= {_MONTH} - INTERVAL 1 MONTH AND hour < {_UNTIL}
        GROUP BY is_now
    )
) AS s
CROSS JOIN
({_REST}
) AS r"""

MONTHS: Final = f"""
SELECT toDateTime(m.month, 'UTC') AS time, m.usd AS "spent", if(m.month = {_MONTH}, r.rest, NULL) AS "forecast of the rest"
FROM
(
    SELECT toStartOfMonth(hour) AS month, {COST_SUM} AS usd
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND hour >= toStartOfMonth({FROM_TIME}) AND hour < {_UNTIL}
    GROUP BY month
) AS m
CROSS JOIN
({_REST}
) AS r
ORDER BY time"""

BY_TEAM: Final = f"""
SELECT time, if(place <= {TEAMS}, if(team = '', '(no team)', team), '(other teams)') AS series, sum(usd) AS "cost"
FROM
(
    SELECT time, team, usd, dense_rank() OVER (ORDER BY total DESC, team) AS place
    FROM
    (
        SELECT time, team, usd, sum(usd) OVER (PARTITION BY team) AS total
        FROM
        (
            SELECT {bucket("h.hour", _STEP_S)} AS time, j.team AS team, {COST_SUM} AS usd
            FROM
            (
                SELECT hour, job_id, {COST_COLUMNS} FROM job_hours FINAL WHERE {USERS_JOBS} AND {IN_HOURS}
            ) AS h
            LEFT ANY JOIN (SELECT job_id, team FROM jobs FINAL) AS j ON j.job_id = h.job_id
            GROUP BY time, team
        )
    )
)
GROUP BY time, series
ORDER BY time, series"""

# Fifty thousand jobs have millions of steps in a month: they are added up job by job, in the order of the table. Beyond that steps are few and
# the parts to be read side by side many.
OF_JOBS: Final = f"""
        SELECT time, usd, ran_ms
        FROM
        (
            SELECT time, sum(usd) OVER steps AS usd, sum(ran_ms) OVER steps AS ran_ms, row_number() OVER steps AS place
            FROM
            (
                SELECT job_id, {bucket("hour", _STEP_S)} AS time, {ROW_COST} AS usd, wall_clock_ms AS ran_ms
                FROM job_hours FINAL
                WHERE {USERS_JOBS} AND {IN_HOURS} AND {is_short(_STREAMED_S)}
            )
            WINDOW steps AS (PARTITION BY job_id, time)
        )
        WHERE place = 1
        UNION ALL
        SELECT {bucket("hour", _STEP_S)} AS time, sum({ROW_COST}), sum(wall_clock_ms)
        FROM job_hours FINAL
        WHERE {USERS_JOBS} AND {IN_HOURS} AND {is_long(_STREAMED_S)}
        GROUP BY time, job_id"""

PER_HOUR: Final = f"""
SELECT time, rates[1] AS "median", rates[2] AS "p95"
FROM
(
    SELECT time, quantilesExact(0.5, 0.95)(toFloat64(usd) * 3600000 / ran_ms) AS rates
    FROM
    ({OF_JOBS}
    )
    WHERE ran_ms >= {_RAN_MS}
    GROUP BY time
)
ORDER BY time"""

TOP_JOBS: Final = f"""
SELECT
    t.job_id AS "job",
    j.owner AS "owner",
    j.team AS "team",
    j.project AS "project",
    j.state AS "state",
    t.usd AS "cost",
    toFloat64(t.usd) / nullIf(t.wall_ms / 3600000, 0) AS "per training hour",
    t.wall_ms / 3600000 AS "hours",
    t.gpu / 3600000000 AS "GPU-hours",
    t.lost AS "lost"
FROM
(
    SELECT job_id, {COST_SUM} AS usd, sum(wall_clock_ms) AS wall_ms, sum(toInt128(gpu_milli_ms)) AS gpu, sum(lost_cost_usd) AS lost
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND {IN_HOURS}
    GROUP BY job_id
    HAVING usd > 0
    ORDER BY usd DESC, job_id
    LIMIT 10
) AS t
LEFT ANY JOIN (SELECT job_id, owner, team, project, toString(state) AS state FROM jobs FINAL) AS j ON j.job_id = t.job_id
ORDER BY t.usd DESC, t.job_id"""

# Beyond two days what is idle is the hours of nodes less the hours of jobs of the same kind of machine, where no job is on a node that sends no
# events. Hours of jobs are read once, for that and for what has no team.
_OF_KINDS: Final = f"""
        SELECT hour, cluster, gpu_type, instance_type, cost_usd AS node_usd, toDecimal64(0, 9) AS on_nodes_usd, toDecimal64(0, 9) AS usd, toDecimal64(0, 9) AS no_team_usd
        FROM node_hours FINAL
        WHERE {IN_HOURS} AND {is_long(_BALANCE_S)}
        UNION ALL
        SELECT h.hour, h.cluster, h.gpu_type, h.instance_type, toDecimal64(0, 9), h.gpu_cost_usd, h.usd, if(h.job_id IN (SELECT job_id FROM jobs FINAL WHERE team != ''), toDecimal64(0, 9), h.usd)
        FROM
        (
            SELECT hour, job_id, cluster, gpu_type, instance_type, gpu_cost_usd, if({USERS_JOBS}, {ROW_COST}, 0) AS usd
            FROM job_hours FINAL
            WHERE {IN_HOURS}
        ) AS h"""

UNALLOCATED: Final = f"""
SELECT time, sum(idle) / nullIf(sum(cost), 0) AS "idle nodes", toFloat64(sum(no_team)) / nullIf(toFloat64(sum(jobs)), 0) AS "jobs without a team"
FROM
(
    SELECT
        {bucket("hour", _STEP_S)} AS time,
        toFloat64(sum(node_usd)) AS cost,
        greatest(cost - toFloat64(sum(on_nodes_usd)), 0) AS idle,
        sum(usd) AS jobs,
        sum(no_team_usd) AS no_team
    FROM
    ({_OF_KINDS}
    )
    GROUP BY hour, cluster, gpu_type, instance_type
    UNION ALL
    SELECT {bucket("hour", _STEP_S)}, toFloat64(sum(node_cost_usd)), toFloat64(sum(idle_cost_usd)), 0, 0
    FROM netted_hours
    WHERE {IN_HOURS} AND {is_short(_BALANCE_S)}
    GROUP BY hour
)
GROUP BY time
ORDER BY time"""

EXECUTIVE: Final = Dashboard(
    "executive",
    "Executive",
    "What training costs by month, team and training hour, and what nobody accounts for.",
    30 * DAY_MS // 1000,
    (
        Panel(
            "month",
            "This month (UTC)",
            "What jobs have cost in the month in which the range ends, what it will have cost if what is left of it is as the days before (as on the page Costs), and the month before.",
            MONTH,
            "number",
            "usd",
            span=24,
            height=4,
        ),
        Panel(
            "months",
            "Cost by month",
            "What jobs cost in each month (UTC) that the range touches, and what is left of the newest one, as the days before were.",
            MONTHS,
            "bars",
            "usd",
            is_monthly=True,
        ),
        Panel(
            "cost_by_team",
            "Cost by team",
            f"What jobs cost in each step of time, by team: the {TEAMS} dearest of the range, and the others together.",
            BY_TEAM,
            "bars",
            "usd",
        ),
        Panel(
            "cost_per_training_hour",
            "Cost per training hour",
            "Median and 95th percentile over jobs: what a job cost in the step, by the hours that it ran; jobs that ran for less than 5 minutes of it are left out.",
            PER_HOUR,
            "lines",
            "usd_per_hour",
        ),
        Panel(
            "unallocated",
            "Unallocated share",
            "Of what nodes cost, the share that no job held; of what jobs cost, the share of those without a team. Above 5 % is too much. "
            "Up to 2 days idle time is that of each node and minute (m3), beyond that of each hour and kind of machine.",
            UNALLOCATED,
            "lines",
            "ratio",
            thresholds=(0.05,),
        ),
        Panel(
            "top_jobs",
            "The ten dearest jobs",
            "What they cost in the range, all hours (UTC) that it touches.",
            TOP_JOBS,
            "table",
            "text",
            {
                "job": "job",
                "cost": "usd",
                "per training hour": "usd_per_hour",
                "hours": "hours",
                "GPU-hours": "gpu_hours",
                "lost": "usd",
            },
            span=24,
        ),
    ),
)
