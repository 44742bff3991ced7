"""Rows of costs as objects, with the change against the period before.

It computes no cost: it finds the cell before each cell and subtracts.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NamedTuple

from schemas.tables import COMPONENTS
from streams.costs.drivers import CostCell, drivers_of
from streams.costs.request import CostRequest, Period
from streams.costs.sql import CELLS_MAX, driver_levels
from streams.errors import WrongUseError

Row = dict[str, Any]
#: What a component's price is per; of the others, the time that jobs ran.
_QUANTITIES: Final = {"gpu": "gpu_milli_ms"}
_ZERO_USD: Final = Decimal("0.000000000")
_STEP: Final = {
    Period.hour: timedelta(hours=1),
    Period.day: timedelta(days=1),
    Period.week: timedelta(days=7),
}


class CostRows(NamedTuple):
    """The cells that were asked for."""

    columns: tuple[str, ...]
    rows: list[Row]
    is_cut: bool  # there are more than the limit


def cost_rows(request: CostRequest, names: Sequence[str], rows: Iterable[Sequence[object]]) -> CostRows:
    """Return the cells asked for, by period; with a comparison also those of which only the period before has costs.

    Args:
        request: What was asked.
        names: The columns of the result of `cost_sql` over the span of `previous_span`.
        rows: That result.
    """
    columns = (*request.by, *names[len(request.by) :])
    cells: list[Row] = [dict(zip(columns, row, strict=True)) for row in rows]
    is_cut = len(cells) > request.limit
    for cell in cells:
        cell["period_start"] = _utc(cell["period_start"])
    if request.compare:
        cells = list(_compared(request, columns, cells))
        columns = (*columns, "previous_cost_usd", "change_usd", "change_ratio")
    for cell in cells:
        is_open = request.per is Period.all and request.from_ms is None
        cell["period_start"] = None if is_open else _rfc3339(cell["period_start"])
        if cell.get("peak_hour") is not None:
            cell["peak_hour"] = _rfc3339(_utc(cell["peak_hour"]))
    return CostRows(columns, cells[: request.limit], is_cut or len(cells) > request.limit)


def driver_rows(request: CostRequest, names: Sequence[str], rows: Sequence[Sequence[object]]) -> CostRows:
    """Return the drivers of the change between the span asked for and the one before it, the largest first.

    Args:
        request: What was asked.
        names: The columns of the result of `driver_sql`.
        rows: That result.

    Raises:
        WrongUseError: There are too many cells.
    """
    if len(rows) > CELLS_MAX:
        raise WrongUseError(f"drivers: more than {CELLS_MAX} cells; name levels with by, or a shorter time")
    levels = driver_levels(request)
    spans: tuple[dict[tuple[object, ...], CostCell], dict[tuple[object, ...], CostCell]] = ({}, {})
    for row in rows:
        key, cell = tuple(row[: len(levels)]), dict(zip(names, row, strict=True))
        for component in COMPONENTS:
            quantity = cell[_QUANTITIES.get(component, "wall_clock_ms")]
            cost_nano = int(_decimal(cell[f"{component}_cost_usd"]).scaleb(9))
            if cost_nano:
                spans[not cell["is_before"]][(*key, component)] = CostCell(cost_nano, int(str(quantity)))
    columns = (
        *levels,
        "component",
        "previous_cost_usd",
        "cost_usd",
        "change_usd",
        "price_effect_usd",
        "quantity_effect_usd",
    )
    found = []
    for driver in drivers_of(*spans, request.drivers):
        names_of = driver.key or (*([None] * len(levels)), "others")
        nano = (driver.before_nano, driver.after_nano, driver.change_nano, *driver.effects)
        found.append(dict(zip(columns, (*names_of, *map(_usd, nano)), strict=True)))
    return CostRows(columns, found, is_cut=False)


def _usd(nano: int) -> Decimal:
    return Decimal(nano).scaleb(-9)


def _decimal(value: object) -> Decimal:
    return value if isinstance(value, Decimal) else Decimal(str(value))


def _compared(request: CostRequest, columns: Sequence[str], cells: list[Row]) -> Iterator[Row]:
    begin = datetime.min.replace(tzinfo=UTC)
    if request.from_ms is not None:
        begin = floor_of(_instant(request.from_ms), request.per)
    known = {(cell["period_start"], *(cell[level] for level in request.by)): cell for cell in cells}
    newest = max((cell["period_start"] for cell in cells), default=begin)
    wanted = {key for key in known if key[0] >= begin}
    for start, *rest in known:
        after = _next(start, request)
        if begin <= after <= newest:
            wanted.add((after, *rest))
    for key in sorted(wanted, key=lambda key: (key[0], *map(str, key[1:]))):
        cell = known.get(key)
        if cell is None:
            cell = dict.fromkeys(columns) | dict(zip(("period_start", *request.by), key, strict=True))
            cell["cost_usd"] = _ZERO_USD
        before = known.get((_previous(key[0], request), *key[1:]))
        before_usd = before["cost_usd"] if before is not None else _ZERO_USD
        change_usd = cell["cost_usd"] - before_usd
        ratio = float(change_usd / before_usd) if before_usd else None
        yield {**cell, "previous_cost_usd": before_usd, "change_usd": change_usd, "change_ratio": ratio}


def floor_of(at: datetime, per: Period) -> datetime:
    """Return the first instant of the period in which a whole hour lies."""
    if per in (Period.all, Period.hour):
        return at
    day = at.replace(hour=0)
    if per is Period.month:
        return day.replace(day=1)
    return day - timedelta(days=day.weekday()) if per is Period.week else day


def _instant(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC)


def _utc(at: datetime) -> datetime:
    return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)


def _rfc3339(at: datetime) -> str:
    return at.strftime("%Y-%m-%dT%H:%M:%SZ")


def _next(start: datetime, request: CostRequest) -> datetime:
    if request.per is Period.all:
        return _instant(request.from_ms or 0)
    if request.per is Period.month:
        return (start + timedelta(days=32)).replace(day=1)
    return start + _STEP[request.per]


def _previous(start: datetime, request: CostRequest) -> datetime:
    if request.per is Period.all:
        begin_ms, end_ms = request.from_ms or 0, request.to_ms or 0
        return _instant(max(2 * begin_ms - end_ms, 0))
    if request.per is Period.month:
        return (start - timedelta(days=1)).replace(day=1)
    return start - _STEP[request.per]
