"""Costs as a table for people: dates, rounded figures, and only the columns that say something.

JSON and CSV have every column and digit.
"""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from itertools import repeat
from typing import Any, Final

from schemas.units import READABLE, Unit, readable
from streams.cli.output import Grid, money, usd
from streams.cli.pictures import bar, sparkline
from streams.costs.answer import PREVIOUS, CostRows
from streams.costs.currency import RATE_COLUMNS
from streams.costs.exact import exact_sum
from streams.costs.periods import next_ms
from streams.costs.request import CostRequest, Metric, Period

_DAY_CHARACTERS: Final = 10
_COST: Final = "cost_usd"
_TOTAL: Final = "Total"
_BYTES: Final = "bytes"
#: Of sparklines: lines, periods of a line.
_LINES_MAX: Final = 20
_PERIODS_MIN: Final = 2
_PERIODS_MAX: Final = 120
_BAR_CELLS: Final = 12
_ONE_PERCENT: Final = Decimal("0.01")
#: What is always shown, and of M1 what is shown at all.
_ALWAYS: Final = ("cost_usd", "previous_cost_usd", "change_usd", "change_ratio")
_M1: Final = (
    "wall_clock_h", "usd_per_hour", "infra_usd_per_hour", "median_usd_per_hour", "p95_usd_per_hour", "jobs",
)  # fmt: skip


def grid_of(found: CostRows) -> Grid:
    """All columns and digits."""
    return Grid(found.columns, [tuple(row.values()) for row in found.rows])


def shown(request: CostRequest, found: CostRows, *, has_bars: bool = False) -> Grid:
    """The cells for people, and their total; columns of nothing but 0 and NULL are left out.

    Rows that are cut have no total. With `has_bars` each row of a whole range has a bar of its share of all that is shown.
    """
    columns = [name for name in found.columns if _is_shown(name, request, found.rows)]
    rows = [[_cell(name, row[name], request) for name in columns] for row in found.rows]
    if has_bars and request.by and request.per is Period.all and _COST in columns and not found.is_cut:
        at = columns.index(_COST) + 1
        columns.insert(at, "share")
        for cells, share in zip(rows, _shares(found.rows), strict=True):
            cells.insert(at, share)
    if len(rows) > 1 and not found.is_cut:
        rows.append([_TOTAL, *(_total(name, found.rows) for name in columns[1:])])
    return Grid(tuple(_titled(name) for name in columns), rows)


def _total(name: str, rows: list[dict[str, Any]]) -> Any:
    """The exact sum of a column of money, empty for others, and of a comparison that some rows do not have; in a currency only of rows that have one rate."""
    if name == "cost" and len({row["rate_day"] for row in rows}) == 1 and rows[0]["rate_day"]:
        return money(exact_sum(row[name] for row in rows), rows[0]["currency"])
    is_part = name in _ALWAYS and any(row[name] is None for row in rows)  # some are not compared
    if is_part or not name.endswith("_usd"):
        return ""
    return usd(exact_sum(row[name] for row in rows if row[name] is not None))


def over_time(request: CostRequest, found: CostRows) -> Grid | None:
    """A line for each name: its sum and a sparkline over the periods, the dearest first; None without periods.

    All lines have one scale: a period of a line is a share of the dearest one of all.
    """
    if request.per is Period.all or _COST not in found.columns or found.is_cut or not found.rows:
        return None
    starts = _starts(found.rows, request)
    if len(starts) < _PERIODS_MIN:
        return None
    lines: dict[tuple[Any, ...], dict[datetime, Decimal]] = {}
    for row in found.rows:
        line = lines.setdefault(tuple(row[name] for name in request.by), {})
        line[_start(row)] = row[_COST]
    sums = {names: sum(map(line.get, starts, repeat(Decimal())), Decimal()) for names, line in lines.items()}
    ranked = sorted(lines, key=lambda names: -sums[names])[:_LINES_MAX]
    most = max(max(lines[names].values()) for names in ranked)
    first, last = (_said(start, request.per) for start in (starts[0], starts[-1]))
    rows = [
        (
            *map(_named, names),
            usd(sums[names]),
            sparkline([lines[names].get(start) for start in starts], most),
        )
        for names in ranked
    ]
    return Grid((*request.by, _COST, f"per {request.per} from {first} to {last}"), rows)


def _titled(name: str) -> str:
    """The name of a column, in the unit that its cells are shown in."""
    return f"{name.removesuffix(_BYTES)}gib" if name.endswith(_BYTES) else name


def _starts(rows: list[dict[str, Any]], request: CostRequest) -> list[datetime]:
    """The starts of all periods from the first to the last one, also where no row is of one; of many, the last ones."""
    found = {_start(row) for row in rows}
    starts, last = [min(found)], max(found)
    while starts[-1] < last:
        starts.append(request.calendar.local(next_ms(round(starts[-1].timestamp() * 1000), request)))
    return starts[-_PERIODS_MAX:]


def _start(row: dict[str, Any]) -> datetime:
    return datetime.fromisoformat(row["period_start"])


def _said(start: datetime, per: Period) -> str:
    return f"{start:%Y-%m-%d %H:%M}" if per is Period.hour else f"{start:%Y-%m-%d}"


def _shares(rows: list[dict[str, Any]]) -> list[str]:
    costs = [max(row[_COST], Decimal()) for row in rows]
    total = sum(costs, Decimal())
    if not total:
        return ["" for _ in rows]
    return [f"{_percent(cost / total)} {bar(cost, total, _BAR_CELLS)}".rstrip() for cost in costs]


def _percent(share: Decimal) -> str:
    return " <1%" if 0 < share < _ONE_PERCENT else f"{share:>4.0%}"


def shown_drivers(found: CostRows) -> Grid:
    """What explains a change for people."""
    levels = found.columns[: found.columns.index("component")]
    rows = [
        [
            _named(cell) if name in levels and row["component"] != "others" else _figure(name, cell)
            for name, cell in row.items()
        ]
        for row in found.rows
    ]
    return Grid(found.columns, rows)


def _is_shown(name: str, request: CostRequest, rows: list[dict[str, Any]]) -> bool:
    if name in request.by or name in _ALWAYS or (request.currency and name in ("cost", *RATE_COLUMNS)):
        return True
    if name == "period_start":
        return request.per is not Period.all
    of_metric = name.removeprefix(PREVIOUS)
    if request.metric is Metric.m1 and of_metric not in _M1:
        return False
    if request.metric is Metric.total and name != of_metric:  # a comparison is of the whole
        return False
    return not rows or any(row[name] for row in rows)


def _cell(name: str, cell: Any, request: CostRequest) -> Any:
    if name in request.by:
        return _named(cell)
    if name == "period_start" and request.per is not Period.hour:
        return cell[:_DAY_CHARACTERS]
    if name == "cost" and request.currency:
        return "no rate" if cell is None else money(cell, request.currency)
    return _figure(name, cell)


def _named(cell: Any) -> Any:
    return "(none)" if cell == "" else cell


def _figure(name: str, cell: Any) -> Any:
    """Round: dollars as other commands do, hours to 3 digits, ratios to 4; bytes in GiB."""
    if name == "unit":
        return READABLE.get(cell, (cell, 1))[0]
    if isinstance(cell, Decimal) or (isinstance(cell, float) and "usd" in name and "ratio" not in name):
        return usd(cell)
    if isinstance(cell, float):
        return (
            f"{cell:.3f}" if name.endswith("_h") else f"{cell:.4f}" if abs(cell) < 1_000 else f"{cell:,.0f}"
        )
    if isinstance(cell, int):
        return readable(cell, Unit.bytes).removesuffix(" GiB") if name.endswith(_BYTES) else f"{cell:,}"
    return cell
