"""`trainfare commitments load` and `show`: what was bought for a time, what it cost by the hour, and what nobody used."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from streams.cli.lists import load_files
from streams.cli.options import DataOption, UrlOption, levels_of, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, say_full, write_costs
from streams.cli.reading import reader_for
from streams.cli.spans import AskedSpan, takes_span
from streams.clock import SystemClock
from streams.costs.commitments import LEVELS, MONEY, cells, coverage
from streams.costs.request import Period

_WANTED: Final = "name a file of commitments (docs/commitments.md)"
_MONEY: Final = frozenset((*MONEY, "covered_list_usd", "eligible_list_usd"))


def load(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="All commitments, in TOML; those that it leaves out are removed."
        ),
    ],
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Load the list of commitments: reservations, savings plans, committed use, capacity blocks, owned machines."""
    load_files([file], "commitments", _WANTED, data, url)


@takes_span
def show(
    data: DataOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL]",
            help="commitment_id (default), kind, provider, team, source; may be repeated.",
        ),
    ] = None,
    per: Annotated[Period, typer.Option(help="Length of a cell in time.")] = Period.month,
    covered: Annotated[
        bool, typer.Option("--coverage", help="How much of the use is covered, instead.")
    ] = False,
    *,
    asked: AskedSpan,
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what commitments cost, and what of it was used and unused; or with --coverage what they cover."""
    settings = settings_for(data)
    span, calendar = asked.in_zone(SystemClock().now_ms(), settings.calendar.calendar())
    levels = levels_of(by, LEVELS, LEVELS[0])
    with reader_for(data, url, settings=settings) as store:
        steps = coverage(per, span, calendar) if covered else cells(levels, per, span, limit, calendar)
        found = store.answered(steps)
    if not found.rows:
        sys.stderr.write(
            "trainfare: no commitments in this time: `trainfare commitments load`, or a bill with some (docs/commitments.md)\n"
        )
    say_full(found.rows, form, limit)
    write_costs(Grid(found.names, found.rows), form, _MONEY)
