"""The SQL of the rule `team_ceiling`: what teams and their jobs pay, by five minutes."""

from __future__ import annotations

from typing import Final

from schemas.reserved import USERS_JOBS
from streams.worker.ledger_judges.held_jobs_sql import IN, PAID_JOBS

_BY_JOB: Final = f"""
SELECT job_id, intDiv(toInt64(toUnixTimestamp(minute)), 300) AS slot, sum(toDecimal128(cost_usd, 9)) AS usd
FROM job_minutes FINAL PREWHERE {IN} AND {PAID_JOBS}
WHERE component NOT IN ('network', 'storage') AND quantity > 0 AND {USERS_JOBS} GROUP BY job_id, slot"""

#: What the jobs of each team paid together, where that is so much.
BY_TEAM: Final = f"""
SELECT j.team AS team, m.slot AS slot, toInt64(sum(m.usd) * 1000000000) AS nano FROM ({_BY_JOB}) AS m
INNER JOIN (SELECT job_id, team FROM jobs FINAL WHERE team != '') AS j ON j.job_id = m.job_id
GROUP BY team, slot HAVING nano >= {{least_nano:Int64}}"""

#: What each job of these teams paid.
BY_JOB: Final = f"""
SELECT j.team AS team, m.job_id AS job_id, m.slot AS slot, toInt64(m.usd * 1000000000) AS nano FROM ({_BY_JOB}) AS m
INNER JOIN (SELECT job_id, team FROM jobs FINAL WHERE team IN {{teams:Array(String)}}) AS j ON j.job_id = m.job_id
WHERE nano > 0"""
