"""Costs as a table for people: dates, rounded figures, and only the columns that say something.

JSON and CSV have every column and digit.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

from streams.cli.output import Grid, usd
from streams.costs.answer import PREVIOUS, CostRows
from streams.costs.request import CostRequest, Metric, Period

_DAY_CHARACTERS: Final = 10
#: What is always shown, and of M1 what is shown at all.
_ALWAYS: Final = ("cost_usd", "previous_cost_usd", "change_usd", "change_ratio")
_M1: Final = (
    "wall_clock_h", "usd_per_hour", "infra_usd_per_hour", "median_usd_per_hour", "p95_usd_per_hour", "jobs",
)  # fmt: skip


def grid_of(found: CostRows) -> Grid:
    """All columns and digits."""
    return Grid(found.columns, [tuple(row.values()) for row in found.rows])


def shown(request: CostRequest, found: CostRows) -> Grid:
    """The cells for people; columns of nothing but 0 and NULL are left out."""
    columns = [name for name in found.columns if _is_shown(name, request, found.rows)]
    return Grid(tuple(columns), [[_cell(name, row[name], request) for name in columns] for row in found.rows])


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
    if name in request.by or name in _ALWAYS:
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
    return _figure(name, cell)


def _named(cell: Any) -> Any:
    return "(none)" if cell == "" else cell


def _figure(name: str, cell: Any) -> Any:
    """Round: dollars as other commands do, hours to 3 digits, ratios to 4."""
    if isinstance(cell, Decimal) or (isinstance(cell, float) and "usd" in name and "ratio" not in name):
        return usd(cell)
    if isinstance(cell, float):
        return (
            f"{cell:.3f}" if name.endswith("_h") else f"{cell:.4f}" if abs(cell) < 1_000 else f"{cell:,.0f}"
        )
    return cell
