"""`trainfare coverage`: how much of the cost names an owner, a team, a project and a cost centre, and where the rest comes from."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from streams.cli.known_hours import known_hours
from streams.cli.options import DataOption, UrlOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write_costs
from streams.cli.reading import reader_for
from streams.cli.spans import AskedSpan, takes_span
from streams.clock import SystemClock
from streams.costs.owner_shares import cells
from streams.costs.owner_shares import worst as worst_sources
from streams.costs.request import Period


@takes_span
def coverage(
    data: DataOption = None,
    per: Annotated[Period, typer.Option(help="Length of a cell in time.")] = Period.month,
    worst: Annotated[
        bool, typer.Option("--worst", help="Where cost without a name comes from, instead.")
    ] = False,
    *,
    asked: AskedSpan,
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="With --worst: rows of each name.")] = 10,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the share of cost with owner, team, project and cost centre over time, or its worst sources."""
    settings = settings_for(data)
    span, calendar = asked.in_zone(SystemClock().now_ms(), settings.calendar.calendar())
    with reader_for(data, url, settings=settings) as store:
        steps = worst_sources(span, limit) if worst else cells(per, span, calendar)
        found = store.answered(steps)
        known = "" if found.rows else known_hours(store)
    if not found.rows:
        said = "all cost names owner, team, project and cost centre" if worst else "no cost"
        sys.stderr.write(f"trainfare: {said} in this time; {known}\n")
    write_costs(Grid(found.names, found.rows), form, {"cost_usd"})
