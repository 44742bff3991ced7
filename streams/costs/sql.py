"""The SQL of a question for costs, over `job_hours` (docs/cost_model.md, hours).

Every text in it is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

import re
from typing import Final

from schemas.reserved import CANARY_JOB_PREFIX
from sinks.query.wire import Parameter
from streams.costs.metrics import COSTS, METRICS, SLO_COLUMNS, SUMS
from streams.costs.request import (
    HOUR_LEVELS,
    HOUR_MS,
    JOB_LEVELS,
    LABEL,
    REASON,
    CostRequest,
    Period,
)
from streams.errors import WrongUseError

_PERIODS: Final = {
    Period.hour: "h.hour",
    Period.day: "toStartOfDay(h.hour, 'UTC')",
    Period.week: "toDateTime(toStartOfWeek(h.hour, 1, 'UTC'), 'UTC')",
    Period.month: "toDateTime(toStartOfMonth(h.hour, 'UTC'), 'UTC')",
    # One cell, or with a comparison one before and one after the instant.
    Period.all: "toDateTime(if(h.hour < toDateTime({split_s:Int64}, 'UTC'), {begin_s:Int64}, {split_s:Int64}), 'UTC')",
}
#: A row of zeros stands for none; the canary is no user's job.
_COUNTS: Final = (
    f"NOT startsWith(job_id, '{CANARY_JOB_PREFIX}')",
    f"(wall_clock_ms != 0 OR queued_ms != 0 OR gpu_milli_ms != 0 OR {' + '.join(COSTS)} != 0)",
)
#: What may be joined to a row of hours, by the alias under which its columns are named.
_JOINS: Final = {
    "j": "(SELECT job_id, owner, team, project, experiment, labels, state FROM jobs FINAL) AS j ON j.job_id = h.job_id",
    "a": "(SELECT job_id, attempt, state, reason FROM attempts FINAL) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt",
    "n": "(SELECT job_id, min(attempts.attempt) AS first_attempt, max(attempts.attempt) AS last_attempt FROM attempts FINAL "
    "GROUP BY job_id) AS n ON n.job_id = h.job_id",
}

#: A change is explained from this many cells at most.
CELLS_MAX: Final = 100_000

Parameters = dict[str, Parameter]


def cost_sql(request: CostRequest, begin_ms: int | None, end_ms: int | None) -> tuple[str, Parameters]:
    """Return the statement and its parameters for the hours [begin_ms, end_ms); None: without bound.

    Its columns are `level_0`, `level_1`, ... in the order of `request.by`, `period_start`, `cost_usd`, the metric's.
    One row more than the limit says that there are more.
    """
    parameters: Parameters = {"most": request.limit + 1}
    if request.per is Period.all:
        parameters |= {"begin_s": (begin_ms or 0) // 1000, "split_s": (request.from_ms or 0) // 1000}
    metric = METRICS[request.metric]
    columns = metric.columns
    if request.slo_usd_per_hour is not None:
        columns += SLO_COLUMNS
        parameters |= {"slo_usd": f"{request.slo_usd_per_hour:f}", "slo_target": float(request.slo_target)}
    names = [f"level_{place}" for place in range(len(request.by))]
    levels = [
        f"{_level(level, f'key_{place}', parameters)} AS level_{place}"
        for place, level in enumerate(request.by)
    ]
    apart = [*levels, *metric.apart, f"{_PERIODS[request.per]} AS period"]
    where = " AND ".join(_conditions(request, begin_ms, end_ms, parameters))
    sql = f"""SELECT {_listed(*names, "period AS period_start")}, sum(cost) AS cost_usd, {columns}
FROM
(
    SELECT {_listed(*apart)},
        {_listed(SUMS, *metric.sums)}
    FROM (SELECT * FROM job_hours FINAL WHERE {where}) AS h{_joins(*apart, *metric.sums)}
    GROUP BY {_listed(*(each.rpartition(" AS ")[2] for each in apart))}
) AS cells
GROUP BY {_listed(*names, "period")}
ORDER BY {_listed("period", "cost_usd DESC", *names)}
LIMIT {{most:UInt64}}"""
    return sql, parameters


def driver_sql(request: CostRequest) -> tuple[str, Parameters]:
    """Return the statement for the cells of which drivers are made: levels (or job), whether before `from`, sums.

    Raises:
        WrongUseError: The request is without begin or end.
    """
    if request.from_ms is None or request.to_ms is None:
        raise WrongUseError("drivers: needs from and to")
    parameters: Parameters = {"split_s": request.from_ms // 1000, "most": CELLS_MAX + 1}
    levels = [
        f"{_level(level, f'key_{place}', parameters)} AS level_{place}"
        for place, level in enumerate(driver_levels(request))
    ]
    begin_ms = max(2 * request.from_ms - request.to_ms, 0)
    where = " AND ".join(_conditions(request, begin_ms, request.to_ms, parameters))
    sql = f"""SELECT {_listed(*levels, "h.hour < toDateTime({split_s:Int64}, 'UTC') AS is_before")},
    {_listed(*(f"sum(toDecimal128(h.{name}, 9)) AS {name}" for name in COSTS))},
    sum(toInt128(h.gpu_milli_ms)) AS gpu_milli_ms, sum(h.wall_clock_ms) AS wall_clock_ms
FROM (SELECT * FROM job_hours FINAL WHERE {where}) AS h{_joins(*levels)}
GROUP BY {_listed(*(each.rpartition(" AS ")[2] for each in levels), "is_before")}
LIMIT {{most:UInt64}}"""
    return sql, parameters


def driver_levels(request: CostRequest) -> tuple[str, ...]:
    """Return the levels by which a change is explained."""
    return request.by or ("job",)


def previous_span(request: CostRequest) -> tuple[int | None, int | None]:
    """Return the hours to read for a comparison: those asked for and the period before them."""
    begin_ms, end_ms = request.from_ms, request.to_ms
    if not request.compare or begin_ms is None:
        return begin_ms, end_ms
    if request.per is Period.all:
        return max(2 * begin_ms - (end_ms or begin_ms), 0), end_ms
    days = {Period.hour: 0, Period.day: 1, Period.week: 7, Period.month: 31}[request.per]
    return max(begin_ms - max(days * 24 * HOUR_MS, HOUR_MS), 0), end_ms


def _listed(*parts: str) -> str:
    return ", ".join(parts)


def _conditions(
    request: CostRequest, begin_ms: int | None, end_ms: int | None, parameters: Parameters
) -> list[str]:
    """Return what a row of hours must fulfil, on its own columns: the key's first, so that little is read."""
    found = list(_COUNTS)
    for bound, at_ms, sign in (("from_s", begin_ms, ">="), ("to_s", end_ms, "<")):
        if at_ms is not None:
            found.append(f"hour {sign} toDateTime({{{bound}:Int64}}, 'UTC')")
            parameters[bound] = at_ms // 1000
    for place, (level, name) in enumerate(request.where):
        is_named = (
            f"{_level(level, f'where_{place}', parameters).partition('.')[2]} = {{name_{place}:String}}"
        )
        parameters[f"name_{place}"] = name
        if level in JOB_LEVELS or level.startswith(LABEL):
            is_named = f"job_id IN (SELECT job_id FROM jobs FINAL WHERE {is_named})"
        elif level == REASON:
            is_named = f"(job_id, attempt) IN (SELECT job_id, attempt FROM attempts FINAL WHERE {is_named})"
        found.append(is_named)
    return found


def _joins(*expressions: str) -> str:
    """Return the joins that the expressions need, and no other."""
    return "".join(
        f"\n    LEFT ANY JOIN {table}"
        for alias, table in _JOINS.items()
        if any(re.search(rf"\b{alias}\.", each) for each in expressions)
    )


def _level(level: str, bound: str, parameters: Parameters) -> str:
    if level == "job":
        return "h.job_id"
    if level in HOUR_LEVELS:
        return f"h.{level}"
    if level in JOB_LEVELS:
        return f"j.{level}"
    if level == REASON:
        return "a.reason"
    parameters[bound] = level.removeprefix(LABEL)
    return f"j.labels[{{{bound}:String}}]"
