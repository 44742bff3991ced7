"""What is read from the store for the report of an incident; every value is bound as a parameter."""

from __future__ import annotations

from typing import Final

#: More than the list of alerts has: its statement, its sentence, and when it became more urgent.
ALERTS: Final = """
SELECT alert_id, rule, severity, status, subject_kind, subject_name, owner, team, project, ratio, cost_usd, usd_per_hour,
    expected_usd_per_hour, opened_usd_per_hour, window_ms, summary, evidence_sql, shared_cause, firings, silenced, margins,
    toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms,
    toUnixTimestamp64Milli(held) AS held_ms, toUnixTimestamp64Milli(changed) AS changed_ms,
    toUnixTimestamp64Milli(ticket_since) AS ticket_since_ms, toUnixTimestamp64Milli(page_since) AS page_since_ms
FROM alerts FINAL WHERE alert_id IN {alerts:Array(String)}"""
ATTEMPTS: Final = """
SELECT job_id, attempt, state, reason, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(ended) AS ended_ms,
    toFloat64(gpu_count) AS gpu_count, gpu_type, purchase, region
FROM attempts FINAL WHERE job_id IN {jobs:Array(String)}
ORDER BY job_id, attempt DESC LIMIT 500 BY job_id"""
#: GPUs that an attempt held on average in a minute, where that is another number than in the minute before, or there is none before.
SIZES: Final = """
SELECT job_id, attempt, toInt64(toUnixTimestamp(minute)) * 1000 AS minute_ms, gpus
FROM
(
    SELECT job_id, attempt, minute, gpus,
        lagInFrame(minute) OVER each AS minute_before, lagInFrame(gpus) OVER each AS gpus_before
    FROM
    (
        SELECT job_id, attempt, minute, round(sum(quantity) / 60000000, 3) AS gpus FROM job_minutes FINAL
        WHERE job_id IN {jobs:Array(String)} AND component = 'gpu' AND unit = 'gpu_milli_ms' AND quantity != 0
          AND minute >= toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC') AND minute <= toDateTime(intDiv({until_ms:Int64}, 1000), 'UTC')
        GROUP BY job_id, attempt, minute
    )
    WINDOW each AS (PARTITION BY job_id, attempt ORDER BY minute ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)
)
WHERE gpus != gpus_before OR minute != minute_before + INTERVAL 1 MINUTE
ORDER BY job_id, attempt, minute_ms LIMIT 2000"""
#: By the ledger's minutes, or where they are deleted by its hours: `minutes` is 0 then.
SPENT: Final = """
SELECT job_id, sumIf(usd, is_minute) AS cost_usd, sumIf(lost_usd, is_minute) AS lost_cost_usd, countIf(is_minute) AS minutes,
    sumIf(usd, NOT is_minute) AS hours_usd, sumIf(lost_usd, NOT is_minute) AS lost_hours_usd
FROM
(
    SELECT job_id, toDecimal128(cost_usd, 9) AS usd, toDecimal128(lost_cost_usd, 9) AS lost_usd, true AS is_minute
    FROM job_minutes FINAL
    WHERE job_id IN {jobs:Array(String)} AND quantity != 0
      AND minute >= toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC') AND minute < toDateTime(intDiv({until_ms:Int64}, 1000), 'UTC')
    UNION ALL
    SELECT job_id, cost_usd, toDecimal128(lost_cost_usd, 9), false
    FROM cost_hours
    WHERE job_id IN {jobs:Array(String)}
      AND hour >= toStartOfHour(toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')) AND hour < toDateTime(intDiv({until_ms:Int64}, 1000), 'UTC')
)
GROUP BY job_id"""
TOTALS: Final = """
SELECT job_id, owner, team, state, cost_usd, lost_cost_usd FROM job_costs WHERE job_id IN {jobs:Array(String)}"""
#: What a job paid in each minute of a span.
MINUTES: Final = """
SELECT toInt64(toUnixTimestamp(minute)) * 1000 AS minute_ms, sum(cost_usd) AS cost_usd FROM job_minutes FINAL
WHERE job_id = {job:String} AND quantity != 0
  AND minute >= toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC') AND minute < toDateTime(intDiv({until_ms:Int64}, 1000), 'UTC')
GROUP BY minute ORDER BY minute"""
ACTIONS: Final = """
SELECT toUnixTimestamp64Milli(time) AS time_ms, budget, job_id, rung, mode, state, attempt, alert_id, detail
FROM actions FINAL
WHERE (alert_id IN {alerts:Array(String)} OR job_id IN {jobs:Array(String)})
  AND time >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC') AND time <= fromUnixTimestamp64Milli({until_ms:Int64}, 'UTC')
ORDER BY time, idempotency_key, attempt LIMIT 500"""
