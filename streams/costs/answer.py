"""Rows of costs as objects, with the change against the period before.

It computes no cost: it finds the cell before each cell and subtracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.counting import how_many
from schemas.durations import DATETIME_END_MS, HOUR_MS
from streams.costs.currency import RATE_COLUMNS, add_converted, rate_day, rates_steps
from streams.costs.day_parts import Steps
from streams.costs.parts import extent_ms_sql
from streams.costs.periods import next_ms, previous_ms
from streams.costs.request import ROWS_MAX, CostRequest, Metric, Period
from streams.costs.sql import CELLS_MAX, asked_steps, compared_steps, previous_span, span_steps
from streams.costs.unpriced_gpus import MENDS, types_said
from streams.errors import WrongUseError

Row = dict[str, Any]
#: Of a comparison: the same column of the period before.
PREVIOUS: Final = "previous_"
#: How long a day, week or month of another calendar is: on the days on which clocks change 23 or 25 hours.
PERIOD_HOURS: Final = "period_hours"
_LAST_MS: Final = DATETIME_END_MS - HOUR_MS
_CHANGES: Final = (f"{PREVIOUS}cost_usd", "change_usd", "change_ratio")
#: Of the total: a column of GPU-hours.
UNPRICED_HOURS: Final = "unpriced_gpu_h"
_THOUSANDTH: Final = Decimal("0.001")
_ZERO_USD: Final = Decimal("0.000000000")


class CostRows(NamedTuple):
    """The cells that were asked for."""

    columns: tuple[str, ...]
    rows: list[Row]
    is_cut: bool  # there are more than the limit
    left_out: int | None = 0  # how many more; None: that was not counted
    note: str = ""  # what is missing
    has_before: bool = True  # whether there is a time before that asked for


def cost_steps(request: CostRequest, now_ms: int = _LAST_MS) -> Steps[CostRows]:
    """Ask for what was asked, and first for the period before, where the request compares with it.

    Args:
        request: What was asked.
        now_ms: When, ms since 1970: a period that has not ended then has the newest rate of its currency; without it all have ended.
    """
    before: Iterable[Sequence[object]] = ()
    begun_ms = 0
    if request.compare:
        begun_ms = yield from _begun_steps(request)
        before = (yield from compared_steps(request)).rows
    found = yield from asked_steps(request)
    made = cost_rows(request, found.names, found.rows, before, begun_ms)
    return (yield from _converted(request, made, now_ms)) if request.currency else made


def unpriced_steps(request: CostRequest, found: CostRows) -> Steps[str]:
    """Ask, where rows have GPU-hours without a price, of which types of GPU; a sentence with what mends it, else nothing."""
    if not any(row.get(UNPRICED_HOURS) for row in found.rows):
        return ""
    by_type = replace(
        request, by=("gpu_type",), per=Period.all, compare=False, drivers=0, currency="", limit=ROWS_MAX
    )
    rows = (yield from cost_steps(by_type)).rows
    hours = [(str(row["gpu_type"]), _decimal(row[UNPRICED_HOURS] or 0).quantize(_THOUSANDTH)) for row in rows]
    total = sum((each for _, each in hours), Decimal(0))
    return f"{total:,f} GPU-hours have no price, and are not in the cost: {types_said(hours)}; {MENDS}"


def _begun_steps(request: CostRequest) -> Steps[int]:
    """Ask for the first hour that has costs of what the request is about, ms since 1970; 0: none has."""
    if request.metric is not Metric.m3:
        return (yield from span_steps()).first_s * 1000
    ((first_ms, _),) = (yield extent_ms_sql(request), {}).rows()
    return int(str(first_ms))


def _converted(request: CostRequest, found: CostRows, now_ms: int) -> Steps[CostRows]:
    """Set the cost in a currency beside that in dollars: of each cell at the rate of its period, by `rate_day`."""
    of_period: dict[Any, list[Row]] = {}
    for row in found.rows:
        of_period.setdefault(row["period_start"], []).append(row)
    last = None
    if of_period and request.per is Period.all and request.to_ms is None:
        # Without an end the newest costs are the end.
        last = request.calendar.date_of(max((yield from span_steps()).last_s * 1000, 0))
    today = request.calendar.date_of(now_ms)
    days = {start: last or rate_day(*_days(request, start), today) for start in of_period}
    if days:
        rates = yield from rates_steps(request.currency, min(days.values()), max(days.values()))
        for start, rows in of_period.items():
            add_converted(rows, "cost_usd", rates.on(days[start]), "cost")
    missing = sum(row["rate_day"] is None for row in found.rows)
    note = f"{how_many(missing, 'row has', 'rows have')} no rate of {request.currency} of the week by their day; `trainfare fx load` loads rates"
    notes = [each for each in (found.note, note if missing else "") if each]
    return found._replace(columns=(*found.columns, "cost", *RATE_COLUMNS), note="; ".join(notes))


def _days(request: CostRequest, start: str | None) -> tuple[date, date]:
    """The first and the last day of a cell, by the request's calendar."""
    if request.per is Period.all:
        start_ms, end_ms = request.from_ms or 0, request.to_ms or _LAST_MS
    else:
        start_ms = _ms(datetime.fromisoformat(str(start)))
        end_ms = next_ms(start_ms, request)
        end_ms = end_ms if request.to_ms is None else min(end_ms, request.to_ms)
    return request.calendar.date_of(start_ms), request.calendar.date_of(end_ms - 1)


def cost_rows(
    request: CostRequest,
    names: Sequence[str],
    rows: Iterable[Sequence[object]],
    before: Iterable[Sequence[object]] = (),
    begun_ms: int = 0,
) -> CostRows:
    """The cells asked for, by period; with a comparison also those of which only the period before has costs.

    Of a period that nothing precedes nothing is said of a change: its cost is no rise.

    Args:
        request: What was asked.
        names: The columns of the rows of `asked_steps`.
        rows: That result.
        before: The rows of `compared_steps`, where the request compares.
        begun_ms: The first hour with costs at all, ms since 1970.

    Raises:
        WrongUseError: There are too many cells to compare.
    """
    columns = (*request.by, *names[len(request.by) :])
    cells: list[Row] = [dict(zip(columns, row, strict=True)) for row in rows]
    for cell in cells:
        cell["period_start"] = _utc(cell["period_start"])
    note = ""
    if request.compare:
        columns, cells = _compared(request, columns, cells, before, begun_ms)
        note = _uncompared(request, cells, begun_ms)
    if request.has_own_cells:
        columns = (*columns, PERIOD_HOURS)
        for cell in cells:
            start_ms = _ms(cell["period_start"])
            cell[PERIOD_HOURS] = (next_ms(start_ms, request) - start_ms) // HOUR_MS
    is_cut = len(cells) > request.limit
    # A comparison reads all cells; without one, no more than one beyond the limit was asked for.
    left_out = len(cells) - request.limit if request.compare else None
    del cells[request.limit :]
    for cell in cells:
        is_open = request.per is Period.all and request.from_ms is None
        cell["period_start"] = None if is_open else request.calendar.iso(_ms(cell["period_start"]))
        for name in ("peak_hour", f"{PREVIOUS}peak_hour"):
            if cell.get(name) is not None:
                cell[name] = request.calendar.iso(_ms(_utc(cell[name])))
    has_before = request.from_ms is None or request.from_ms > begun_ms or not begun_ms
    return CostRows(columns, cells, is_cut, left_out if is_cut else 0, note, has_before)


def _uncompared(request: CostRequest, cells: Sequence[Row], begun_ms: int) -> str:
    """That of the first cells all or a part of the time before is not there; empty: it is."""
    begun = f"costs begin at {request.calendar.iso(begun_ms)}"
    if missing := sum(cell["change_usd"] is None for cell in cells):
        which = "" if missing == len(cells) else f"{how_many(missing, 'row is', 'rows are')} "
        return f"{which}not compared: {begun}, there is no time before"
    starts = {_ms(cell["period_start"]) for cell in cells}
    if request.per is Period.all:
        is_part = bool(starts) and (previous_span(request)[0] or 0) < begun_ms
    else:
        is_part = any(previous_ms(start_ms, request) < begun_ms for start_ms in starts)
    return f"the time before is not all there: {begun}" if is_part else ""


def _decimal(value: object) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _compared(
    request: CostRequest,
    columns: Sequence[str],
    cells: list[Row],
    rows: Iterable[Sequence[object]],
    begun_ms: int,
) -> tuple[tuple[str, ...], list[Row]]:
    width = len(request.by)
    before: dict[tuple[Any, ...], Sequence[object]] = {}
    for row in rows:
        # The levels, where the period starts, the cost, the metric's columns.
        start = _utc(row[width])
        if request.per is Period.all:
            after = _instant(request.from_ms or 0)
        else:
            after = _instant(next_ms(_ms(start), request))
        before[after, *row[:width]] = row[width + 1 :]
    if max(len(cells), len(before)) > CELLS_MAX:
        raise WrongUseError(f"compare: more than {CELLS_MAX} cells; ask for fewer levels, or a longer period")
    known = {(cell["period_start"], *(cell[level] for level in request.by)): cell for cell in cells}
    newest = max((cell["period_start"] for cell in cells), default=_instant(0))
    for key in before.keys() - known.keys():
        # Without an end nothing is known to be gone after the newest costs.
        if request.to_ms is not None or key[0] <= newest:
            known[key] = dict.fromkeys(columns) | dict(zip(("period_start", *request.by), key, strict=True))
            known[key]["cost_usd"] = _ZERO_USD
    metric = columns[width + 2 :]
    begun = _instant(begun_ms)
    found = [
        _beside(known[key], metric, before.get(key), has_before=key[0] > begun)
        for key in sorted(known, key=lambda key: _order(key, known[key]))
    ]
    beside = [each for name in metric for each in (name, PREVIOUS + name)]
    return (*columns[: width + 2], *beside, *_CHANGES), found


def _beside(cell: Row, metric: Sequence[str], before: Sequence[object] | None, *, has_before: bool) -> Row:
    """A cell with the cost and the metric of the one before it.

    Without one its cost was 0, or is not known where there is no time before; and it had no metric.
    """
    cost, *values = (_ZERO_USD, *([None] * len(metric))) if before is None else before
    before_usd = _decimal(cost)
    change_usd = cell["cost_usd"] - before_usd
    found = {name: value for name, value in cell.items() if name not in metric}
    for name, value in zip(metric, values, strict=True):
        found |= {name: cell[name], PREVIOUS + name: value}
    if not has_before:
        return found | dict.fromkeys(_CHANGES)
    ratio = float(change_usd / before_usd) if before_usd else None
    return found | dict(zip(_CHANGES, (before_usd, change_usd, ratio), strict=True))


def _order(key: tuple[Any, ...], cell: Row) -> tuple[Any, ...]:
    """Sort as the statements do: by period, the largest cost first, then by names."""
    return key[0], -cell["cost_usd"], *map(str, key[1:])


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _utc(at: Any) -> datetime:
    found: datetime = at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    return found


def _ms(at: datetime) -> int:
    return round(at.timestamp() * 1000)
