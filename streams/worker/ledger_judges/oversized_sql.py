"""The SQL of the rule `oversized`: the first rates of jobs, and of earlier jobs of their teams."""

from __future__ import annotations

from typing import Final

from schemas.durations import MINUTE_MS
from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.rules.oversized import HISTORY_MS, RATE_MS

_TRAFFIC: Final = ("network", "storage")
_RATE_COST: Final = " + ".join(
    f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS if component not in _TRAFFIC
)
_STARTED: Final = "toUnixTimestamp64Milli(started)"
#: Jobs that began in the span.
_BEGAN: Final = f"{USERS_JOBS} AND {_STARTED} >= {{from_ms:Int64}} AND {_STARTED} < {{to_ms:Int64}}"
_AFTER: Final = (
    f"arrayMap(n -> toDateTime(intDiv({_STARTED}, {MINUTE_MS}) * 60 + n * 60, 'UTC'), "
    f"range(1, {RATE_MS // MINUTE_MS + 1}))"
)

BEGAN: Final = f"""
SELECT j.job_id AS job_id, j.owner AS owner, j.team AS team, j.project AS project, j.experiment AS experiment,
    j.cluster AS cluster, j.region AS region, j.cloud AS cloud, j.instance_type AS instance_type, j.gpu_type AS gpu_type,
    j.purchase AS purchase, j.started_ms AS started_ms, j.declared AS declared, m.nano AS nano
FROM
(
    SELECT job_id, owner, team, project, experiment, cluster, region, cloud, instance_type, gpu_type, purchase,
        {_STARTED} AS started_ms, declared_usd_per_hour AS declared
    FROM jobs FINAL WHERE {_BEGAN}
) AS j
INNER JOIN
(
    SELECT job_id, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano FROM job_minutes FINAL
    PREWHERE minute >= toDateTime(intDiv({{from_ms:Int64}}, 1000), 'UTC')
        AND minute < toDateTime(intDiv({{to_ms:Int64}} + {RATE_MS + 2 * MINUTE_MS}, 1000), 'UTC')
    WHERE component NOT IN {_TRAFFIC}
        AND (job_id, minute) IN (SELECT job_id, arrayJoin({_AFTER}) FROM jobs FINAL WHERE {_BEGAN})
    GROUP BY job_id
) AS m ON m.job_id = j.job_id
WHERE nano > 0"""

#: Jobs of the teams of those, with the cost and the time of their first hours.
BEFORE: Final = f"""
SELECT j.job_id AS job_id, j.team AS team, j.experiment AS experiment, j.started_ms AS started_ms, h.nano AS nano, h.wall AS wall
FROM
(
    SELECT job_id, team, experiment, {_STARTED} AS started_ms FROM jobs FINAL
    WHERE {USERS_JOBS} AND started_ms >= {{from_ms:Int64}} - {HISTORY_MS} - 3600000 AND started_ms < {{to_ms:Int64}}
        AND team IN (SELECT team FROM jobs FINAL WHERE {_BEGAN})
) AS j
INNER JOIN
(
    SELECT job_id, toInt64(sum({_RATE_COST}) * 1000000000) AS nano, sum(wall_clock_ms) AS wall FROM job_hours FINAL
    WHERE hour >= toDateTime(intDiv({{from_ms:Int64}} - {HISTORY_MS}, 1000), 'UTC') - INTERVAL 2 HOUR
        AND hour < toDateTime(intDiv({{to_ms:Int64}}, 1000), 'UTC')
        AND (job_id, hour) IN
        (
            SELECT job_id, toStartOfHour(toDateTime(started, 'UTC')) FROM jobs FINAL WHERE started IS NOT NULL
        )
    GROUP BY job_id
) AS h ON h.job_id = j.job_id
WHERE nano > 0 AND wall > 0"""

#: Hours in which these jobs were paid, as the instants at which they end.
PAID: Final = """
SELECT DISTINCT job_id, toInt64(toUnixTimestamp(hour)) * 1000 + 3600000 AS at_ms FROM job_hours FINAL
WHERE job_id IN {jobs:Array(String)} AND wall_clock_ms > 0
    AND hour >= toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC') AND hour < toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"""
