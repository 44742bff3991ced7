"""The parts of the SQL of costs: periods, levels, conditions, joins.

Every text in it is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, TypeAlias

from schemas.reserved import USERS_JOBS
from streams.costs.metrics import COSTS
from streams.costs.request import (
    HOUR_LEVELS,
    JOB_LEVELS,
    LABEL,
    REASON,
    TRAFFIC_LEVELS,
    TRAFFIC_METRICS,
    CostRequest,
    Metric,
    Period,
)
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from sinks.query.wire import Parameter  # loads Arrow; not needed to show a command's help

Parameters: TypeAlias = "dict[str, Parameter]"

_PERIODS: Final = {
    Period.hour: "h.hour",
    Period.day: "toStartOfDay(h.hour, 'UTC')",
    Period.week: "toDateTime(toStartOfWeek(h.hour, 1, 'UTC'), 'UTC')",
    Period.month: "toDateTime(toStartOfMonth(h.hour, 'UTC'), 'UTC')",
    # One cell, or with a comparison one before and one after the instant.
    Period.all: "toDateTime(if(h.hour < toDateTime({split_s:Int64}, 'UTC'), {begin_s:Int64}, {split_s:Int64}), 'UTC')",
}
#: Of another calendar: the last start of a period that is not after the hour.
OWN_CELLS: Final = "toDateTime(roundDown(toInt64(toUnixTimestamp(hour)), {starts:Array(Int64)}), 'UTC')"
HAS_HOURS: Final = f"(wall_clock_ms != 0 OR queued_ms != 0 OR gpu_milli_ms != 0 OR sampled_gpu_ms != 0 OR {' + '.join(COSTS)} != 0)"
#: What may be joined to a row of hours, by the alias under which its columns are named; `{of}` says of which jobs.
_JOINS: Final = {
    "j": "(SELECT job_id, owner, team, project, experiment, labels, state, quality, progress FROM jobs FINAL{of}) AS j ON j.job_id = h.job_id",
    "a": "(SELECT job_id, attempt, state, reason FROM attempts FINAL{of}) AS a ON a.job_id = h.job_id AND a.attempt = h.attempt",
    "n": "(SELECT job_id, min(attempts.attempt) AS first_attempt, max(attempts.attempt) AS last_attempt FROM attempts FINAL{of} "
    "GROUP BY job_id) AS n ON n.job_id = h.job_id",
    "e": "(SELECT job_id, toStartOfHour(toDateTime(time, 'UTC')) AS hour, argMax(expected_usd_per_hour, (time, version)) AS expected "
    "FROM burn_rates WHERE expected_usd_per_hour > 0 GROUP BY job_id, hour) AS e ON e.job_id = h.job_id AND e.hour = h.hour",
}
#: All jobs in half the memory: a key of 16 bytes, of which two jobs have the same as good as never, and one text for each team.
_ALL_JOBS: Final = (
    "(SELECT sipHash128(job_id) AS job_key, "
    + ", ".join(f"toLowCardinality({level}) AS {level}" for level in JOB_LEVELS)
    + ", labels, state, quality, progress FROM jobs FINAL) AS j ON j.job_key = sipHash128(h.job_id)"
)


@dataclass(frozen=True)
class HourSpan:
    """The hours [begin_ms, end_ms) that are read, ms since 1970; None: without bound."""

    begin_ms: int | None
    end_ms: int | None


def listed(*parts: str) -> str:
    """The parts with commas."""
    return ", ".join(parts)


def names_in(expressions: Iterable[str]) -> str:
    """The names of `expression AS name`, with commas."""
    return listed(*(each.rpartition(" AS ")[2] for each in expressions))


def parameters_of(request: CostRequest, span: HourSpan) -> Parameters:
    """The parameters of bounds and periods.

    Raises:
        WrongUseError: The span has too many periods of the request's calendar.
    """
    found: Parameters = {"most": request.limit + 1}
    if request.has_own_cells:
        found |= starts_of(request, span)
    if request.per is Period.all:
        found |= {"begin_s": (span.begin_ms or 0) // 1000, "split_s": (request.from_ms or 0) // 1000}
    return found


def period_of(request: CostRequest) -> str:
    """The period of an hour, as `expression AS period`."""
    if request.has_own_cells:
        return f"{OWN_CELLS.replace('hour', 'h.hour')} AS period"
    return f"{_PERIODS[request.per]} AS period"


def starts_of(request: CostRequest, span: HourSpan) -> Parameters:
    """Where the periods of the request's calendar begin that have an hour in the span, as `OWN_CELLS` refers to them.

    Raises:
        WrongUseError: There are too many.
    """
    begin_ms = span.begin_ms or 0
    end_ms = max(begin_ms + 1, span.end_ms or begin_ms + 1)
    try:
        starts = request.calendar.starts(request.per, begin_ms, end_ms)
    except ValueError as wrong:
        raise WrongUseError(f"per: {wrong}") from wrong
    return {"starts": [start // 1000 for start in starts]}


def extent_ms_sql(request: CostRequest) -> str:
    """The statement for the first and last hour with a row that the request may be about, ms since 1970; 0: there is none."""
    table, users = ("node_hours", "1") if request.metric is Metric.m3 else ("job_hours", USERS_JOBS)
    return f"""SELECT toInt64(toUnixTimestamp(min(hour))) * 1000 AS first_ms, toInt64(toUnixTimestamp(max(hour))) * 1000 AS last_ms
FROM {table} WHERE {users}"""


def level_columns(levels: Iterable[tuple[int, str]], parameters: Parameters) -> list[str]:
    """`expression AS level_N` of levels with their places."""
    return [f"{_column(level, f'key_{place}', parameters)} AS level_{place}" for place, level in levels]


def names_by_level(where: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """The names asked for of each level: several of one level mean any of them, several levels all of them."""
    found: dict[str, list[str]] = {}
    for level, name in where:
        found.setdefault(level, []).append(name)
    return found


def hour_conditions(request: CostRequest, span: HourSpan, parameters: Parameters) -> str:
    """What a row of `job_hours` must fulfil: a row of zeros stands for none, the canary is no user's job."""
    apart = TRAFFIC_LEVELS if request.metric in TRAFFIC_METRICS else ()
    where = [each for each in request.where if each[0] not in apart]
    return " AND ".join([USERS_JOBS, HAS_HOURS, *_conditions(where, span, "hour", parameters)])


def minute_conditions(
    request: CostRequest, span: HourSpan, parameters: Parameters, time: str = "minute"
) -> str:
    """What a row of `job_minutes` must fulfil, on columns of its key alone; of another table with another column of time."""
    return " AND ".join([USERS_JOBS, *_conditions(request.where, span, time, parameters)])


def between(span: HourSpan, time: str, parameters: Parameters) -> Iterator[str]:
    """Yield the bounds of a column of time."""
    for bound, at_ms, sign in (("from_s", span.begin_ms, ">="), ("to_s", span.end_ms, "<")):
        if at_ms is not None:
            yield f"{time} {sign} toDateTime({{{bound}:Int64}}, 'UTC')"
            parameters[bound] = at_ms // 1000


def _conditions(
    where: Iterable[tuple[str, str]], span: HourSpan, time: str, parameters: Parameters
) -> Iterator[str]:
    yield from between(span, time, parameters)
    for place, (level, names) in enumerate(names_by_level(where).items()):
        column = _column(level, f"where_{place}", parameters).partition(".")[2]
        is_named = f"{column} IN {{names_{place}:Array(String)}}"
        parameters[f"names_{place}"] = [*names]
        if level in JOB_LEVELS or level.startswith(LABEL):
            is_named = f"job_id IN (SELECT job_id FROM jobs FINAL WHERE {is_named})"
        elif level == REASON:
            is_named = f"(job_id, attempt) IN (SELECT job_id, attempt FROM attempts FINAL WHERE {is_named})"
        yield is_named


def jobs_of(span: HourSpan, parameters: Parameters) -> str:
    """The condition that a job has an hour in a span."""
    bounds = " AND ".join(between(span, "hour", parameters)) or "1"
    return f" WHERE job_id IN (SELECT job_id FROM job_hours WHERE {bounds})"


def joins(*expressions: str, of: str = "", is_compact: bool = False) -> str:
    """The joins that the expressions need, and no other.

    Args:
        expressions: What refers to the tables by their aliases.
        of: The condition of `jobs_of`; empty: all jobs are looked up.
        is_compact: Whether memory matters more than time.
    """
    tables = {**_JOINS, "j": _ALL_JOBS} if is_compact else _JOINS
    return "".join(
        f"\n    LEFT ANY JOIN {table.format(of=of)}"
        for alias, table in tables.items()
        if any(re.search(rf"\b{alias}\.", each) for each in expressions)
    )


def _column(level: str, bound: str, parameters: Parameters) -> str:
    if level == "job":
        return "h.job_id"
    if level in HOUR_LEVELS or level in TRAFFIC_LEVELS:
        return f"h.{level}"
    if level in JOB_LEVELS:
        return f"j.{level}"
    if level == REASON:
        return "a.reason"
    parameters[bound] = level.removeprefix(LABEL)
    return f"j.labels[{{{bound}:String}}]"
