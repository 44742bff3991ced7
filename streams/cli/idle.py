"""`trainfare idle`: what the nodes cost, and what of it nobody used.

ClickHouse sums decimals, in parts of few enough days for the memory of a query.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streams.cli.known_hours import known_hours
from streams.cli.options import DataOption, levels_of, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, say_full, write_costs
from streams.cli.reading import reader
from streams.cli.spans import AskedSpan, takes_span
from streams.clock import SystemClock
from streams.costs.idle import left_out_note, left_out_sql
from streams.costs.idle_nodes import LEVELS, MONEY, NODES, cells
from streams.costs.idle_nodes import findings as findings_of
from streams.costs.request import Period


@takes_span
def idle(
    data: DataOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL]", help="team (default), cluster, gpu_type, node; may be repeated."
        ),
    ] = None,
    per: Annotated[Period, typer.Option(help="Length of a cell in time.")] = Period.all,
    *,
    asked: AskedSpan,
    findings: Annotated[
        bool, typer.Option("--findings", help="What to look at: forgotten nodes, use without a job, ...")
    ] = False,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what the nodes cost, what jobs used of it and what was idle."""
    settings = settings_for(data)
    span, calendar = asked.in_zone(SystemClock().now_ms(), settings.calendar.calendar())
    levels = levels_of(by, LEVELS, "team")
    with reader(settings) as store:
        steps = findings_of(span, limit) if findings else cells(levels, per, span, limit, calendar)
        found = store.answered(steps)
        (known,) = store.records(NODES)
        is_empty = known["hours"] and not found.rows and not findings
        of_nodes = known_hours(store, of_nodes=True) if is_empty else ""
        sql, bound = left_out_sql(span)
        (left_out,) = store.records(sql, **bound)
    grid = Grid(found.names, found.rows)
    if not known["hours"]:
        sys.stderr.write(
            "trainfare: no node events in this store: idle cost needs them (docs/usage_events.md#nodes)\n"
        )
    if of_nodes:
        sys.stderr.write(f"trainfare: no node was paid in this time; {of_nodes}\n")
    sys.stderr.write(left_out_note(left_out))
    say_full(found.rows, form, limit)
    write_costs(grid, form, {*MONEY, "cost_usd"}, is_owned=False)
