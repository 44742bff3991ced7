"""What is read from the store about a job at an instant; every value is bound as a parameter."""

from __future__ import annotations

from typing import Final

_AT: Final = "fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC')"
_ALERT_COLUMNS: Final = """
       alert_id, rule, severity, status, subject_kind, subject_name, owner, team, project, ratio, cost_usd, usd_per_hour,
       expected_usd_per_hour, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms,
       toUnixTimestamp64Milli(held) AS held_ms, toUnixTimestamp64Milli(changed) AS changed_ms, firings, silenced, margins"""
ONE_ALERT: Final = f"SELECT {_ALERT_COLUMNS} FROM alerts FINAL WHERE alert_id = {{alert:String}}"
#: An alert of a rule by SQL: its statement with its instants.
STATEMENT: Final = (
    "SELECT evidence_sql FROM alerts FINAL WHERE alert_id = {alert:String} AND startsWith(rule, 'sql/')"
)
MISSING_PRICE_EVIDENCE: Final = (
    "SELECT evidence_sql FROM alerts FINAL WHERE alert_id = {alert:String} AND rule = 'missing_price'"
)
#: Those that fired in the day before the instant.
ALERTS: Final = f"""
SELECT {_ALERT_COLUMNS} FROM alerts FINAL
WHERE subject_kind = {{kind:String}} AND subject_name = {{name:String}} AND started <= {_AT}
  AND (resolved IS NULL OR resolved > {_AT} - INTERVAL 1 DAY)
ORDER BY started DESC, alert_id LIMIT 100"""
#: Those that fired in the day before the instant about something that the job is part of. After the name of a type stand the
#: fields that keep a price from applying.
WIDER_ALERTS: Final = f"""
SELECT alert_id, rule, subject_kind, subject_name, if(resolved IS NULL OR resolved > {_AT}, 'firing', 'resolved') AS status, summary
FROM alerts FINAL
WHERE started <= {_AT} AND (resolved IS NULL OR resolved > {_AT} - INTERVAL 1 DAY)
  AND arrayExists((kind, name) -> kind = subject_kind AND (name = subject_name OR startsWith(subject_name, concat(name, ' '))),
                  {{kinds:Array(String)}}, {{names:Array(String)}})
ORDER BY started DESC, alert_id LIMIT 20"""
#: Whenever they were: a worker that catches up, or meters a simulated day, delivers long after the alert's own time.
DELIVERIES: Final = """
SELECT alert_id, toUnixTimestamp64Milli(time) AS time_ms, status, receiver, attempt, outcome, http_status, detail
FROM deliveries FINAL WHERE alert_id IN {alerts:Array(String)}
ORDER BY time, attempt"""
#: The newest tick of any job.
NEWEST_TICK: Final = "SELECT toUnixTimestamp64Milli(max(time)) AS at_ms FROM burn_rates"
#: When somebody acted last: no tick has judged that yet, and the next one may be minutes away.
NEWEST_ACT: Final = """
SELECT toUnixTimestamp64Milli(max(time)) AS at_ms FROM controls WHERE kind IN ('ack', 'silence', 'planned')"""
#: As of the last judged minute: one that is gone since has an older row.
BUDGETS: Final = """
SELECT budget, used_ratio, used_usd, limit_usd FROM budget_use FINAL
WHERE subject_kind = {kind:String} AND subject_name = {name:String} AND time = (SELECT max(time) FROM budget_use)
ORDER BY used_ratio DESC LIMIT 20"""
JOB: Final = "SELECT job_id FROM jobs FINAL WHERE job_id = {job:String}"
