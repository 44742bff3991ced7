"""The SQL of the rule `unusual_length`: completed jobs, and for how long those that are paid have run."""

from __future__ import annotations

from typing import Final

from schemas.durations import HOUR_MS
from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.rules.unusual_length import HISTORY_MS

_TO: Final = "toDateTime(intDiv({to_ms:Int64}, 1000), 'UTC')"
_FROM: Final = "toDateTime(intDiv({from_ms:Int64}, 1000), 'UTC')"
_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
_ENDED: Final = "toUnixTimestamp64Milli(assumeNotNull(ended))"
_GPUS: Final = "toInt64(ifNull(gpu_count, 0) * 1000)"

COMPLETED: Final = f"""
SELECT job_id, team, experiment, wall_clock_ms AS wall_ms, {_ENDED} AS ended_ms, {_GPUS} AS gpu_milli FROM jobs FINAL
WHERE {USERS_JOBS} AND state = 'completed' AND wall_clock_ms > 0 AND ended IS NOT NULL
    AND ended_ms >= {{from_ms:Int64}} - {HISTORY_MS} AND ended_ms < {{to_ms:Int64}}"""

#: Jobs that were paid in the span, and for how long by its end.
RAN: Final = f"""
SELECT h.job_id AS job_id, j.team AS team, j.experiment AS experiment, h.wall_ms AS wall_ms, j.owner AS owner, j.project AS project,
    if(j.state IN ('completed', 'cancelled') AND j.ended IS NOT NULL, {_ENDED}, 0) AS ended_ms, {_GPUS} AS gpu_milli
FROM
(
    SELECT job_id, sum(wall_clock_ms) AS wall_ms FROM job_hours FINAL
    WHERE {USERS_JOBS} AND hour < {_TO}
        AND job_id IN (SELECT job_id FROM job_hours WHERE hour >= {_FROM} AND hour < {_TO} AND wall_clock_ms > 0)
    GROUP BY job_id
) AS h
INNER JOIN (SELECT job_id, owner, team, project, experiment, state, ended, gpu_count FROM jobs FINAL) AS j ON j.job_id = h.job_id"""

HOURS: Final = f"""
SELECT job_id, at_ms, wall_ms, usd FROM
(
    SELECT job_id, toInt64(toUnixTimestamp(hour)) * 1000 + {HOUR_MS} AS at_ms, hour, here,
        sum(here) OVER w AS wall_ms, sum(cost) OVER w AS usd
    FROM
    (
        SELECT job_id, hour, sum(wall_clock_ms) AS here, sum({_COST}) AS cost FROM job_hours FINAL
        WHERE job_id IN {{jobs:Array(String)}} AND hour < {_TO} GROUP BY job_id, hour
    )
    WINDOW w AS (PARTITION BY job_id ORDER BY hour ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
)
WHERE hour >= {_FROM} AND here > 0"""
