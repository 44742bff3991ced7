"""M3: what nobody known used, of all that the nodes cost.

Every text in its SQL is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from schemas.counting import how_many
from streams.costs.day_parts import MetricRows, Row, Statement, Steps, added, days_in, in_parts
from streams.costs.parts import (
    HourSpan,
    Parameters,
    between,
    listed,
    names_by_level,
    names_in,
    parameters_of,
    period_of,
)
from streams.costs.request import CostRequest, Period

#: GPU-time without a price is valued at what priced GPU-time cost on average that day, as in `m3_unallocated_ratio`.
_SUMS: Final = """sum(h.node_cost_usd) AS node_cost,
        sum(h.idle_cost_usd) AS idle_cost,
        sum(h.overcommitted_cost_usd) AS over_cost,
        sum(h.unattributed_cost_usd) AS unattributed_cost,
        sum(toInt128(h.gpu_milli_ms - h.unpriced_gpu_milli_ms)) AS priced_gpu,
        if(priced_gpu = 0, 0, toFloat64(sumIf(h.node_cost_usd, h.gpu_milli_ms > 0))
            * toFloat64(sum(toInt128(h.unpriced_gpu_milli_ms))) / toFloat64(priced_gpu)) AS unpriced"""
_COLUMNS: Final = """sum(node_cost) AS cost_usd, sum(idle_cost) AS idle_cost_usd,
    sum(over_cost) AS overcommitted_cost_usd, sum(unattributed_cost) AS unattributed_cost_usd, sum(unpriced) AS unpriced_usd"""
#: Periods that lie in one part.
_SHORT: Final = (Period.hour, Period.day)
#: What one answer may have: cells of longer periods are ordered once all parts are added.
_PART_ROWS_MAX: Final = 1_000_000

#: Hours of nodes of which nothing is known to be idle, for the minutes of their jobs were dropped.
_LEFT_OUT: Final = """SELECT count() AS hours, toUInt32OrZero((SELECT max(value) FROM meta WHERE key = 'minutes_kept_from')) AS kept_from
FROM node_hours FINAL WHERE paid_ms != 0 AND toYYYYMM(hour) < kept_from"""


def left_out_sql(span: HourSpan) -> tuple[str, Parameters]:
    """The statement for how many hours of nodes are in no figure of idle cost, and the first month that is (202611)."""
    parameters: Parameters = {}
    return " AND ".join([_LEFT_OUT, *between(span, "hour", parameters)]), parameters


def left_out_note(found: Mapping[str, object]) -> str:
    """A line that says what is left out, of the row of `left_out_sql`; empty where nothing is."""
    hours, kept_from = (int(str(found[name])) for name in ("hours", "kept_from"))
    if not hours:
        return ""
    month = f"{kept_from // 100}-{kept_from % 100:02}"
    return (
        f"trainfare: {how_many(hours, 'hour')} of nodes before {month} {'is' if hours == 1 else 'are'} left out: the minutes of their jobs were dropped "
        "(meter.minutes_retention_days), so nobody knows what of them was idle\n"
    )


def idle_steps(request: CostRequest, span: HourSpan) -> Steps[MetricRows]:
    """Ask for the cells of M3; their columns begin as those of `cost_sql`, and `cost_usd` is of the nodes."""
    width = len(request.by) + 1
    most = request.limit + 1
    is_short = request.per in _SHORT and not request.has_own_cells
    known = yield from days_in(span)
    found = yield from in_parts(
        span,
        known,
        lambda part, source: _part_sql(request, span, part, source, most if is_short else _PART_ROWS_MAX),
        lambda rows: is_short and rows >= most,
    )
    cells = [(*cell, _ratio(cell, width)) for cell in added(found.rows, width)]
    cells.sort(key=lambda cell: (cell[width - 1], -cell[width], cell[: width - 1]))
    return MetricRows((*found.names, "ratio"), cells[:most])


def _part_sql(request: CostRequest, span: HourSpan, part: HourSpan, source: str, most: int) -> Statement:
    parameters = parameters_of(request, span) | {"most": most}
    levels = [f"toString(h.{level}) AS level_{place}" for place, level in enumerate(request.by)]
    names = [f"level_{place}" for place in range(len(levels))]
    conditions = list(between(part, "hour", parameters))
    for place, (level, named) in enumerate(names_by_level(request.where).items()):
        conditions.append(f"{level} IN {{names_{place}:Array(String)}}")
        parameters[f"names_{place}"] = [*named]
    where = f" WHERE {' AND '.join(conditions)}" if conditions else ""
    apart = [*levels, period_of(request), "toDate(h.hour) AS day"]
    sql = f"""SELECT {listed(*names, "period AS period_start")}, {_COLUMNS}
FROM
(
    SELECT {listed(*apart)},
        {_SUMS}
    FROM (SELECT * FROM {source}{where}) AS h
    GROUP BY {names_in(apart)}
) AS cells
GROUP BY {listed(*names, "period")}
ORDER BY {listed("period", "cost_usd DESC", *names)}
LIMIT {{most:UInt64}}"""
    return sql, parameters


def _ratio(cell: Row, width: int) -> float | None:
    """Idle cost by cost, both with GPU-time that has no price."""
    cost, idle, _over, _unattributed, unpriced = map(float, cell[width:])
    return (idle + unpriced) / (cost + unpriced) if cost + unpriced else None
