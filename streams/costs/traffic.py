"""The SQL of M6 and M7: costs and run time from hours, requests, bytes and directions from the rows of traffic.

Every text in it is fixed; what a client chooses is bound as a parameter.
"""

from __future__ import annotations

from typing import Final

from streams.costs.job_parts import AskedPart
from streams.costs.metrics import TOTAL
from streams.costs.parts import (
    Parameters,
    hour_conditions,
    jobs_of,
    joins,
    level_columns,
    listed,
    minute_conditions,
    names_in,
    parameters_of,
    period_of,
)
from streams.costs.request import TRAFFIC_LEVELS, CostRequest, Metric, has_price_fields, levels_of

_COMPONENTS: Final = {Metric.m6: "storage", Metric.m7: "network"}
_COST: Final = "sum(toDecimal128(h.cost_usd, 9)) AS traffic_cost"
_SUMS: Final = {
    Metric.m6: (
        "sumIf(toInt128(h.quantity), h.unit = 'requests') AS request_count",
        "sumIf(toInt128(h.quantity), h.unit = 'bytes') AS byte_count",
    ),
    # What says no direction goes out.
    Metric.m7: (
        "sumIf(toDecimal128(h.cost_usd, 9), h.direction != 'ingress') AS egress_cost",
        "sumIf(toInt128(h.quantity), h.direction != 'ingress') AS egress_count",
        "sumIf(toDecimal128(h.cost_usd, 9), h.direction = 'ingress') AS ingress_cost",
        "sumIf(toInt128(h.quantity), h.direction = 'ingress') AS ingress_count",
    ),
}
_COLUMNS: Final = {
    Metric.m6: "t.request_count AS requests, toFloat64(requests) / nullIf(wall_clock_h, 0) AS requests_per_hour, "
    "t.byte_count AS bytes",
    Metric.m7: "t.egress_cost AS egress_cost_usd, t.egress_count AS egress_bytes, "
    "t.ingress_cost AS ingress_cost_usd, t.ingress_count AS ingress_bytes",
}
_TRAFFIC: Final = (
    "(SELECT toStartOfHour(minute) AS hour, job_id, attempt, path, direction, region, dst_region, op, storage_class, quantity, unit, "
    "cost_usd FROM job_minutes FINAL PREWHERE component = '{component}' AND {where} WHERE quantity != 0) AS h"
)


def traffic_sql(request: CostRequest, part: AskedPart) -> tuple[str, Parameters]:
    """The statement and its parameters; its columns begin as those of `cost_sql`.

    Where levels of traffic are asked for, each cell costs what its traffic does, per hour of run time of its other levels;
    otherwise it costs everything. Price fields are not known of traffic: with them, its columns are left out.
    """
    span = part.span
    parameters = parameters_of(request, span)
    of = jobs_of(span, parameters) if part.has_own_jobs else ""
    component = _COMPONENTS[request.metric]
    places = list(enumerate(request.by))
    levels = level_columns(places, parameters)
    shared = level_columns([each for each in places if each[1] not in TRAFFIC_LEVELS], parameters)
    period = period_of(request)
    keys = names_in([*shared, period])
    names = [f"level_{place}" for place, _ in places]
    hours = f"""(
    SELECT {listed(*shared, period)}, sum({TOTAL}) AS all_cost,
        sum(toDecimal128(h.{component}_cost_usd, 9)) AS component_cost, sum(h.wall_clock_ms) AS wall_ms
    FROM (SELECT * FROM job_hours FINAL WHERE {hour_conditions(request, span, parameters)}) AS h{joins(*shared, of=of, is_compact=part.is_compact)}
    GROUP BY {keys}
) AS w"""
    cost, all_cost, columns, tables = "w.component_cost", "w.all_cost", "", hours
    if not has_price_fields(request):
        where = minute_conditions(request, span, parameters)
        traffic = f"""(
    SELECT {listed(*levels, period, _COST, *_SUMS[request.metric])}
    FROM {_TRAFFIC.format(component=component, where=where)}{joins(*levels, of=of, is_compact=part.is_compact)}
    GROUP BY {names_in([*levels, period])}
) AS t"""
        tables = f"{hours}\nLEFT ANY JOIN {traffic} USING ({keys})"
        columns = f", {_COLUMNS[request.metric]}"
        if is_by_traffic(request):
            cost = all_cost = "t.traffic_cost"
            tables = f"{traffic}\nLEFT ANY JOIN {hours} USING ({keys})"
    sql = f"""SELECT {listed(*names, "period AS period_start")}, {all_cost} AS cost_usd, {cost} AS {component}_cost_usd,
    w.wall_ms / 3600000 AS wall_clock_h, toFloat64({component}_cost_usd) / nullIf(wall_clock_h, 0) AS usd_per_hour{columns}
FROM {tables}
ORDER BY {listed("period", "cost_usd DESC", *names)}
LIMIT {{most:UInt64}}"""
    return sql, parameters


def is_by_traffic(request: CostRequest) -> bool:
    """Whether costs are cut by what only traffic has."""
    return any(level in TRAFFIC_LEVELS for level in levels_of(request))
