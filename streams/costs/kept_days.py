"""Days whose idle time and job minutes are kept ready: reading a month by minute takes long, and most days never change.

A stamp tells whether the rows of a day are still those that it was made from. Every text in its SQL is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, DAY_S
from streams.costs.parts import HourSpan, Parameters

#: Idle time as it is netted from minutes.
NETTED: Final = "netted_hours"
#: Of one statement over days that are kept: grouped by node and hour these are some 60 MiB.
KEPT_HOURS_MAX: Final = 240_000
#: As the view has them; a span of whole days prunes what it reads.
_DAYS: Final = """SELECT toUnixTimestamp(toDateTime(day, 'UTC')) AS day_s, hours, toUnixTimestamp(kept_from) AS kept_from_s, stamp, is_kept, job_hours, job_stamp, has_jobs
FROM balance_days<where> ORDER BY day_s SETTINGS final = 0"""


class Day(NamedTuple):
    """A day (UTC) with hours of nodes or jobs."""

    begin_s: int  # since 1970
    hours: int  # of nodes
    stamp: int
    is_kept: bool  # its idle time
    job_hours: int = 0
    job_stamp: int = 0
    has_jobs: bool = False  # its job minutes are kept


class KeptDays(NamedTuple):
    """The days that a span touches, in order: what of them is kept ready."""

    days: Sequence[Day]
    since_ms: int  # since 1970; no minute before it is kept. 0: not known


class SourcedSpan(NamedTuple):
    """A span of hours, and where the idle time of it is read: the text of a table, with its parameters."""

    span: HourSpan
    source: str
    parameters: Parameters


#: Idle time as it is kept: the text of a table, with the parameters `kept_days` and `stamps`.
KEPT_TABLE: Final = f"""(
    SELECT * EXCEPT (stamp, version) REPLACE (toInt128(used_gpu_milli_ms) AS used_gpu_milli_ms) FROM balance_hours FINAL
    WHERE node != '' AND hour >= toDateTime({{kept_days:Array(Int64)}}[1], 'UTC') AND hour < toDateTime({{kept_days:Array(Int64)}}[-1] + {DAY_S}, 'UTC')
        AND stamp = transform(toInt64(toUnixTimestamp(toStartOfDay(hour, 'UTC'))), {{kept_days:Array(Int64)}}, {{stamps:Array(Int64)}}, toInt64(0))
)"""


def days_sql(span: HourSpan) -> tuple[str, Parameters]:
    """The statement for the days that a span touches, of which minutes are kept: as `days_of` reads them."""
    bounds: list[str] = []
    parameters: Parameters = {}
    if span.begin_ms is not None:
        bounds.append("day >= toDate(toDateTime({first_s:Int64}, 'UTC'))")
        parameters["first_s"] = span.begin_ms // 1_000
    if span.end_ms is not None:
        bounds.append("day <= toDate(toDateTime({last_s:Int64}, 'UTC'))")
        parameters["last_s"] = (span.end_ms - 1) // 1_000
    where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
    return _DAYS.replace("<where>", where), parameters


def days_of(rows: Iterable[Sequence[object]]) -> KeptDays:
    """What the statement of `days_sql` has found."""
    found = [tuple(int(str(each)) for each in row) for row in rows]
    days = [
        Day(begin_s, hours, stamp, bool(kept), job_hours, job_stamp, bool(has_jobs))
        for begin_s, hours, _, stamp, kept, job_hours, job_stamp, has_jobs in found
    ]
    return KeptDays(days, found[0][2] * 1_000 if found else 0)


def parts_of(span: HourSpan, days: Iterable[Day], netted_max: int) -> list[SourcedSpan]:
    """The parts of a span, in order: without gaps, cut at midnight only.

    Args:
        span: The span.
        days: Days in order; those outside the span, and without hours of nodes, are passed over.
        netted_max: So many hours of nodes has a part that is netted, unless a single day has more.
    """
    parts: list[SourcedSpan] = []
    kept: list[Day] = []  # of the part that is made; none: it is netted
    begin_ms, held, next_ms = span.begin_ms, 0, span.begin_ms

    def end(end_ms: int | None) -> None:
        nonlocal begin_ms, held, kept
        of_kept: Parameters = {
            "kept_days": [day.begin_s for day in kept],
            "stamps": [day.stamp for day in kept],
        }
        parts.append(
            SourcedSpan(HourSpan(begin_ms, end_ms), *((KEPT_TABLE, of_kept) if kept else (NETTED, {})))
        )
        begin_ms, held, kept = end_ms, 0, []

    for day in (each for each in days if each.hours and _touches(span, each)):
        day_ms = day.begin_s * 1_000
        if kept and not (day.is_kept and day_ms == next_ms and held + day.hours <= KEPT_HOURS_MAX):
            end(next_ms)
        is_cut = day.is_kept or (held and held + day.hours > netted_max)
        if not kept and is_cut and (begin_ms is None or begin_ms < day_ms):
            end(day_ms)
        if day.is_kept:
            kept.append(day)
        held += day.hours
        next_ms = day_ms + DAY_MS
    if kept and (span.end_ms is None or (next_ms or 0) < span.end_ms):
        end(next_ms)
    end(span.end_ms)
    return parts


def _touches(span: HourSpan, day: Day) -> bool:
    begin_ms = day.begin_s * 1_000
    return (span.begin_ms is None or span.begin_ms < begin_ms + DAY_MS) and (
        span.end_ms is None or begin_ms < span.end_ms
    )
