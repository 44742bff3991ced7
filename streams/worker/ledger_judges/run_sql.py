"""The SQL of jobs that may be one training run: which broke off, what tells their run, and what their attempts lost."""

from __future__ import annotations

from typing import Final

from schemas.reserved import USERS_JOBS
from streams.engine.rules.hourly_sql import COST
from streams.engine.rules.lineage import BROKEN, RunJob

_BROKEN: Final = ", ".join(f"'{each}'" for each in BROKEN)
_FROM: Final = "fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')"
_TO: Final = "fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')"
#: What tells the run of a job: the fields of `RunJob`.
ABOUT_COLUMNS: Final = RunJob._fields
_ABOUT: Final = ", ".join(ABOUT_COLUMNS)

#: Jobs of which an attempt broke off in the span; of rows that were written again since, former versions count, so it is cheap.
BROKEN_JOBS: Final = f"""
SELECT DISTINCT job_id FROM attempts
WHERE state IN ({_BROKEN}) AND ended > {_FROM} AND ended <= {_TO} AND {USERS_JOBS} ORDER BY job_id"""

#: What tells the runs of these jobs.
ABOUT: Final = f"SELECT {_ABOUT} FROM jobs FINAL WHERE job_id IN {{jobs:Array(String)}}"

#: The same of all jobs of these owners that went on in the span.
OF_OWNERS: Final = f"""
SELECT {_ABOUT} FROM jobs FINAL
WHERE {USERS_JOBS} AND started <= {_TO} AND (ended IS NULL OR ended >= {_FROM}) AND owner IN {{owners:Array(String)}}"""

#: When these jobs went on.
ATTEMPTS: Final = """
SELECT job_id, attempt, toUnixTimestamp64Milli(assumeNotNull(started)) AS began_ms, toUnixTimestamp64Milli(ended) AS ended_ms,
    state, reason
FROM attempts FINAL WHERE job_id IN {jobs:Array(String)} AND started IS NOT NULL"""

#: What attempts of these jobs lost, of those that did, and what they cost.
LOST: Final = f"""
SELECT job_id, attempt, toInt64(sum(toDecimal128(lost_cost_usd, 9)) * 1000000000) AS nano, toInt64(sum({COST}) * 1000000000) AS cost_nano
FROM job_hours FINAL WHERE job_id IN {{jobs:Array(String)}} GROUP BY job_id, attempt HAVING nano != 0"""

#: When these jobs had alerts of their own.
ALERTED: Final = f"""
SELECT subject_name AS job_id, toUnixTimestamp64Milli(started) AS began_ms, toUnixTimestamp64Milli(resolved) AS over_ms
FROM alerts FINAL
WHERE rule = 'retry_loop' AND subject_name IN {{jobs:Array(String)}} AND started <= {_TO} AND (resolved IS NULL OR resolved >= {_FROM})"""
