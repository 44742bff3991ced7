"""The SQL of the rules about how the GPUs of jobs are used: `straggler`, `inefficient` and `spinning`."""

from __future__ import annotations

from typing import Final

from schemas.reserved import USERS_JOBS
from streams.engine.rules import inefficient, spinning
from streams.engine.rules.straggler import LAG_MS, SLOT_MS
from streams.worker.ledger_judges.held_jobs_sql import IN, PAID_JOBS

#: Slots end so long before whole five minutes, as samples come late.
_SLOT: Final = f"intDiv(toInt64(toUnixTimestamp(minute)) + {LAG_MS // 1000}, {SLOT_MS // 1000}) AS slot"
_WHAT_JOBS: Final = "JOBS"
_USE: Final = """sum(sampled_gpu_s) * 1000 AS sampled_ms, sum(productive_gpu_ms) AS productive_ms,
    sum(sm_sampled_gpu_s) * 1000 AS sm_sampled_ms, sum(sm_gpu_ms) AS sm_ms,
    sum(tensor_sampled_gpu_s) * 1000 AS tensor_sampled_ms, sum(tensor_gpu_ms) AS tensor_ms, max(power_w_max) AS power_w"""
#: Of some GPUs in some time: they were busy, and neither multiprocessors nor tensor cores did anything, as far as these are sampled.
_INACTIVE: Final = f"""productive_ms >= {spinning.BUSY_RATIO} * sampled_ms AND sm_ms <= {{sm_ratio:Float64}} * sm_sampled_ms
        AND tensor_ms <= {{tensor_ratio:Float64}} * tensor_sampled_ms"""
#: As far as all of it says: that is known by activity, or else by power.
_BY_WHICH: Final = "(max(sm_sampled_ms) + max(tensor_sampled_ms) > 0 OR min(power_w) <= {power_ratio:Float64} * max(power_w))"
_OF_NODE: Final = f"""
SELECT job_id, attempt, node, {_SLOT}, {_USE}
FROM job_usage_minutes FINAL PREWHERE {IN} AND {_WHAT_JOBS} WHERE sampled_gpu_s > 0 AND {USERS_JOBS}
GROUP BY job_id, attempt, node, slot"""

#: The slots of attempts in which a node did less than a share of what another one did, or was busy and did nothing.
UNEVEN: Final = f"""
SELECT job_id, slot FROM ({_OF_NODE.replace(_WHAT_JOBS, PAID_JOBS)})
GROUP BY job_id, attempt, slot
HAVING max(productive_ms / sampled_ms) >= {{others_ratio:Float64}}
    AND (min(productive_ms / sampled_ms) < {{share_of_others:Float64}} * max(productive_ms / sampled_ms)
        OR (countIf({_INACTIVE}) > 0 AND count() > 1 AND {_BY_WHICH}))"""

#: What the nodes of these jobs did in each slot.
BY_NODE: Final = _OF_NODE.replace(_WHAT_JOBS, "job_id IN {jobs:Array(String)}")

#: What these jobs paid for the GPUs of their nodes in each slot; node '' where no event says which they are.
PAID: Final = f"""
SELECT job_id, node, {_SLOT}, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano, sum(quantity) AS gpu_milli_ms
FROM job_minutes FINAL PREWHERE {IN} AND job_id IN {{jobs:Array(String)}}
WHERE component IN ('gpu', 'compute') AND quantity > 0 GROUP BY job_id, node, slot"""

#: Whose these jobs are, and what a control can ask of them.
JOBS: Final = """
SELECT job_id, owner, team, project, experiment, cluster, region, cloud, instance_type, gpu_type, purchase, labels, progress FROM jobs FINAL
WHERE job_id IN {jobs:Array(String)}"""

#: When alerts stood that name the cause for these jobs.
ALERTED: Final = """
SELECT subject_name, rule, toUnixTimestamp64Milli(started) AS from_ms, toUnixTimestamp64Milli(resolved) AS until_ms FROM alerts FINAL
WHERE subject_kind = 'job' AND subject_name IN {jobs:Array(String)} AND rule IN {rules:Array(String)}"""

#: Half hours end so long before whole half hours, as samples come late.
_HALF_HOUR: Final = f"intDiv(toInt64(toUnixTimestamp(minute)) + {inefficient.LAG_MS // 1000}, {inefficient.SLOT_MS // 1000}) AS slot"

#: What the GPUs of jobs did in each half hour in which they were busy, and hardly active by one measure.
LOW: Final = f"""
SELECT job_id, {_HALF_HOUR}, sum(sampled_gpu_s) * 1000 AS sampled_ms, sum(productive_gpu_ms) AS productive_ms,
    sum(sm_sampled_gpu_s) * 1000 AS sm_sampled_ms, sum(sm_gpu_ms) AS sm_ms,
    sum(tensor_sampled_gpu_s) * 1000 AS tensor_sampled_ms, sum(tensor_gpu_ms) AS tensor_ms
FROM job_usage_minutes FINAL PREWHERE {IN} AND {PAID_JOBS} WHERE sampled_gpu_s > 0 AND {USERS_JOBS}
GROUP BY job_id, slot
HAVING productive_ms >= {{busy_ratio:Float64}} * sampled_ms AND (
    (sm_sampled_ms > 0 AND sm_ms <= {{sm_ratio:Float64}} * sm_sampled_ms)
    OR (tensor_sampled_ms > 0 AND tensor_ms <= {{tensor_ratio:Float64}} * tensor_sampled_ms))"""

#: What these jobs paid for GPUs in each half hour.
PAID_BY_HALF_HOUR: Final = f"""
SELECT job_id, {_HALF_HOUR}, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano, sum(quantity) AS gpu_milli_ms
FROM job_minutes FINAL PREWHERE {IN} AND job_id IN {{jobs:Array(String)}}
WHERE component = 'gpu' AND unit = 'gpu_milli_ms' AND quantity > 0 GROUP BY job_id, slot"""

#: When these rules about jobs, of which alerts stood, held last before a span.
ENDED: Final = """
SELECT rule, subject_name, toUnixTimestamp64Milli(max(assumeNotNull(coalesce(quiet_since, resolved)))) AS until_ms FROM alerts FINAL
WHERE rule IN {rules:Array(String)} AND coalesce(quiet_since, resolved) >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND coalesce(quiet_since, resolved) <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')
GROUP BY rule, subject_name"""

#: The alerts of a rule that opened in a span: of which job and team.
OPENED: Final = """
SELECT subject_name, team, toUnixTimestamp64Milli(started) AS started_ms FROM alerts FINAL
WHERE rule = {rule:String} AND started >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND started < fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')"""

_BY_MINUTE: Final = f"""
SELECT job_id, attempt, intDiv(toInt64(toUnixTimestamp(minute)), 60) AS number, {_USE}
FROM job_usage_minutes FINAL PREWHERE {IN} AND {_WHAT_JOBS} WHERE sampled_gpu_s > 0 AND {USERS_JOBS}
GROUP BY job_id, attempt, number"""

#: Jobs that were busy and did nothing for so many minutes, by their activity or else by their power.
INACTIVE: Final = f"""
SELECT job_id FROM ({_BY_MINUTE.replace(_WHAT_JOBS, PAID_JOBS)})
GROUP BY job_id
HAVING countIf({_INACTIVE}) >= {{minutes:Float64}}
    AND {_BY_WHICH}"""

#: What the GPUs of these jobs did in each minute.
BY_MINUTE: Final = _BY_MINUTE.replace(_WHAT_JOBS, "job_id IN {jobs:Array(String)}")

#: What these jobs paid for GPUs in each minute.
PAID_BY_MINUTE: Final = f"""
SELECT job_id, intDiv(toInt64(toUnixTimestamp(minute)), 60) AS number, toInt64(sum(toDecimal128(cost_usd, 9)) * 1000000000) AS nano
FROM job_minutes FINAL PREWHERE {IN} AND job_id IN {{jobs:Array(String)}}
WHERE component = 'gpu' AND quantity > 0 GROUP BY job_id, number"""
