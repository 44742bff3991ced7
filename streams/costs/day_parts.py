"""Questions about nodes, asked in parts of whole days: few enough node-hours for the memory of one query.

Balancing a node takes memory for each minute of it; what is found of each part adds up exactly. Questions are steps: they
yield statements and are sent the results, so that those who wait for a store and those who must not block share them.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from operator import add
from typing import Any, Final, Generic, TypeAlias, TypeVar

from sinks.answer import QueryResult
from streams.costs.kept_days import KeptDays, days_of, days_sql, parts_of
from streams.costs.parts import HourSpan, Parameters

Made = TypeVar("Made")
Row: TypeAlias = "tuple[Any, ...]"
Statement: TypeAlias = "tuple[str, Parameters]"
#: Statements one after another, each sent its result; returns what is made of them.
Steps: TypeAlias = "Generator[Statement, QueryResult, Made]"

#: Of one part, unless a single day has more: some 60 MiB, of the 128 MiB that a query may take.
NODE_HOURS_MAX: Final = 24_000


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


def days_in(span: HourSpan) -> Steps[KeptDays]:
    """Ask for the days that a span touches: once for all that is asked about it, as it reads the version of each hour."""
    return days_of((yield days_sql(span)).rows())


def in_parts(
    span: HourSpan,
    known: KeptDays,
    statement: Callable[[HourSpan, str], Statement],
    enough: Callable[[int], bool] = lambda _rows: False,
) -> Steps[MetricRows]:
    """Ask for each part of a span, until there are enough rows; returns the rows of all parts, in order of time.

    `known` are the days of the span, or of a longer one. What is asked must be of the table that the statement is given: hours of nodes with their idle time. There is no hour before
    the first minute that is kept: years of hours without minutes are no part.
    """
    if known.days:
        span = HourSpan(max(span.begin_ms or 0, known.since_ms), span.end_ms)
    names: tuple[str, ...] = ()
    rows: list[Row] = []
    for part in parts_of(span, known.days, NODE_HOURS_MAX):
        sql, parameters = statement(part.span, part.source)
        answer = yield sql, parameters | part.parameters
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
