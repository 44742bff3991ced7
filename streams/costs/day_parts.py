"""Questions about nodes, asked in parts of whole days: few enough node-hours for the memory of one query.

Balancing a node takes memory for each minute of it; what is found of each part adds up exactly. Questions are steps: they
yield statements and are sent the results, so that those who wait for a store and those who must not block share them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from itertools import pairwise
from operator import add
from typing import Any, Final, Generic, TypeAlias, TypeVar

from sinks.answer import QueryResult
from streams.costs.parts import HourSpan, Parameters, between

Made = TypeVar("Made")
Row: TypeAlias = "tuple[Any, ...]"
Statement: TypeAlias = "tuple[str, Parameters]"
#: Statements one after another, each sent its result; returns what is made of them.
Steps: TypeAlias = "Generator[Statement, QueryResult, Made]"

#: Of one part, unless a single day has more: some 60 MiB, of the 128 MiB that a query may take.
NODE_HOURS_MAX: Final = 24_000
#: The day of the first minute that is kept: nothing is known of the balance of hours before it. 0: there is no minute.
_KEPT_FROM: Final = """toInt64(toUnixTimestamp(toStartOfDay((SELECT minIf(first, first != toDateTime(0, 'UTC')) FROM (
    SELECT min(minute) AS first FROM node_minutes UNION ALL SELECT min(minute) FROM job_minutes UNION ALL SELECT min(minute) FROM unattributed_minutes
)), 'UTC')))"""
_DAYS: Final = """SELECT toInt64(toUnixTimestamp(toStartOfDay(hour, 'UTC'))) AS day_s, count() AS hours, <kept from> AS kept_from_s
FROM node_hours FINAL WHERE {where} GROUP BY day_s HAVING day_s >= kept_from_s ORDER BY day_s""".replace(
    "<kept from>", _KEPT_FROM
)


@dataclass(frozen=True)
class Done(Generic[Made]):
    """What is made of all results."""

    made: Made


@dataclass(frozen=True)
class MetricRows:
    """Rows under the names of their columns."""

    names: tuple[str, ...]
    rows: list[Row]

    def records(self) -> list[dict[str, Any]]:
        """The rows as objects, by the names of their columns."""
        return [dict(zip(self.names, row, strict=True)) for row in self.rows]


def parts_of(span: HourSpan, days: Iterable[tuple[int, int]]) -> list[HourSpan]:
    """The parts of a span, in order: without gaps, cut at midnight only.

    Args:
        span: The span.
        days: Days (UTC) in order: the second since 1970 on which it begins, and how many node-hours it has.
    """
    bounds, held = [span.begin_ms], 0
    for day_s, hours in days:
        if held and held + hours > NODE_HOURS_MAX:
            bounds.append(day_s * 1000)
            held = 0
        held += hours
    return [HourSpan(*part) for part in pairwise([*bounds, span.end_ms])]


def in_parts(
    span: HourSpan,
    statement: Callable[[HourSpan], Statement],
    enough: Callable[[int], bool] = lambda _rows: False,
) -> Steps[MetricRows]:
    """Ask for each part of a span, until there are enough rows; returns the rows of all parts, in order of time.

    What is asked must be of `node_hour_balance`, which has no hour before the first minute that is kept: years of hours without
    minutes are no part.
    """
    parameters: Parameters = {}
    where = " AND ".join(["1", *between(span, "hour", parameters)])
    found = yield _DAYS.format(where=where), parameters
    days = [tuple(int(str(each)) for each in row) for row in found.rows()]
    if days:
        kept_from_ms = days[0][2] * 1000
        span = HourSpan(max(span.begin_ms or 0, kept_from_ms), span.end_ms)
    names: tuple[str, ...] = ()
    rows: list[Row] = []
    for part in parts_of(span, ((day_s, hours) for day_s, hours, _ in days)):
        answer = yield statement(part)
        names = answer.names
        rows.extend(answer.rows())
        if enough(len(rows)):
            break
    return MetricRows(names, rows)


def added(rows: Iterable[Row], width: int) -> list[Row]:
    """One row for each key, which is the first `width` columns: with the sum of each column that follows."""
    found: dict[Row, Row] = {}
    for row in rows:
        key, values = row[:width], row[width:]
        found[key] = tuple(map(add, found[key], values)) if key in found else values
    return [(*key, *values) for key, values in found.items()]


def advanced(steps: Steps[Made], result: QueryResult | None) -> Statement | Done[Made]:
    """The next statement, given the result of the one before; None for the first."""
    try:
        return next(steps) if result is None else steps.send(result)
    except StopIteration as end:
        return Done(end.value)


def answered(steps: Steps[Made], ask: Callable[[str, Parameters], QueryResult]) -> Made:
    """Ask all statements; returns what is made of the results."""
    asked = advanced(steps, None)
    while not isinstance(asked, Done):
        asked = advanced(steps, ask(*asked))
    return asked.made
