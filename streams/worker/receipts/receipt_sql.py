"""The SQL by which receipts are read: jobs that ended and have none yet, and what each of them cost.

Values are bound as parameters.
"""

from __future__ import annotations

from typing import Final

from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS

_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
_ENDED_MS: Final = "toUnixTimestamp64Milli(assumeNotNull(ended))"

#: Jobs that had a receipt lately: the end that stands may have to wait for a day, and is looked for although it is older then.
_RECENT: Final = """
        SELECT subject_name FROM receipts FINAL
        WHERE type = 'job.ended' AND toUnixTimestamp64Milli(time) > {until_ms:Int64} - 2 * {day_ms:Int64}"""

_ENDED_JOBS: Final = f"""
SELECT job_id, owner, team, project, experiment, state, attempts, toUnixTimestamp64Milli(started) AS started_ms,
    {_ENDED_MS} AS ended_ms, wall_clock_ms, toString(gpu_count) AS gpus, gpu_type, purchase
FROM jobs FINAL
WHERE ended IS NOT NULL AND state IN ('completed', 'cancelled', 'preempted', 'failed')"""

#: One job, if it has ended.
ENDED: Final = f"{_ENDED_JOBS} AND job_id = {{job:String}}"

#: Jobs that are over by `until_ms`, the earliest first: a failed or preempted one when no next attempt came. An end has one receipt,
#: and of one job so many in a day.
DUE: Final = f"""{_ENDED_JOBS} AND {USERS_JOBS} AND NOT (shard IN {{late:Array(UInt16)}})
    AND (ended_ms >= {{from_ms:Int64}} OR job_id IN ({_RECENT}
    )) AND owner IN {{owners:Array(String)}}
    AND ended_ms >= arrayElement({{since:Array(Int64)}}, indexOf({{owners:Array(String)}}, owner))
    AND ended_ms + if(state IN ('completed', 'cancelled'), 0, {{next_attempt_ms:Int64}}) <= {{until_ms:Int64}}
    AND (job_id, ended_ms) NOT IN
    (
        SELECT subject_name, {_ENDED_MS} AS known_ms FROM receipts FINAL
        WHERE type = 'job.ended' AND ended IS NOT NULL AND (known_ms >= {{from_ms:Int64}} OR subject_name IN ({_RECENT}
        ))
    )
    AND job_id NOT IN
    (
        SELECT subject_name FROM receipts FINAL
        WHERE type = 'job.ended' AND toUnixTimestamp64Milli(time) > {{until_ms:Int64}} - {{day_ms:Int64}}
        GROUP BY subject_name HAVING count() >= {{at_most:UInt32}}
    )
ORDER BY ended_ms, job_id LIMIT {{limit:UInt32}}"""

TOTALS: Final = f"""
SELECT job_id, toString(sum({_COST})) AS usd, toString(sum(toDecimal128(lost_cost_usd, 9))) AS lost_usd,
    toString(sum(toInt128(sampled_gpu_ms))) AS sampled, toString(sum(toInt128(productive_gpu_ms))) AS productive,
    max(unpriced_gpu_milli_ms) > 0 AS is_unpriced
FROM job_hours FINAL WHERE job_id IN {{jobs:Array(String)}} GROUP BY job_id"""

BROKEN: Final = """
SELECT job_id, countIf(state = 'preempted') AS preemptions, countIf(state = 'failed') AS failures
FROM attempts FINAL WHERE job_id IN {jobs:Array(String)} GROUP BY job_id"""

#: Expected rates are stored at whole minutes; those of a job that waits are 0.
EXPECTED: Final = """
SELECT job_id, count() AS minutes, toString(sum(toDecimal128(expected_usd_per_hour, 9))) AS usd
FROM burn_rates FINAL
WHERE job_id IN {jobs:Array(String)} AND expected_usd_per_hour > 0 AND toUnixTimestamp64Milli(time) % 60000 = 0
    AND toUnixTimestamp64Milli(time) <= arrayElement({ended:Array(Int64)}, indexOf({jobs:Array(String)}, job_id))
GROUP BY job_id"""
