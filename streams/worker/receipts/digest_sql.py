"""The SQL of weekly digests: what the jobs of an owner or a team cost in a week and in the one before.

Only names of fixed lists go into a statement; values are bound as parameters.
"""

from __future__ import annotations

from typing import Final, Literal

from schemas.reserved import USERS_JOBS
from schemas.units import COMPONENTS
from streams.engine.rules.rule import DIGEST

SubjectKind = Literal["owner", "team"]

STORED: Final = "SELECT receipt_id FROM receipts FINAL WHERE receipt_id IN {ids:Array(String)}"

_COST: Final = " + ".join(f"toDecimal128({component}_cost_usd, 9)" for component in COMPONENTS)
_AT: Final = "toDateTime(intDiv({{{name}:Int64}}, 1000), 'UTC')"
_NOW: Final = f"hour >= {_AT.format(name='from_ms')}"
#: As drivers of costs do where there are only hours: a component is paid by GPU-time or by run time.
_CELLS: Final = ", ".join(
    f"('{component}', toDecimal128({component}_cost_usd, 9), toInt128({'gpu_milli_ms' if component == 'gpu' else 'wall_clock_ms'}))"
    for component in COMPONENTS
)


def _hours(kind: SubjectKind) -> str:
    jobs = f"SELECT job_id FROM jobs FINAL WHERE {kind} = {{name:String}} AND {USERS_JOBS}"
    span = f"hour >= {_AT.format(name='before_ms')} AND hour < {_AT.format(name='until_ms')}"
    return f"job_hours FINAL WHERE {span} AND job_id IN ({jobs})"


def totals_sql(kind: SubjectKind) -> str:
    """The statement of one row: the cost of both weeks, and figures of the later one."""
    return f"""
SELECT toString(sumIf({_COST}, {_NOW})) AS usd, toString(sumIf({_COST}, NOT ({_NOW}))) AS previous_usd,
    toString(sumIf(toDecimal128(lost_cost_usd, 9), {_NOW})) AS lost_usd, toString(sumIf(toDecimal128(gpu_cost_usd, 9), {_NOW})) AS gpu_usd,
    toString(sumIf(toInt128(sampled_gpu_ms), {_NOW})) AS sampled, toString(sumIf(toInt128(productive_gpu_ms), {_NOW})) AS productive,
    uniqExactIf(job_id, {_NOW}) AS jobs
FROM {_hours(kind)}"""


def drivers_sql(kind: SubjectKind) -> str:
    """The statement of the jobs' components whose cost changed most."""
    return f"""
SELECT job_id, cell.1 AS component, toString(sumIf(cell.2, {_NOW}) AS after) AS usd, toString(sumIf(cell.2, NOT ({_NOW})) AS before) AS previous_usd,
    toString(sumIf(cell.3, {_NOW})) AS amount, toString(sumIf(cell.3, NOT ({_NOW}))) AS previous_amount
FROM {_hours(kind).replace("job_hours FINAL", f"(SELECT *, arrayJoin([{_CELLS}]) AS cell FROM job_hours FINAL)")}
GROUP BY job_id, component HAVING after != before ORDER BY abs(after - before) DESC, job_id, component LIMIT {{most:UInt32}}"""


def small_alerts_sql(kind: SubjectKind) -> str:
    """The statement of the alerts of the later week that were about too few dollars to be sent, by rule."""
    at = "fromUnixTimestamp64Milli({{{name}:Int64}}, 'UTC')"
    return f"""
SELECT rule, count() AS alerts, arraySlice(arraySort(groupUniqArray(subject_name)), 1, {{most:UInt32}}) AS subjects
FROM alerts FINAL
WHERE severity = '{DIGEST}' AND {kind} = {{name:String}}
    AND started >= {at.format(name="from_ms")} AND started < {at.format(name="until_ms")}
GROUP BY rule ORDER BY alerts DESC, rule"""


def largest_sql(kind: SubjectKind) -> str:
    """The statement of the jobs that cost most in the later week."""
    return f"""
SELECT job_id, toString(sumIf({_COST}, {_NOW}) AS after) AS usd
FROM {_hours(kind)}
GROUP BY job_id HAVING after > 0 ORDER BY after DESC, job_id LIMIT {{most:UInt32}}"""
