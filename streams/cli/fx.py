"""`trainfare fx load` and `show`: what currencies cost in dollars, by day."""

from __future__ import annotations

import sys
from datetime import date
from pathlib import Path
from typing import Annotated, Final

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.bills import day_of
from streams.cli.files import must_exist
from streams.cli.options import DataOption, UrlOption, check_one_of
from streams.cli.output import FormatOption, Grid, OutputFormat, plain, say_full, say_none, write
from streams.cli.reading import reader_for
from streams.costs.request import currency_of

_WANTED: Final = "name a file of daily rates: the European Central Bank's CSV, or date,currency,usd"
_SHOW: Final = """
SELECT currency, toString(toDate(day)) AS day, units, dollars, source, time AS loaded
FROM fx_rates FINAL
WHERE (empty({currency:String}) OR currency = {currency:String}) AND day >= {first:String} AND day < {until:String}
ORDER BY currency, day LIMIT {limit:UInt64}
"""


def load(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="The European Central Bank's CSV or its archive (.zip), or date,currency,usd; also .gz or .zst.",
        ),
    ],
    data: DataOption = None,
    url: UrlOption = None,
) -> None:
    """Load exchange rates; one that stands otherwise is restated, and with it every figure that was converted."""
    check_one_of(data, url)
    must_exist(files, _WANTED)
    with reader_for(data, url, writes=True) as store:
        found = store.load_rates(files)
        store.allocate_bills()
    for each in found:
        sys.stdout.write(
            f"{visible(each.name)}: {how_many(each.rates, 'rate')} of {how_many(each.currencies, 'currency', 'currencies')}, {each.first_day} to {each.last_day}; "
            f"{each.new} new, {each.restated} restated\n"
        )
        for change in each.changes:
            sys.stdout.write(f"  {change}\n")
        if each.restated > len(each.changes):
            sys.stdout.write(f"  and {each.restated - len(each.changes)} more\n")


def show(
    data: DataOption = None,
    currency: Annotated[str, typer.Option(metavar="CODE", help="One currency, e.g. EUR; else all.")] = "",
    first: Annotated[str, typer.Option("--from", metavar="DAY", help="First day, e.g. 2026-10-01.")] = "",
    until: Annotated[str, typer.Option("--to", metavar="DAY", help="The day after the last one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1_000_000, help="Maximum number of rows.")] = 1_000,
    url: UrlOption = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the rates that hold."""
    currency_of("--currency", currency)
    span = {
        "first": day_of("--from", first, date(1999, 1, 1)),
        "until": day_of("--to", until, date(2100, 1, 1)),
    }
    with reader_for(data, url) as store:
        answer = store.ask(_SHOW, currency=currency, limit=limit, **span)
    rows = list(answer.rows())
    which = f"rate of {currency}" if currency else "rate"
    when = " of these days" if first or until else ""
    say_none(rows, form, f"no {which}{when} is loaded: `trainfare fx load FILE`; {_WANTED}")
    say_full(rows, form, limit)
    if form is OutputFormat.table:
        rows = [
            (*row[:2], *(plain(cell).rstrip("0").rstrip(".") for cell in row[2:4]), *row[4:]) for row in rows
        ]
    write(Grid(answer.names, rows), form)
