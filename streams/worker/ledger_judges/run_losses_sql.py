"""The SQL of what training runs cost and lost: which may have lost much, and what their jobs, attempts and hours came to."""

from __future__ import annotations

from typing import Final

from schemas.durations import DAY_MS, NEVER_MS
from schemas.reserved import USERS_JOBS
from streams.engine.rules.hourly_sql import COST, END, FROM, IN, TO
from streams.engine.rules.lineage import BROKEN
from streams.engine.rules.run_losses import NAMING, QUIET_MS
from streams.worker.ledger_judges.run_sql import ABOUT_COLUMNS

#: So far back jobs are looked for that may be of one run with one that goes on.
BACK: Final = f"INTERVAL {30 * DAY_MS // 1000} SECOND"
_BROKEN: Final = ", ".join(f"'{each}'" for each in BROKEN)
_NAMING: Final = ", ".join(f"'{each}'" for each in NAMING)
_PAID: Final = f"SELECT job_id FROM job_hours WHERE {IN}"

#: Jobs whose attempts broke off and lost something, of those who have a job that is paid in the span; what they lost.
LOSING: Final = f"""
SELECT {", ".join(f"j.{each} AS {each}" for each in ABOUT_COLUMNS)}, l.nano AS nano
FROM
(
    SELECT {", ".join(ABOUT_COLUMNS)} FROM jobs FINAL
    WHERE {USERS_JOBS} AND (owner, team) IN (SELECT owner, team FROM jobs WHERE job_id IN ({_PAID}))
) AS j
INNER JOIN
(
    SELECT job_id, toInt64(sum(toDecimal128(lost_cost_usd, 9)) * 1000000000) AS nano FROM job_hours FINAL
    WHERE hour < {TO} AND job_id IN
    (
        SELECT job_id FROM attempts
        WHERE state IN ({_BROKEN}) AND ended < {TO} AND (ended >= {FROM} - {BACK} OR job_id IN ({_PAID}))
    )
    GROUP BY job_id HAVING nano > 0
) AS l ON l.job_id = j.job_id"""

#: Jobs of these owners that began in the days before the end of the span, or are paid in it, and when they went on.
OF_OWNERS: Final = f"""
SELECT {", ".join(ABOUT_COLUMNS)}, toUnixTimestamp64Milli(assumeNotNull(started)) AS began_ms,
    if(ended IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(ended))) AS ended_ms
FROM jobs FINAL
WHERE {USERS_JOBS} AND started < {TO} AND (started >= {FROM} - {BACK} OR job_id IN ({_PAID})) AND owner IN {{owners:Array(String)}}"""

ATTEMPTS: Final = f"""
SELECT job_id, attempt, state, if(started IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(started))) AS began_ms,
    if(ended IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(ended))) AS ended_ms
FROM attempts FINAL WHERE job_id IN {{jobs:Array(String)}}"""

#: What attempts lost, and of that their start-up, by the end of the hour.
LOST: Final = f"""
SELECT job_id, attempt, {END}, toInt64(sum(toDecimal128(lost_cost_usd, 9)) * 1000000000) AS nano,
    toInt64(sum(toDecimal128(starting_lost_cost_usd, 9)) * 1000000000) AS starting_nano
FROM job_hours FINAL WHERE job_id IN {{jobs:Array(String)}} AND hour < {TO}
GROUP BY job_id, attempt, hour HAVING nano != 0 OR starting_nano != 0"""

#: What jobs cost, by the end of the hour; what was a day before the span and earlier is one row.
COSTS: Final = f"""
SELECT job_id, greatest(end_ms, {{from_ms:Int64}} - {QUIET_MS}) AS at_ms, toInt64(sum(usd) * 1000000000) AS nano
FROM
(
    SELECT job_id, toInt64(toUnixTimestamp(hour)) * 1000 + 3600000 AS end_ms, {COST} AS usd FROM job_hours FINAL
    WHERE job_id IN {{jobs:Array(String)}} AND hour < {TO}
)
GROUP BY job_id, at_ms"""

#: When alerts fired that named attempts of these jobs.
LOOPS: Final = f"""
SELECT alert_id, rule, subject_name AS job_id, toUnixTimestamp64Milli(started) AS began_ms,
    if(resolved IS NULL, {NEVER_MS}, toUnixTimestamp64Milli(assumeNotNull(resolved))) AS over_ms
FROM alerts FINAL WHERE rule IN ({_NAMING}) AND subject_name IN {{jobs:Array(String)}} AND started < {TO}"""
