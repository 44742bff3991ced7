"""The SQL of a question for costs, over `job_hours` (docs/cost_model.md, hours).

Every text in it is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Final, NamedTuple

from schemas.durations import HOUR_MS
from schemas.reserved import USERS_JOBS
from streams.costs.day_parts import MetricRows, Row, Steps
from streams.costs.idle import idle_steps
from streams.costs.job_parts import AskedPart, job_parts
from streams.costs.metrics import EXPECTED, METRICS, PROGRESS, QUALITY, SLO_COLUMNS, SUMS
from streams.costs.parts import (
    HAS_HOURS,
    HourSpan,
    Parameters,
    extent_ms_sql,
    hour_conditions,
    jobs_of,
    joins,
    level_columns,
    listed,
    names_in,
    parameters_of,
    period_of,
)
from streams.costs.periods import floor_ms, previous_ms, span_before_ms
from streams.costs.request import TRAFFIC_METRICS, CostRequest, Metric, Period
from streams.costs.traffic import traffic_sql

#: A change is explained from this many cells at most.
CELLS_MAX: Final = 100_000


_MONTH_OF: Final = "(SELECT toYYYYMM({edge}(hour)) FROM job_hours)"
_FIRST_MONTH, _LAST_MONTH = (_MONTH_OF.format(edge=edge) for edge in ("min", "max"))
_OUTER_MONTHS: Final = f"(toYYYYMM(hour) = {_FIRST_MONTH} OR toYYYYMM(hour) = {_LAST_MONTH})"
_SPAN: Final = f"""SELECT toUnixTimestamp(min(hour)) AS first_s, toUnixTimestamp(max(hour)) AS last_s,
    (SELECT toUnixTimestamp(max(billing_period_end)) FROM bill_loads FINAL WHERE status = 'loaded') AS billed_until_s,
    (SELECT toJSONString(arraySort(groupUniqArray(currency))) FROM fx_rates) AS currencies,
    toYYYYMM(min(hour)) = {_FIRST_MONTH} AND toYYYYMM(max(hour)) = {_LAST_MONTH} AS is_known
FROM job_hours FINAL WHERE {USERS_JOBS} AND {HAS_HOURS} AND {{months}}"""


def cost_sql(request: CostRequest, part: AskedPart) -> tuple[str, Parameters]:
    """The statement and its parameters, of any metric but M3, for the hours of a part.

    Its columns are `level_0`, `level_1`, ... in the order of `request.by`, `period_start`, `cost_usd`, the metric's.
    One row more than the limit says that there are more.
    """
    if request.metric in TRAFFIC_METRICS:
        return traffic_sql(request, part)
    span = part.span
    parameters = parameters_of(request, span)
    of = jobs_of(span, parameters) if part.has_own_jobs else ""
    metric = METRICS[request.metric]
    columns, more, sums = metric.columns, metric.apart, metric.sums
    if request.expected:
        columns += EXPECTED.columns
        sums += EXPECTED.sums
    if request.slo_usd_per_hour is not None:
        columns += SLO_COLUMNS
        parameters |= {"slo_usd": f"{request.slo_usd_per_hour:f}", "slo_target": float(request.slo_target)}
    for name, measure in ((QUALITY, request.quality), (PROGRESS, request.progress)):
        if measure:
            columns += name.columns
            more += name.apart
            parameters[name.parameter] = measure
    levels = level_columns(enumerate(request.by), parameters)
    apart = [*levels, *more, period_of(request)]
    where = hour_conditions(request, span, parameters)
    sql = f"""SELECT {listed(*(f"level_{place}" for place in range(len(levels))), "period AS period_start")}, sum(cost) AS cost_usd, {columns}
FROM
(
    SELECT {listed(*apart)},
        {listed(SUMS, *sums)}
    FROM (SELECT * FROM job_hours FINAL WHERE {where}) AS h{joins(*apart, *sums, of=of, is_compact=part.is_compact)}
    GROUP BY {names_in(apart)}
) AS cells
GROUP BY {names_in([*levels, period_of(request)])}
ORDER BY {listed("period", "cost_usd DESC", *(f"level_{place}" for place in range(len(levels))))}
LIMIT {{most:UInt64}}"""
    return sql, parameters


def extent_sql(*, of_nodes: bool) -> str:
    """The statement for the first and last day of which the store has hours of jobs, or of nodes."""
    table, users = ("node_hours", "1") if of_nodes else ("job_hours", USERS_JOBS)
    return f"""SELECT count() AS hours, toString(toDate(min(hour))) AS first, toString(toDate(max(hour))) AS last
FROM {table} FINAL WHERE {users}"""


class KnownSpan(NamedTuple):
    """What a store has costs of, s since 1970; 0: none."""

    first_s: int
    last_s: int
    billed_until_s: int
    currencies: tuple[str, ...] = ()  # of which a rate is loaded


def span_steps() -> Steps[KnownSpan]:
    """Ask for the first and last hour of which the store has costs of users' jobs, how far bills reach, and the currencies.

    The first and the last month with hours answer nearly always; where one of them has no costs, all hours are read.
    """
    for months in (_OUTER_MONTHS, "1"):
        answer = yield _SPAN.format(months=months), {}
        ((first_s, last_s, billed_until_s, codes, is_known),) = answer.rows()
        if is_known:
            break
    first, last, billed = (int(str(each or 0)) for each in (first_s, last_s, billed_until_s))
    return KnownSpan(first, last, billed, tuple(json.loads(str(codes))))


def cell_steps(request: CostRequest, begin_ms: int | None, end_ms: int | None) -> Steps[MetricRows]:
    """Ask for the cells of the hours [begin_ms, end_ms), with the columns of `cost_sql`; None: without bound."""
    if request.has_own_cells and (begin_ms is None or end_ms is None):
        # Periods of another calendar are counted out: from the first to the last hour that there is.
        ((first_ms, last_ms),) = (yield extent_ms_sql(request), {}).rows()
        begin_ms = int(str(first_ms)) if begin_ms is None else begin_ms
        end_ms = max(int(str(last_ms)) + HOUR_MS, begin_ms) if end_ms is None else end_ms
    if request.metric is Metric.m3:
        return (yield from idle_steps(request, HourSpan(begin_ms, end_ms)))
    names: tuple[str, ...] = ()
    rows: list[Row] = []
    for part in (yield from job_parts(request, HourSpan(begin_ms, end_ms))):
        answer = yield cost_sql(request, part)
        names = answer.names
        rows += answer.rows()
        if len(rows) > request.limit:
            break
    return MetricRows(names, rows)


def compared_steps(request: CostRequest) -> Steps[MetricRows]:
    """Ask for the cells before those asked for, of the same columns.

    Of a period that `from` or `to` cuts it reads the part of the period before that is as far from its start.
    """
    return cell_steps(replace(request, limit=CELLS_MAX), *previous_span(request))


def asked_steps(request: CostRequest) -> Steps[MetricRows]:
    """Ask for the cells asked for; with a comparison all of them: what a limit leaves out is not gone."""
    all_cells = replace(request, limit=CELLS_MAX) if request.compare else request
    return cell_steps(all_cells, request.from_ms, request.to_ms)


def previous_span(request: CostRequest) -> tuple[int | None, int | None]:
    """The hours with which those asked for are compared, ms; None: without bound."""
    begin_ms, end_ms = request.from_ms, request.to_ms
    if request.per is Period.all and begin_ms is not None and end_ms is not None:
        return span_before_ms(begin_ms, end_ms, request.calendar), begin_ms
    return _one_before(begin_ms, request), _one_before(end_ms, request)


def _one_before(at_ms: int | None, request: CostRequest) -> int | None:
    """The instant of the period before that is as far from its start, at most its end."""
    if at_ms is None:
        return None
    start_ms = floor_ms(at_ms, request)
    return max(min(previous_ms(start_ms, request) + at_ms - start_ms, start_ms), 0)
