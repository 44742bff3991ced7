"""Job minutes of a span: days that are kept ready by day, and minutes of the rest.

Every text in its SQL is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from schemas.durations import DAY_MS, DAY_S
from streams.costs.kept_days import Day
from streams.costs.parts import HourSpan, Parameters

_TABLE: Final = """(
    SELECT day, job_id, attempt, node, component, sku, unit, quantity, cost_usd FROM job_days FINAL
    WHERE job_id != '' AND day >= toDateTime({job_days:Array(Int64)}[1], 'UTC') AND day <= toDateTime({job_days:Array(Int64)}[-1], 'UTC')
        AND stamp = transform(toInt64(toUnixTimestamp(day)), {job_days:Array(Int64)}, {job_stamps:Array(Int64)}, toInt64(0))
)"""


class KeptJobs(NamedTuple):
    """Where the job minutes of a span are read: from both, where neither is empty; they have no minute in common."""

    table: str  # the text of a table with a row for each `day`, attempt, node, component, SKU and unit
    rest: str  # the condition of `minute` for all other days
    parameters: Parameters


def kept_jobs(spans: Iterable[HourSpan], days: Iterable[Day]) -> KeptJobs:
    """Find where spans without gaps, of which both ends are bounded, are read; a day is whole in one of them, or read by minute."""
    wanted = [(span.begin_ms or 0, span.end_ms or 0) for span in spans]
    kept = [
        day
        for day in days
        if day.has_jobs
        and any(begin <= day.begin_s * 1_000 and day.begin_s * 1_000 + DAY_MS <= end for begin, end in wanted)
    ]
    parameters: Parameters = {}
    conditions: list[str] = []
    at_s, end_s = wanted[0][0] // 1_000, -(-wanted[-1][1] // 1_000)
    for begin_s, next_s in [*((day.begin_s, day.begin_s + DAY_S) for day in kept), (end_s, end_s)]:
        if at_s < begin_s:
            place = len(conditions)
            conditions.append(
                f"minute >= toDateTime({{rest_{place}:Int64}}, 'UTC') AND minute < toDateTime({{rest_end_{place}:Int64}}, 'UTC')"
            )
            parameters |= {f"rest_{place}": at_s, f"rest_end_{place}": begin_s}
        at_s = next_s
    if kept:
        parameters |= {
            "job_days": [day.begin_s for day in kept],
            "job_stamps": [day.job_stamp for day in kept],
        }
    return KeptJobs(_TABLE if kept else "", " OR ".join(f"({each})" for each in conditions), parameters)
