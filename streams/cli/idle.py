"""`trainfare idle`: what the nodes cost, and what of it nobody used.

ClickHouse sums decimals, in parts of few enough days for the memory of a query.
"""

from __future__ import annotations

import sys
from decimal import Decimal
from typing import Annotated, Final

import typer

from streams.cli.options import DataOption, levels_of, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, usd, write
from streams.cli.reading import reader
from streams.cli.spans import AskedSpan, LastOption, LastWeekOption, MonthOption
from streams.clock import SystemClock
from streams.costs.day_parts import Row, Steps, added, answered, in_parts
from streams.costs.idle import left_out_note, left_out_sql
from streams.costs.parts import HourSpan, Parameters
from streams.costs.request import Period, instant_of
from streams.errors import WrongUseError

_LEVELS: Final = ("team", "cluster", "gpu_type", "node")
#: Start of a period, from an hour; `all` has none.
_START: Final = {
    Period.hour: "hour",
    Period.day: "toDate(hour)",
    Period.week: "toMonday(hour)",
    Period.month: "toStartOfMonth(hour)",
}
_MONEY: Final = (
    "node_cost_usd", "job_cost_usd", "idle_cost_usd", "overcommitted_cost_usd", "unattributed_cost_usd"
)  # fmt: skip
_ALWAYS_MS: Final = 2**32 * 1000 - 3_600_000
_SPAN: Final = "hour >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND hour < fromUnixTimestamp64Milli({to:Int64}, 'UTC')"
_DAYS: Final = _SPAN.replace("hour", "toDateTime(day, 'UTC')")
_NODES: Final = "SELECT count() AS hours FROM node_hours"
#: Findings of single days, and those of the whole span.
_FINDINGS_OF_DAYS: Final = f"""
SELECT 'forgotten_node' AS finding, toString(day) AS period, node AS name, team, node_cost_usd AS cost_usd,
       concat('nothing ran on it; ', instance_type, ' ', gpu_type) AS detail
FROM forgotten_nodes WHERE {_DAYS}
UNION ALL
SELECT 'unattributed_use', toString(toDate(hour)) AS period, node, team, sum(unattributed_cost_usd),
       concat(toString(round(sum(unattributed_gpu_ms) / 3600000, 3)), ' GPU-hours of work without a job')
FROM node_hour_balance WHERE {_SPAN}
GROUP BY period, node, team HAVING sum(unattributed_cost_usd) > 0
"""
_FINDINGS_OF_SPAN: Final = f"""
SELECT 'provisioning_burst' AS finding, toString(hour) AS period, instance_type AS name, '' AS team, NULL AS cost_usd,
       concat(toString(nodes), ' new nodes in ', cluster, ', usual: ', toString(round(usual_nodes, 2))) AS detail
FROM provisioning_bursts WHERE {_SPAN}
UNION ALL
SELECT if(subject = 'job', 'job_under_half', 'node_type_half_full'), 'all', name, team, cost_usd,
       concat(toString(round(100 * ratio, 1)), ' % of ', toString(round(gpu_h, 1)), ' GPU-hours')
FROM right_sizing
"""


def idle(
    data: DataOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL]", help="team (default), cluster, gpu_type, node; may be repeated."
        ),
    ] = None,
    per: Annotated[Period, typer.Option(help="Length of a cell in time, UTC.")] = Period.all,
    from_: Annotated[str, typer.Option("--from", metavar="DATE", help="First hour, e.g. 2026-10-01.")] = "",
    to: Annotated[str, typer.Option(metavar="DATE", help="First hour that does not count.")] = "",
    last: LastOption = "",
    last_week: LastWeekOption = False,
    month: MonthOption = "",
    findings: Annotated[
        bool, typer.Option("--findings", help="What to look at: forgotten nodes, use without a job, ...")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what the nodes cost, what jobs used of it and what was idle."""
    asked = AskedSpan(first=from_, until=to, last=last, last_week=last_week, month=month)
    span = _span(*asked.resolved(SystemClock().now_ms()))
    levels = levels_of(by, _LEVELS, "team")
    with reader(settings_for(data)) as store:
        steps = _findings(span, limit) if findings else _cells(levels, per, span, limit)
        grid = answered(steps, lambda sql, bound: store.ask(sql, **bound))
        (known,) = store.records(_NODES)
        sql, bound = left_out_sql(span)
        (left_out,) = store.records(sql, **bound)
    if not known["hours"]:
        sys.stderr.write(
            "trainfare: no node events in this store: idle cost needs them (docs/events.md#nodes)\n"
        )
    sys.stderr.write(left_out_note(left_out))
    write(_shown(grid) if form is OutputFormat.table else grid, form)


def _span(first: str, until: str) -> HourSpan:
    """The time as ms.

    Raises:
        WrongUseError: A date is none, or the time is empty.
    """
    begin_ms, end_ms = instant_of("--from", first) or 0, instant_of("--to", until) or _ALWAYS_MS
    if begin_ms >= end_ms:
        raise WrongUseError("--from: must be before --to")
    return HourSpan(begin_ms, end_ms)


def _cells(levels: tuple[str, ...], per: Period, span: HourSpan, limit: int) -> Steps[Grid]:
    sql = _sql(levels, per)
    found = yield from in_parts(span, lambda part: (sql, _bounds(part)))
    width = len(found.names) - len(_MONEY) - 1
    first = width - len(levels)  # 1 with a period
    idle_at = width + 1 + _MONEY.index("idle_cost_usd")
    rows = added(found.rows, width)
    rows.sort(key=lambda row: (row[:first], -row[idle_at], row[first:width]))
    names = (*found.names[:width], "paid_node_h", *_MONEY, "idle_ratio")
    return Grid(names, [_finished(row, width) for row in rows[:limit]])


def _findings(span: HourSpan, limit: int) -> Steps[Grid]:
    found = yield from in_parts(span, lambda part: (_FINDINGS_OF_DAYS, _bounds(part)))
    rows = found.rows
    for row in (yield _FINDINGS_OF_SPAN, _bounds(span)).rows():
        rows.append(row)
    # The greatest cost first; what has none comes last.
    rows.sort(key=lambda row: (row[4] is None, -(row[4] or 0), *row[:3]))
    return Grid(found.names, rows[:limit])


def _bounds(span: HourSpan) -> Parameters:
    return {"from": span.begin_ms or 0, "to": span.end_ms or _ALWAYS_MS}


def _sql(levels: tuple[str, ...], per: Period) -> str:
    """The statement; only names of fixed lists go into it."""
    start = _START.get(per)
    names = ", ".join(levels)
    period, first = ("", "") if start is None else (f"{start} AS period_start, ", "period_start, ")
    return f"""
SELECT {period}{names}, sum(paid_ms) AS paid_ms,
       {", ".join(f"sum({name}) AS {name}" for name in _MONEY)}
FROM node_hour_balance WHERE {_SPAN}
GROUP BY {first}{names}
"""


def _finished(row: Row, width: int) -> Row:
    """A row with hours instead of ms, and the share of cost that was idle."""
    paid_ms, *money = row[width:]
    sums = dict(zip(_MONEY, money, strict=True))
    cost, idle_cost = float(sums["node_cost_usd"]), float(sums["idle_cost_usd"])
    ratio = round(idle_cost / cost, 6) if cost else None
    return (*row[:width], Decimal(paid_ms // 3_600).scaleb(-3), *money, ratio)


def _shown(grid: Grid) -> Grid:
    """Round dollars for people."""
    money = {at for at, name in enumerate(grid.columns) if name in (*_MONEY, "cost_usd")}
    rows = [
        [usd(cell) if at in money and cell is not None else cell for at, cell in enumerate(row)]
        for row in grid.rows
    ]
    return Grid(grid.columns, rows)
