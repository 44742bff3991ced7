"""The SQL of the live dashboard, in the words of Grafana's ClickHouse data source (`$__fromTime`, `$__interval_s`...)."""

from __future__ import annotations

from schemas.reserved import USERS_JOBS

LIVE_MINUTES = 11
"""A burn rate stands until the job's next one, or for so long: rows of a job that burns are closer together."""

# The meter's canary is no user's job.

_NEWEST = f"(SELECT max(time) FROM burn_rates WHERE {USERS_JOBS}) - INTERVAL {LIVE_MINUTES} MINUTE"

BURN_NOW = f"""
SELECT
    toFloat64(sum(usd_per_hour_now)) AS "now",
    toFloat64(sum(usd_per_hour_1h)) AS "1 h",
    toFloat64(sum(usd_per_hour_6h)) AS "6 h"
FROM burn_now
WHERE time > {_NEWEST}
"""

ALERTS_FIRING = """
SELECT countIf(severity = 'page') AS pages, countIf(severity = 'ticket') AS tickets
FROM alerts FINAL
WHERE status = 'firing'
"""

UNPRICED_GPU_HOURS = f"""
SELECT toFloat64(sum(toInt128(quantity))) / 3600000000 AS "GPU-hours"
FROM job_minutes FINAL
WHERE component = 'gpu' AND sku = '' AND quantity != 0 AND {USERS_JOBS} AND $__timeFilter(minute)
"""

DEAD_LETTERS_COUNT = """
SELECT count() AS "dead letters"
FROM dead_letters FINAL
WHERE $__timeFilter(time)
"""

SPEND_TODAY = f"""
SELECT toFloat64(sum(cost_usd)) AS today
FROM job_minutes FINAL
WHERE quantity != 0 AND {USERS_JOBS} AND minute >= toStartOfDay(now('UTC'))
"""


def burn_over_time(values: dict[str, str], series: str = "", only: str = "") -> str:
    """The sums of columns of `burn_rates` at each step of time, a column or a series each.

    `values`: title -> column. `series`: an expression over `j`, a row of `jobs`. `only`: a further condition on rows.
    A job counts with its newest row so far. Inside the answer, each job and step has one row, so sums are whole.
    """
    columns = ",\n    ".join(
        f'toFloat64(sum(tupleElement(rates, {at}))) AS "{title}"' for at, title in enumerate(values, start=1)
    )
    named = f"\n    {series} AS series," if series else ""
    join = "\nLEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = s.job_id" if series else ""
    condition = f" AND {only}" if only else ""
    return f"""
WITH intDiv({LIVE_MINUTES * 60}, $__interval_s) + 1 AS stands
SELECT
    toDateTime(step * $__interval_s, 'UTC') AS time,{named}
    {columns}
FROM
(
    SELECT
        job_id,
        rates,
        arrayJoin(range(first_step, least(following, toUInt64(intDiv(toUnixTimestamp($__toTime), $__interval_s) + 1)))) AS step
    FROM
    (
        SELECT
            job_id,
            rates,
            bucket AS first_step,
            least(bucket + stands, leadInFrame(bucket, 1, bucket + stands) OVER
                (PARTITION BY job_id ORDER BY bucket ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING)) AS following
        FROM
        (
            SELECT
                job_id,
                toUInt64(intDiv(toUnixTimestamp(b.time), $__interval_s)) AS bucket,
                argMax(tuple({", ".join(values.values())}), (b.time, b.version)) AS rates
            FROM burn_rates AS b
            WHERE b.time > $__fromTime - INTERVAL {LIVE_MINUTES} MINUTE AND b.time <= $__toTime AND {USERS_JOBS}{condition}
            GROUP BY job_id, bucket
        )
    )
) AS s{join}
WHERE step * $__interval_s >= toUnixTimestamp($__fromTime)
GROUP BY time{", series" if series else ""}
ORDER BY time{", series" if series else ""}
"""


FLEET_OVER_TIME = burn_over_time(
    {"now": "b.usd_per_hour_now", "1 h": "b.usd_per_hour_1h", "expected": "b.expected_usd_per_hour"}
)
BY_TEAM_OVER_TIME = burn_over_time({"$/h": "b.usd_per_hour_now"}, "if(j.team = '', '(no team)', j.team)")
# Of many jobs those that burnt the most above what was expected; 0 is a job that is not judged.
RATIO_OVER_TIME = burn_over_time(
    {"ratio": "b.ratio_15m"},
    "s.job_id",
    "b.job_id IN (SELECT job_id FROM burn_rates WHERE $__timeFilter(time)"
    f" AND {USERS_JOBS} GROUP BY job_id HAVING max(ratio_15m) > 0 ORDER BY max(ratio_15m) DESC, job_id LIMIT 10)",
)

TOP_JOBS = f"""
WITH top AS
(
    SELECT *
    FROM burn_now
    WHERE time > {_NEWEST} AND usd_per_hour_1h > 0
    ORDER BY usd_per_hour_now DESC, usd_per_hour_1h DESC, job_id
    LIMIT 50
)
SELECT
    t.job_id AS job,
    j.owner AS owner,
    j.team AS team,
    toString(j.state) AS state,
    toFloat64(j.gpu_count) AS "GPUs",
    toFloat64(t.usd_per_hour_now) AS "$/h now",
    toFloat64(t.usd_per_hour_15m) AS "$/h 15 min",
    toFloat64(t.usd_per_hour_1h) AS "$/h 1 h",
    toFloat64(t.expected_usd_per_hour) AS "$/h expected",
    toFloat64(t.usd_per_hour_now) / nullIf(toFloat64(t.expected_usd_per_hour), 0) AS ratio,
    toFloat64(c.usd) AS "cost so far"
FROM top AS t
LEFT ANY JOIN (SELECT * FROM jobs FINAL) AS j ON j.job_id = t.job_id
LEFT ANY JOIN
(
    SELECT job_id, sum(cost_usd) AS usd
    FROM job_minutes FINAL
    WHERE quantity != 0 AND job_id IN (SELECT job_id FROM top)
    GROUP BY job_id
) AS c ON c.job_id = t.job_id
ORDER BY t.usd_per_hour_now DESC, t.usd_per_hour_1h DESC, job
"""

COST_TODAY_BY_COMPONENT = f"""
SELECT toString(component) AS component, toFloat64(sum(cost_usd)) AS usd
FROM job_minutes FINAL
WHERE quantity != 0 AND {USERS_JOBS} AND minute >= toStartOfDay(now('UTC'))
GROUP BY component
ORDER BY usd DESC, component
"""

IDLE_OVER_TIME = f"""
SELECT
    toStartOfInterval(u.minute, INTERVAL greatest(60, $__interval_s) SECOND) AS time,
    1 - sum(u.productive_gpu_ms) / nullIf(sum(u.sampled_gpu_s) * 1000, 0) AS unproductive
FROM job_usage_minutes AS u FINAL
WHERE {USERS_JOBS} AND $__timeFilter(u.minute)
GROUP BY time
ORDER BY time
"""

ALERTS = """
SELECT
    toString(a.severity) AS severity,
    toString(a.status) AS status,
    toString(a.rule) AS rule,
    concat(a.subject_kind, ' ', a.subject_name) AS subject,
    a.owner AS owner,
    a.started AS started,
    a.resolved AS resolved,
    nullIf(a.ratio, 0) AS ratio,
    toFloat64(a.usd_per_hour) AS "$/h",
    toFloat64(a.cost_usd) AS cost,
    if(a.silenced, 'silenced', '') AS silence,
    a.summary AS summary
FROM alerts AS a FINAL
WHERE a.status = 'firing' OR $__timeFilter(a.changed)
ORDER BY a.status = 'firing' DESC, a.started DESC, a.alert_id
LIMIT 100
"""

DELIVERIES_OVER_TIME = """
SELECT $__timeInterval(d.time) AS time, toString(d.outcome) AS outcome, count() AS deliveries
FROM deliveries AS d FINAL
WHERE $__timeFilter(d.time)
GROUP BY time, outcome
ORDER BY time, outcome
"""

DEAD_LETTERS_OVER_TIME = """
SELECT $__timeInterval(d.time) AS time, toString(d.reason) AS reason, count() AS "dead letters"
FROM dead_letters AS d FINAL
WHERE $__timeFilter(d.time)
GROUP BY time, reason
ORDER BY time, reason
"""
