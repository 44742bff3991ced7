"""`trainfare carbon load` and `show`: CO2 equivalent of the energy of jobs, beside dollars."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from streams.cli.known_hours import known_hours
from streams.cli.lists import load_files
from streams.cli.options import DataOption, UrlOption, levels_of, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, say_full, write_costs
from streams.cli.reading import reader_for
from streams.cli.spans import AskedSpan, takes_span
from streams.clock import SystemClock
from streams.costs.carbon import LEVELS, cells
from streams.costs.request import Period

_WANTED: Final = "name a file of carbon intensities with the columns hour,region,g_per_kwh"


def load(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="hour,region,g_per_kwh in CSV; also .gz, .zst or .zip."),
    ],
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Load carbon intensities; one that stands otherwise is restated, and with it every amount made from it."""
    load_files(files, "carbon", _WANTED, data, url)


@takes_span
def show(
    data: DataOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL]", help="region (default), team, project, owner, job_id; may be repeated."
        ),
    ] = None,
    per: Annotated[Period, typer.Option(help="Length of a cell in time.")] = Period.month,
    *,
    asked: AskedSpan,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show energy, its CO2 equivalent and its cost; energy without an intensity stands apart."""
    settings = settings_for(data)
    span, calendar = asked.in_zone(SystemClock().now_ms(), settings.calendar.calendar())
    with reader_for(data, url, settings=settings) as store:
        found = store.answered(cells(levels_of(by, LEVELS, LEVELS[0]), per, span, limit, calendar))
        known = "" if found.rows else known_hours(store)
    if not found.rows:
        sys.stderr.write(f"trainfare: no energy was metered in this time (docs/edge.md); {known}\n")
    say_full(found.rows, form, limit)
    write_costs(Grid(found.names, found.rows), form, {"cost_usd"})
