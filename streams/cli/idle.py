"""`trainfare idle`: what the nodes cost, and what of it nobody used.

It must not add up costs: ClickHouse sums decimals.
"""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from streams.cli.options import DataOption, levels_of, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, usd, write
from streams.cli.reading import reader
from streams.cli.spans import AskedSpan, LastOption, LastWeekOption, MonthOption
from streams.clock import SystemClock
from streams.costs.idle import left_out_note, left_out_sql
from streams.costs.parts import HourSpan
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
_FINDINGS: Final = f"""
SELECT * FROM
(
    SELECT 'forgotten_node' AS finding, toString(day) AS period, node AS name, team, node_cost_usd AS cost_usd,
           concat('nothing ran on it; ', instance_type, ' ', gpu_type) AS detail
    FROM forgotten_nodes WHERE {_DAYS}
    UNION ALL
    SELECT 'unattributed_use', toString(toDate(hour)) AS period, node, team, sum(unattributed_cost_usd),
           concat(toString(round(sum(unattributed_gpu_ms) / 3600000, 3)), ' GPU-hours of work without a job')
    FROM node_hour_balance WHERE {_SPAN}
    GROUP BY period, node, team HAVING sum(unattributed_cost_usd) > 0
    UNION ALL
    SELECT 'provisioning_burst', toString(hour), instance_type, '', NULL,
           concat(toString(nodes), ' new nodes in ', cluster, ', usual: ', toString(round(usual_nodes, 2)))
    FROM provisioning_bursts WHERE {_SPAN}
    UNION ALL
    SELECT if(subject = 'job', 'job_under_half', 'node_type_half_full'), 'all', name, team, cost_usd,
           concat(toString(round(100 * ratio, 1)), ' % of ', toString(round(gpu_h, 1)), ' GPU-hours')
    FROM right_sizing
)
ORDER BY cost_usd DESC NULLS LAST, finding, period, name
LIMIT {{limit:UInt64}}
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
        answer = store.ask(_FINDINGS if findings else _sql(levels, per), limit=limit, **span)
        grid = Grid(answer.names, list(answer.rows()))
        (known,) = store.records(_NODES)
        sql, bound = left_out_sql(HourSpan(span["from"], span["to"]))
        (left_out,) = store.records(sql, **bound)
    if not known["hours"]:
        sys.stderr.write(
            "trainfare: no node events in this store: idle cost needs them (docs/events.md#nodes)\n"
        )
    sys.stderr.write(left_out_note(left_out))
    write(_shown(grid) if form is OutputFormat.table else grid, form)


def _span(first: str, until: str) -> dict[str, int]:
    """Return the time as ms.

    Raises:
        WrongUseError: A date is none, or the time is empty.
    """
    span = {"from": instant_of("--from", first) or 0, "to": instant_of("--to", until) or _ALWAYS_MS}
    if span["from"] >= span["to"]:
        raise WrongUseError("--from: must be before --to")
    return span


def _sql(levels: tuple[str, ...], per: Period) -> str:
    """Return the statement; only names of fixed lists go into it."""
    start = _START.get(per)
    names = ", ".join(levels)
    period, first = ("", "") if start is None else (f"{start} AS period_start, ", "period_start, ")
    return f"""
SELECT {period}{names}, toDecimal64(sum(paid_ms) / 3600000, 3) AS paid_node_h,
       {", ".join(f"sum({name}) AS {name}" for name in _MONEY)},
       if(node_cost_usd = 0, NULL, round(toFloat64(idle_cost_usd) / toFloat64(node_cost_usd), 6)) AS idle_ratio
FROM node_hour_balance WHERE {_SPAN}
GROUP BY {first}{names} ORDER BY {first}idle_cost_usd DESC, {names}
LIMIT {{limit:UInt64}}
"""


def _shown(grid: Grid) -> Grid:
    """Round dollars for people."""
    money = {at for at, name in enumerate(grid.columns) if name in (*_MONEY, "cost_usd")}
    rows = [
        [usd(cell) if at in money and cell is not None else cell for at, cell in enumerate(row)]
        for row in grid.rows
    ]
    return Grid(grid.columns, rows)
