"""Where the cells of a span of hours begin: at midnights of UTC, or of a calendar of another zone or fiscal year.

Every text in its SQL is fixed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from schemas.durations import HOUR_MS
from streams.calendar import PLAIN, Calendar
from streams.costs.day_parts import Row, Steps
from streams.costs.parts import OWN_CELLS, HourSpan, Parameters, between, starts_of
from streams.costs.request import CostRequest, Metric, Period

#: Start of a period, from an hour; `all` has none.
_START: Final = {
    Period.hour: "hour",
    Period.day: "toDate(hour)",
    Period.week: "toMonday(hour)",
    Period.month: "toStartOfMonth(hour)",
}


class CellStarts(NamedTuple):
    """How the cells of a question are named."""

    sql: str | None  # the start of an hour's cell; None: there is one cell
    span: HourSpan
    parameters: Parameters  # that `sql` refers to
    calendar: Calendar

    @property
    def column(self) -> str:
        """The first column of a statement, with a comma; empty: there is one cell."""
        return "" if self.sql is None else f"{self.sql} AS period_start, "

    @property
    def keys(self) -> tuple[str, ...]:
        """Its name, where there is one."""
        return () if self.sql is None else ("period_start",)

    def named(self, rows: Iterable[Row]) -> list[Row]:
        """The rows with the start of their cell as people of that calendar write it, with its offset from UTC."""
        if not self.parameters:
            return list(rows)
        return [(self.calendar.iso(round(_instant(row[0]))), *row[1:]) for row in rows]


def cell_starts(
    per: Period, span: HourSpan, calendar: Calendar, hours: str = "node_hours"
) -> Steps[CellStarts]:
    """Ask, where the calendar is not that of UTC, for the first and last hour of a table, and say where cells begin.

    Args:
        per: The length of a cell.
        span: The hours that are asked for.
        calendar: The one that they are of.
        hours: The text of a table with a column `hour`.

    Raises:
        WrongUseError: The span has too many periods.
    """
    request = CostRequest(metric=Metric.total, per=per, calendar=calendar)
    if not request.has_own_cells:
        return CellStarts(_START.get(per), span, {}, PLAIN)
    bounds: Parameters = {}
    inside = " AND ".join(between(span, "hour", bounds)) or "1"
    sql = f"SELECT toInt64(toUnixTimestamp(min(hour))) AS first_s, toInt64(toUnixTimestamp(max(hour))) AS last_s FROM {hours} WHERE {inside}"
    ((first_s, last_s),) = (yield sql, bounds).rows()
    first_ms, last_ms = (int(str(each)) * 1_000 for each in (first_s, last_s))
    within = HourSpan(max(span.begin_ms or 0, first_ms), last_ms + HOUR_MS)
    return CellStarts(OWN_CELLS, within, starts_of(request, within), calendar)


def _instant(start: Any) -> float:
    return float(start.timestamp() * 1_000)
