"""What burns now and whose it is, what the autoscaler does, and which alerts fire."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from schemas.durations import HOUR_MS
from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.alerts.titles import TITLES
from streams.engine.rules.evidence import quoted
from streams.panels import burn_sql
from streams.panels.panel import (
    COST_SUM,
    FROM,
    FROM_TIME,
    IN_HOURS,
    IN_MINUTES,
    TO_TIME,
    Dashboard,
    Panel,
    Unit,
    bucket,
    is_long,
    is_short,
)

BURN_NOW: Final = f"""
SELECT
    sum(n.usd_per_hour_now) AS "now",
    any(m.of_1_h) AS "1 h",
    any(m.of_6_h) AS "6 h",
    countIf(n.usd_per_hour_now > 0) AS "jobs that burn"
FROM ({burn_sql.MEANS}
) AS m
LEFT JOIN ({burn_sql.newest_rates()}
) AS n ON 1 = 1"""

ALERTS_FIRING: Final = """
SELECT countIf(severity = 'page') AS "pages", countIf(severity = 'ticket') AS "tickets"
FROM alerts FINAL
WHERE status = 'firing'"""

_TODAY: Final = f"{USERS_JOBS} AND hour >= toStartOfDay({TO_TIME} - 1) AND hour < {TO_TIME}"

SPENT: Final = f"""
SELECT sumIf(usd, is_today) AS "today", sumIf(usd, is_in_range) AS "range"
FROM
(
    SELECT hour >= toStartOfDay({TO_TIME} - 1) AS is_today, hour >= toStartOfHour({FROM_TIME}) AS is_in_range, {COST_SUM} AS usd
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND hour >= least(toStartOfHour({FROM_TIME}), toStartOfDay({TO_TIME} - 1)) AND hour < {TO_TIME}
    GROUP BY is_today, is_in_range
)"""

UNPRICED: Final = f"""
SELECT sum(toInt128(unpriced_gpu_milli_ms)) / 3600000000 AS "GPU-hours"
FROM job_hours FINAL
WHERE {USERS_JOBS} AND {IN_HOURS}"""

_IN_RANGE: Final = "{column} >= " + FROM_TIME + " AND {column} <= " + TO_TIME


def _in_range(column: str) -> str:
    return _IN_RANGE.replace("{column}", column)


DEAD_LETTERS_COUNT: Final = f"""
SELECT count() AS "dead letters"
FROM dead_letters FINAL
WHERE {_in_range("time")}"""

LIVE_JOBS: Final = f"""
WITH top AS
(
    SELECT *
    FROM ({burn_sql.newest_rates()}
    )
    WHERE usd_per_hour_1h > 0
    ORDER BY usd_per_hour_now DESC, usd_per_hour_1h DESC, job_id
    LIMIT 50
)
SELECT
    t.job_id AS "job",
    j.owner AS "owner",
    j.team AS "team",
    j.state AS "state",
    j.gpu_count AS "GPUs",
    t.usd_per_hour_now AS "$/h now",
    t.usd_per_hour_15m AS "$/h 15 min",
    t.usd_per_hour_1h AS "$/h 1 h",
    t.expected_usd_per_hour AS "$/h expected",
    toFloat64(t.usd_per_hour_now) / nullIf(toFloat64(t.expected_usd_per_hour), 0) AS "ratio",
    c.usd AS "cost so far"
FROM top AS t
LEFT ANY JOIN (SELECT job_id, owner, team, toString(state) AS state, gpu_count FROM jobs FINAL) AS j ON j.job_id = t.job_id
LEFT ANY JOIN
(
    SELECT job_id, {COST_SUM} AS usd
    FROM job_hours FINAL
    WHERE job_id IN (SELECT job_id FROM top)
    GROUP BY job_id
) AS c ON c.job_id = t.job_id
ORDER BY t.usd_per_hour_now DESC, t.usd_per_hour_1h DESC, t.job_id"""

TODAY_BY_COMPONENT: Final = f"""
SELECT each.1 AS "component", sum(each.2) AS "cost"
FROM
(
    SELECT arrayJoin([{", ".join(f"('{component}', toDecimal128({component}_cost_usd, 9))" for component in COMPONENTS)}]) AS each
    FROM job_hours FINAL
    WHERE {_TODAY}
)
WHERE each.2 != 0
GROUP BY "component"
ORDER BY 2 DESC, 1"""

UNPRODUCTIVE: Final = f"""
SELECT time, 1 - sum(productive) / nullIf(sum(sampled), 0) AS "unproductive"
FROM
(
    SELECT {bucket("minute", 60)} AS time, productive_gpu_ms AS productive, sampled_gpu_s * 1000 AS sampled
    FROM job_usage_minutes FINAL
    WHERE {USERS_JOBS} AND {IN_MINUTES} AND {is_short()}
    UNION ALL
    SELECT {bucket("hour", 3_600)}, productive_gpu_ms, sampled_gpu_ms
    FROM job_hours FINAL
    WHERE {USERS_JOBS} AND {IN_HOURS} AND {is_long()}
)
GROUP BY time
HAVING sum(sampled) > 0
ORDER BY time"""


def _paid_nodes(table: str, column: str, unit_s: int, paid: str, condition: str) -> str:
    """The nodes that were paid in a step, began to be and ceased to be, by the hours or minutes of each node.

    A node's times are one array: a row for each of them would not fit the memory of a query over a year.
    """
    step = f"(intDiv({{step_s:Int64}} + {unit_s - 1}, {unit_s}))"  # in units
    first = f"intDiv({FROM}, {unit_s})"
    return f"""
    SELECT
        toDateTime(event.1 * {step} * {unit_s}, 'UTC') AS time,
        countIf(event.2 = 'paid') AS paid,
        countIf(event.2 = 'begun') AS begun,
        countIf(event.2 = 'ended') AS ended
    FROM
    (
        SELECT arrayJoin(arrayConcat(
            arrayMap(at -> (at, 'paid'), arrayDistinct(arrayMap(at -> intDiv(at, {step}), arrayFilter(at -> at >= {first}, times)))),
            arrayMap(at -> (intDiv(at, {step}), 'begun'), arrayFilter((at, before) -> at > before + 1 AND at >= {first}, times, arrayPushFront(arrayPopBack(times), toInt64(0)))),
            arrayMap(at -> (intDiv(at + 1, {step}), 'ended'), arrayFilter((at, next) -> next > at + 1 AND at + 1 >= {first} AND at + 1 <= until, times, arrayPushBack(arrayPopFront(times), toInt64(9000000000))))
        )) AS event
        FROM
        (
            SELECT arraySort(groupUniqArray(toInt64(intDiv(toUnixTimestamp({column}), {unit_s})))) AS times,
                (SELECT toInt64(intDiv(toUnixTimestamp(max({column})), {unit_s})) FROM {table} WHERE {column} < {TO_TIME}) AS until
            FROM {table} FINAL
            WHERE {column} >= {FROM_TIME} - INTERVAL {2 * unit_s} SECOND AND {column} < {TO_TIME} AND {paid} AND {condition}
            GROUP BY node
        )
    )
    GROUP BY time"""


NODES: Final = f"""
SELECT time, begun AS "begun", ended AS "ended", paid AS "paid"
FROM
({_paid_nodes("node_minutes", "minute", 60, "quantity != 0", is_short())}
    UNION ALL{_paid_nodes("node_hours", "hour", 3_600, "paid_ms != 0", is_long())}
)
ORDER BY time"""

WAITING: Final = f"""
SELECT
    {bucket("hour", 3_600)} AS time,
    sum(queued_ms) / 1000 / nullIf(uniqIf((job_id, attempt), queued_ms > 0), 0) AS "in the queue",
    sum(starting_ms) / 1000 / nullIf(uniqIf((job_id, attempt), starting_ms > 0), 0) AS "starting"
FROM job_hours FINAL
WHERE {USERS_JOBS} AND {IN_HOURS} AND (queued_ms > 0 OR starting_ms > 0)
GROUP BY time
ORDER BY time"""

STARTS: Final = f"""
SELECT
    {bucket("hour", 3_600)} AS time,
    uniq(node) AS "nodes",
    sum(starting_ms) / 1000 / uniq(node) AS "mean seconds"
FROM node_hours FINAL
WHERE {IN_HOURS} AND starting_ms > 0
GROUP BY time
ORDER BY time"""


def sql_list(texts: Iterable[str]) -> str:
    """An array of SQL."""
    return f"[{', '.join(map(quoted, texts))}]"


ALERTS_COLUMNS: Final = f"""
    toString(a.severity) AS "severity",
    toString(a.status) AS "status",
    transform(toString(a.rule), {sql_list(TITLES)}, {sql_list(TITLES.values())}, toString(a.rule)) AS "rule",
    concat(a.subject_kind, ' ', a.subject_name) AS "subject",
    a.owner AS "owner",
    a.started AS "started",
    a.resolved AS "resolved",
    nullIf(a.ratio, 0) AS "ratio",
    a.usd_per_hour AS "$/h",
    a.cost_usd AS "cost",
    if(a.silenced, 'silenced', '') AS "silence",
    a.summary AS "summary"
"""

ALERTS: Final = f"""
SELECT{ALERTS_COLUMNS}
FROM alerts AS a FINAL
WHERE a.status = 'firing' OR ({_in_range("a.changed")})
ORDER BY a.status = 'firing' DESC, a.started DESC, a.alert_id
LIMIT 100"""

ALERTS_OPENED: Final = f"""
SELECT {bucket("a.started", 60)} AS time, toString(a.severity) AS series, count() AS "alerts"
FROM alerts AS a FINAL
WHERE {_in_range("a.started")}
GROUP BY time, series
ORDER BY time, series"""

DELIVERIES: Final = f"""
SELECT {bucket("d.time", 60)} AS time, toString(d.outcome) AS series, count() AS "deliveries"
FROM deliveries AS d FINAL
WHERE {_in_range("d.time")}
GROUP BY time, series
ORDER BY time, series"""

DEAD_LETTERS: Final = f"""
SELECT {bucket("d.time", 60)} AS time, toString(d.reason) AS series, count() AS "dead letters"
FROM dead_letters AS d FINAL
WHERE {_in_range("d.time")}
GROUP BY time, series
ORDER BY time, series"""

_OF_ALERTS: Final[dict[str, Unit]] = {
    "started": "time",
    "resolved": "time",
    "ratio": "count",
    "$/h": "usd_per_hour",
    "cost": "usd",
}

ONCALL: Final = Dashboard(
    "oncall",
    "On-call",
    "What burns money now and whose it is, what the autoscaler does, and which alerts fire.",
    HOUR_MS // 1000,
    (
        Panel(
            "burn_now",
            "The fleet burns",
            "Dollars per hour at the end of the range: what accrues at that instant, and what all jobs cost in the last hour and in the last six, divided by 1 and by 6.",
            BURN_NOW,
            "number",
            "usd_per_hour",
            {"jobs that burn": "count"},
            span=10,
            height=4,
        ),
        Panel(
            "spent",
            "Spent",
            "Since midnight (UTC) before the end of the range, and in all hours that the range touches.",
            SPENT,
            "number",
            "usd",
            span=5,
            height=4,
        ),
        Panel(
            "alerts_firing",
            "Alerts firing",
            "How many fire now, whatever the range.",
            ALERTS_FIRING,
            "number",
            span=3,
            height=4,
            thresholds=(1,),
        ),
        Panel(
            "unpriced",
            "Unpriced GPU-hours",
            "GPU-time of the range for which no price is known: it counts as free.",
            UNPRICED,
            "number",
            "gpu_hours",
            span=3,
            height=4,
            thresholds=(0.001,),
        ),
        Panel(
            "dead_letters_count",
            "Dead letters",
            "Records of the range that were refused and stored.",
            DEAD_LETTERS_COUNT,
            "number",
            span=3,
            height=4,
            thresholds=(1,),
        ),
        Panel(
            "burn",
            "Fleet burn rate",
            "Dollars per hour: `now` at the end of each step, and what all jobs cost in the hour before (1 h). Above what is expected, somebody burns more than declared or quoted. Beyond 6 hours: the mean of each step, of the ledger's hours.",
            burn_sql.FLEET,
            "lines",
            "usd_per_hour",
        ),
        Panel(
            "burn_by_team",
            "Burn rate by team",
            "Dollars per hour of the seven teams that burn most in the range, and of the others together.",
            burn_sql.BY_TEAM,
            "stacked",
            "usd_per_hour",
        ),
        Panel(
            "live_jobs",
            "Live jobs by burn rate",
            "The fifty that burn most at the end of the range.",
            LIVE_JOBS,
            "table",
            "text",
            {
                "job": "job",
                "GPUs": "gpus",
                "$/h now": "usd_per_hour",
                "$/h 15 min": "usd_per_hour",
                "$/h 1 h": "usd_per_hour",
                "$/h expected": "usd_per_hour",
                "ratio": "count",
                "cost so far": "usd",
            },
            span=17,
            height=10,
        ),
        Panel(
            "today_by_component",
            "Cost today (UTC) by component",
            "Of the day in which the range ends.",
            TODAY_BY_COMPONENT,
            "table",
            "text",
            {"cost": "usd"},
            span=7,
            height=10,
        ),
        Panel(
            "nodes",
            "Nodes: begun, ended, paid",
            "How many nodes began to be paid in each step, how many ceased to be, and how many were paid in it. Beyond 6 hours by whole hours.",
            NODES,
            "lines",
            span=8,
        ),
        Panel(
            "waiting",
            "How long jobs wait for nodes",
            "Mean seconds in the queue, and from allocated to started, of the attempts of each hour.",
            WAITING,
            "lines",
            "seconds",
            span=8,
        ),
        Panel(
            "node_starts",
            "Nodes that started, and how long they took",
            "Nodes of each step between provisioned and ready, and how long they were so on average, paid and of no use to a job.",
            STARTS,
            "lines",
            span=8,
        ),
        Panel(
            "ratios",
            "Cost over expected, last 15 min: the eight highest",
            "1 is as expected. Alerts: 1.5 over hours, 2.1 over an hour, 2.5 over 15 minutes. No more than the last 6 hours of the range.",
            burn_sql.RATIOS,
            "lines",
            "count",
            thresholds=(1.5, 2.5),
        ),
        Panel(
            "unproductive",
            "Unproductive share of sampled GPU-time",
            "What samples covered and did not find productive.",
            UNPRODUCTIVE,
            "lines",
            "ratio",
            most=1,
        ),
        Panel(
            "alerts",
            "Alerts: firing, and changed in the range",
            "At most a hundred, those that fire first.",
            ALERTS,
            "table",
            "text",
            _OF_ALERTS,
            span=24,
            height=9,
        ),
        Panel(
            "alerts_opened",
            "Alerts opened, by severity",
            "How many began in each step.",
            ALERTS_OPENED,
            "bars",
            span=8,
        ),
        Panel(
            "deliveries",
            "Messages by outcome",
            "Attempts to tell somebody of an alert or a receipt, and those that were not made.",
            DELIVERIES,
            "bars",
            span=8,
        ),
        Panel(
            "dead_letters",
            "Dead letters by reason",
            "Records that were refused and stored.",
            DEAD_LETTERS,
            "bars",
            span=8,
        ),
    ),
)
