"""One budget in detail: what was spent of it hour by hour, the jobs that cost most, its levels with their alerts, every action.

The sums are those of the ledger for the period up to the minute that was judged last, as the budget's own are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from schemas.durations import DAY_MS, HOUR_MS, WEEK_MS
from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.alerts.budgets import MATCHED

Row = Mapping[str, Any]
#: Dearest jobs that are listed, and actions.
JOBS_MAX: Final = 20
ACTIONS_MAX: Final = 200

_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
_FACTS: Final = ", ".join(f"'{name}', {name}" for name in MATCHED)
_MINE: Final = f"""
SELECT job_id FROM jobs FINAL
WHERE {USERS_JOBS} AND (empty({{jobs:Array(String)}}) OR job_id IN {{jobs:Array(String)}}) AND arrayAll((field, wanted) -> map({_FACTS})[field] = wanted, {{fields:Array(String)}}, {{wanted:Array(String)}})"""


def _instant(name: str) -> str:
    return f"toDateTime(intDiv({{{name}:Int64}}, 1000), 'UTC')"


#: What matching jobs cost in the period: whole hours, and of the hour of the last judged minute its minutes.
_SPENT: Final = f"""
SELECT toInt64(toUnixTimestamp(hour)) * 1000 AS hour_ms, job_id, {_COST} AS usd
FROM job_hours FINAL WHERE hour >= {_instant("from_ms")} AND hour < {_instant("hour_ms")} AND job_id IN ({_MINE})
UNION ALL
SELECT toInt64({{hour_ms:Int64}}) AS hour_ms, job_id, toDecimal128(cost_usd, 9) AS usd
FROM job_minutes FINAL
WHERE minute >= greatest({_instant("from_ms")}, {_instant("hour_ms")}) AND minute < {_instant("to_ms")} AND quantity != 0 AND job_id IN ({_MINE})"""
SPEND: Final = f"""
SELECT hour_ms AS at_ms, sum(usd) AS usd FROM ({_SPENT}) GROUP BY at_ms ORDER BY at_ms"""
DEAREST: Final = f"""
SELECT s.job_id AS job_id, s.usd AS usd, s.jobs AS jobs, j.owner AS owner, j.team AS team, j.state AS state
FROM (SELECT job_id, sum(usd) AS usd, count() OVER () AS jobs FROM ({_SPENT}) GROUP BY job_id ORDER BY usd DESC, job_id LIMIT {JOBS_MAX}) AS s
LEFT ANY JOIN (SELECT job_id, owner, team, state FROM jobs FINAL) AS j ON j.job_id = s.job_id
ORDER BY usd DESC, job_id"""
LEVELS: Final = """
SELECT alert_id, severity, status, toUnixTimestamp64Milli(started) AS started_ms, toUnixTimestamp64Milli(resolved) AS resolved_ms
FROM alerts FINAL WHERE alert_id IN {alerts:Array(String)}"""
ACTIONS: Final = f"""
SELECT job_id, rung, mode, state, attempt, toUnixTimestamp64Milli(time) AS time_ms, spent_usd, used_ratio, alert_id, detail, count() OVER () AS actions
FROM actions FINAL
WHERE budget = {{budget:String}} AND period_start = fromUnixTimestamp64Milli({{from_ms:Int64}}, 'UTC') AND (empty({{jobs:Array(String)}}) OR job_id IN {{jobs:Array(String)}})
ORDER BY time DESC, job_id LIMIT {ACTIONS_MAX}"""


def spend_parameters(row: Row) -> dict[str, object]:
    """What `SPEND` and `DEAREST` refer to, of a row of `streams.costs.budgets.USED`."""
    from_ms, to_ms = int(row["period_start_ms"]), int(row["time_ms"])
    jobs = jobs_of_run(row)
    match = {} if jobs else dict(row["match"])
    return {
        "jobs": jobs,
        "from_ms": from_ms,
        "to_ms": to_ms,
        "hour_ms": to_ms // HOUR_MS * HOUR_MS,
        "fields": list(match),
        "wanted": list(match.values()),
    }


def jobs_of_run(row: Row) -> list[str]:
    """The jobs of the run that a budget per run is about; of another budget none."""
    return sorted({row["subject_name"], *row["jobs"]}) if row["per"] == "run" else []


def step_of(first_ms: int, to_ms: int) -> int:
    """The step of the chart: hours, of more than a week days."""
    return HOUR_MS if to_ms - first_ms <= WEEK_MS else DAY_MS
