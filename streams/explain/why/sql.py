"""What is read from the store about a job at an instant; every value is bound as a parameter."""

from __future__ import annotations

from typing import Final

_AT: Final = "fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')"
_ALERT_COLUMNS: Final = """
       alert_id, rule, severity, status, subject_kind, subject_name, owner, team, project, ratio, cost_usd, usd_per_hour,
       expected_usd_per_hour, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms,
       toUnixTimestamp64Milli(held) AS held_ms, toUnixTimestamp64Milli(changed) AS changed_ms, firings, silenced"""
ONE_ALERT: Final = f"SELECT {_ALERT_COLUMNS} FROM alerts FINAL WHERE alert_id = {{alert:String}}"
MISSING_PRICE_EVIDENCE: Final = (
    "SELECT evidence_sql FROM alerts FINAL WHERE alert_id = {alert:String} AND rule = 'missing_price'"
)
#: Those that fired in the day before the instant.
ALERTS: Final = f"""
SELECT {_ALERT_COLUMNS} FROM alerts FINAL
WHERE subject_kind = {{kind:String}} AND subject_name = {{name:String}} AND started <= {_AT}
  AND (resolved IS NULL OR resolved > {_AT} - INTERVAL 1 DAY)
ORDER BY started DESC, alert_id LIMIT 100"""
DELIVERIES: Final = f"""
SELECT alert_id, toUnixTimestamp64Milli(time) AS time_ms, status, receiver, attempt, outcome, http_status, detail
FROM deliveries FINAL WHERE alert_id IN {{alerts:Array(String)}} AND time <= {_AT} + INTERVAL 1 HOUR
ORDER BY time, attempt"""
#: As of the last judged minute: one that is gone since has an older row.
BUDGETS: Final = """
SELECT budget, used_ratio, used_usd, limit_usd FROM budget_use FINAL
WHERE subject_kind = {kind:String} AND subject_name = {name:String} AND time = (SELECT max(time) FROM budget_use)
ORDER BY used_ratio DESC LIMIT 20"""
#: Records that give rules other thresholds.
RULE_RECORDS: Final = f"SELECT count() AS records FROM controls FINAL WHERE kind = 'rule' AND time <= {_AT}"
NEWEST: Final = """
SELECT greatest(toUnixTimestamp64Milli((SELECT max(time) FROM burn_rates WHERE job_id = {job:String})),
                toUnixTimestamp64Milli((SELECT max(last_event) FROM jobs FINAL WHERE job_id = {job:String}))) AS at_ms"""
JOB: Final = """
SELECT job_id, owner, team, project, state, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(ended) AS ended_ms,
       toUnixTimestamp64Milli(last_event) AS last_event_ms, toUnixTimestamp64Milli(deadline) AS deadline_ms
FROM jobs FINAL WHERE job_id = {job:String}"""
#: Rates as of the last tick at or before the instant.
RATES: Final = f"""
SELECT toUnixTimestamp64Milli(time) AS time_ms, usd_per_hour, usd_per_hour_15m, usd_per_hour_1h, usd_per_hour_6h,
       expected_usd_per_hour, ratio_15m
FROM burn_rates FINAL WHERE job_id = {{job:String}} AND time <= {_AT} ORDER BY time DESC LIMIT 1"""
#: The expected rate of the paid time in a window: of each row until the next one. Rows stand in the window's first 10 min, too.
EXPECTED: Final = f"""
SELECT window_ms, sum(usd * overlap_ms) / nullIf(sum(overlap_ms), 0) AS usd_per_hour, sum(overlap_ms) AS paid_ms
FROM
(
    SELECT window_ms, usd, greatest(0, least(next_ms, {{at_ms:Int64}}) - greatest(time_ms, {{at_ms:Int64}} - window_ms)) AS overlap_ms
    FROM
    (
        SELECT toUnixTimestamp64Milli(time) AS time_ms, toFloat64(expected_usd_per_hour) AS usd,
               leadInFrame(toUnixTimestamp64Milli(time), 1, {{at_ms:Int64}}) OVER
                   (ORDER BY time ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS next_ms
        FROM burn_rates FINAL
        WHERE job_id = {{job:String}} AND time <= {_AT} AND time > {_AT} - INTERVAL 371 MINUTE
    )
    ARRAY JOIN [toInt64(300000), 900000, 3600000, 21600000] AS window_ms
    WHERE usd > 0
)
GROUP BY window_ms ORDER BY window_ms"""
#: The paid time of the job's ledger in a window: no rates are stored of the time before a worker had the job's events.
PAID: Final = """
SELECT window_ms,
       sum(greatest(0, least(until_ms, {at_ms:Int64}) - greatest(from_ms, {at_ms:Int64} - window_ms))) AS paid_ms
FROM
(
    SELECT toInt64(toUnixTimestamp(hour)) * 1000 AS hour_ms, hour_ms + since_ms AS from_ms, hour_ms + to_ms AS until_ms
    FROM job_hours FINAL
    ARRAY JOIN wall_clock_from_ms AS since_ms, wall_clock_until_ms AS to_ms
    WHERE job_id = {job:String} AND hour > toDateTime(intDiv({at_ms:Int64}, 1000), 'UTC') - INTERVAL 7 HOUR
)
ARRAY JOIN [toInt64(300000), 900000, 3600000, 21600000] AS window_ms
GROUP BY window_ms ORDER BY window_ms"""
_MINUTES: Final = "minute <= toDateTime(intDiv({at_ms:Int64}, 1000), 'UTC')"
_WITHIN: Final = "minute > toDateTime(intDiv({at_ms:Int64}, 1000), 'UTC') - INTERVAL"
LEDGER: Final = f"""
SELECT toFloat64(sumIf(quantity, component = 'gpu' AND sku = '')) / 3600000000 AS unpriced_gpu_h,
       countIf(component IN ('network', 'storage') AND sku = '') AS unpriced_traffic_rows,
       sumIf(cost_usd, component IN ('network', 'storage') AND {_WITHIN} 1 HOUR) AS traffic_usd,
       sumIf(cost_usd, component NOT IN ('network', 'storage') AND {_WITHIN} 1 HOUR) AS timed_usd,
       sumIf(lost_cost_usd, {_WITHIN} 1 HOUR) AS lost_usd
FROM job_minutes FINAL WHERE job_id = {{job:String}} AND {_MINUTES} AND quantity != 0"""
USAGE: Final = f"""
SELECT toUnixTimestamp(max(minute)) * 1000 AS last_minute_ms,
       toFloat64(sumIf(productive_gpu_ms, {_WITHIN} 30 MINUTE)) / nullIf(sumIf(sampled_gpu_s, {_WITHIN} 30 MINUTE) * 1000, 0) AS productive_ratio
FROM job_usage_minutes FINAL WHERE job_id = {{job:String}} AND {_MINUTES}"""
ATTEMPTS: Final = f"""
SELECT countIf(state = 'failed' AND ended > {_AT} - INTERVAL 1 HOUR AND ended <= {_AT}) AS failures,
       countIf(state = 'preempted' AND ended > {_AT} - INTERVAL 1 HOUR AND ended <= {_AT}) AS preemptions
FROM attempts FINAL WHERE job_id = {{job:String}}"""
PURCHASES: Final = f"""
SELECT attempt, purchase FROM attempts FINAL
WHERE job_id = {{job:String}} AND started <= {_AT} AND purchase != '' ORDER BY attempt DESC LIMIT 100"""
