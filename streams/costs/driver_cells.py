"""The cells of which drivers are made: their SQL, and the rows of the answer.

Every text in the SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Final

from schemas.units import COMPONENTS
from streams.costs.answer import CostRows
from streams.costs.day_parts import Steps, days_in
from streams.costs.drivers import CostCell, drivers_of
from streams.costs.kept_days import Day
from streams.costs.kept_jobs import KeptJobs, kept_jobs
from streams.costs.metrics import COSTS
from streams.costs.parts import (
    HourSpan,
    Parameters,
    hour_conditions,
    joins,
    level_columns,
    listed,
    minute_conditions,
    names_in,
)
from streams.costs.periods import span_before_ms
from streams.costs.request import CostRequest, has_price_fields
from streams.costs.sql import CELLS_MAX
from streams.errors import WrongUseError

#: The unit of a quantity that hours do not have: the time that jobs ran.
RUN_TIME: Final = "run_time_ms"
_BY_COMPONENT: Final = listed(
    *(
        f"('{component}', '{'gpu_milli_ms' if component == 'gpu' else RUN_TIME}', toDecimal128(h.{name}, 9), "
        f"toInt128(h.{'gpu_milli_ms' if component == 'gpu' else 'wall_clock_ms'}))"
        for component, name in zip(COMPONENTS, COSTS, strict=True)
    )
)
#: Whether no month of the two spans had its minutes deleted.
_HAS_MINUTES: Final = (
    "toYYYYMM(toDateTime({begin_s:Int64}, 'UTC')) >= "
    "(SELECT toUInt32OrZero(max(value)) FROM meta WHERE key = 'minutes_kept_from')"
)


def driver_steps(request: CostRequest, *, has_before: bool = True) -> Steps[CostRows]:
    """Ask for the drivers of the change between the span asked for and the one before it, the largest first.

    Without a time before, as in `CostRows.has_before`, there is no change and nothing that drives it.

    Raises:
        WrongUseError: The request is without begin or end, or there are too many cells.
    """
    if not has_before:
        return CostRows((), [], False)
    days: Sequence[Day] = ()
    if request.from_ms is not None and request.to_ms is not None and not has_price_fields(request):
        days = (yield from days_in(HourSpan(_begin_ms(request), request.to_ms))).days
    answer = yield driver_sql(request, days)
    return driver_rows(request, answer.names, list(answer.rows()))


def _begin_ms(request: CostRequest) -> int:
    """Where the span before the one asked for begins."""
    return span_before_ms(request.from_ms or 0, request.to_ms or 0, request.calendar)


def driver_sql(request: CostRequest, days: Sequence[Day] = ()) -> tuple[str, Parameters]:
    """The statement for the cells of which drivers are made; of `days` that are kept ready no minute is read.

    Its columns are the levels (or job), `component`, `unit`, `sku`, `is_before` (before `from`), `cost_usd`, `quantity`. Each
    cell has the quantity that its component is paid by, from minutes; where minutes are gone, or price fields are asked
    for, which hold by the hour, hours have GPU-time, and run time for all other components.

    Raises:
        WrongUseError: The request is without begin or end.
    """
    if request.from_ms is None or request.to_ms is None:
        raise WrongUseError("drivers: needs from and to")
    begin_ms = _begin_ms(request)
    parameters: Parameters = {"split_s": request.from_ms // 1000, "most": CELLS_MAX + 1}
    span = HourSpan(begin_ms, request.to_ms)
    levels = level_columns(enumerate(driver_levels(request)), parameters)
    if has_price_fields(request):
        cells = _hours(request, span, levels, parameters)
    else:
        parameters["begin_s"] = begin_ms // 1000
        spans = HourSpan(begin_ms, request.from_ms), HourSpan(request.from_ms, request.to_ms)
        kept = kept_jobs(spans, days)
        parameters |= kept.parameters
        minutes = _minutes(request, span, levels, kept, parameters)
        hours = _hours(request, span, levels, parameters)
        # Hours have GPU-time, too, and far fewer rows; SKUs they do not have.
        stand_in = "" if request.drivers_by_sku else " OR component = 'gpu'"
        cells = f"{minutes}\n    UNION ALL\n    {hours}\n    WHERE NOT {_HAS_MINUTES}{stand_in}"
    keys = listed(names_in(levels), "component", "unit", "sku", "is_before")
    sql = f"""SELECT {keys}, sum(cost) AS cost_usd, sum(amount) AS quantity
FROM
(
    {cells}
) AS cells
GROUP BY {keys}
LIMIT {{most:UInt64}}"""
    return sql, parameters


def driver_levels(request: CostRequest) -> tuple[str, ...]:
    """The levels by which a change is explained."""
    return request.by or ("job",)


def driver_rows(request: CostRequest, names: Sequence[str], rows: Sequence[Sequence[object]]) -> CostRows:
    """The drivers of the change between the span asked for and the one before it, the largest first.

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
    apart = ("component", "unit", "sku") if request.drivers_by_sku else ("component", "unit")
    spans: tuple[dict[tuple[object, ...], CostCell], dict[tuple[object, ...], CostCell]] = ({}, {})
    for row in rows:
        cell = dict(zip(names, row, strict=True))
        key = (*row[: len(levels)], *(cell[name] for name in apart))
        cells = spans[not cell["is_before"]]
        known = cells.get(key, CostCell())
        cost_nano = int(Decimal(str(cell["cost_usd"])).scaleb(9))
        cells[key] = CostCell(known.cost_nano + cost_nano, known.quantity + int(str(cell["quantity"])))
    columns = (
        *levels,
        *apart,
        "previous_cost_usd",
        "cost_usd",
        "change_usd",
        "price_effect_usd",
        "quantity_effect_usd",
    )
    found = []
    for driver in drivers_of(*spans, request.drivers):
        names_of = driver.key or (*([None] * len(levels)), "others", *([None] * (len(apart) - 1)))
        nano = (driver.before_nano, driver.after_nano, driver.change_nano, *driver.effects)
        usd = (Decimal(each).scaleb(-9) for each in nano)
        found.append(dict(zip(columns, (*names_of, *usd), strict=True)))
    return CostRows(columns, found, is_cut=False)


def _minutes(
    request: CostRequest, span: HourSpan, levels: Sequence[str], kept: KeptJobs, parameters: Parameters
) -> str:
    sku, read = ("toString(sku)", "1") if request.drivers_by_sku else ("''", "component != 'gpu'")
    tables = [(f"job_minutes FINAL PREWHERE ({kept.rest}) AND", "minute")] if kept.rest else []
    tables += [(f"{kept.table} AS d WHERE", "day")] if kept.table else []
    sums = "\n        UNION ALL\n".join(
        f"""        SELECT job_id, attempt, toString(component) AS component, toString(unit) AS unit, {sku} AS sku_name,
            {_is_before(time)} AS is_before, sum(toDecimal128(cost_usd, 9)) AS cost, sum(toInt128(quantity)) AS amount
        FROM {table} {read} AND {_HAS_MINUTES} AND {minute_conditions(request, span, parameters, time)}{" WHERE quantity != 0" if time == "minute" else ""}
        GROUP BY job_id, attempt, component, unit, sku_name, is_before"""
        for table, time in tables
    )
    return f"""SELECT {listed(*levels, "h.component AS component", "h.unit AS unit", "h.sku_name AS sku", "h.is_before AS is_before")},
        h.cost AS cost, h.amount AS amount
    FROM
    (
{sums}
    ) AS h{joins(*levels)}"""


def _hours(request: CostRequest, span: HourSpan, levels: Sequence[str], parameters: Parameters) -> str:
    where = hour_conditions(request, span, parameters)
    return f"""SELECT {listed(*levels, "part.1 AS component", "part.2 AS unit", "'' AS sku", f"{_is_before('h.hour')} AS is_before")},
        part.3 AS cost, part.4 AS amount
    FROM (SELECT * FROM job_hours FINAL WHERE {where}) AS h{joins(*levels)}
    ARRAY JOIN [{_BY_COMPONENT}] AS part"""


def _is_before(time: str) -> str:
    return f"{time} < toDateTime({{split_s:Int64}}, 'UTC')"
