"""`trainfare forecast`: what the month will have cost, with the range of 80 %, and what would be different."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, to_json, usd, write
from streams.cli.reading import reader
from streams.cli.spans import TzOption
from streams.costs.what_if import PriceSource
from streams.estimate.prices import STORED_PRICES, price_book

_MONEY: Final = ("spent_usd", "planned_usd", "forecast_usd", "low_usd", "high_usd", "what_if_usd")

#: Shown where something is planned.
_PLANNED: Final = "planned_usd"


def forecast(
    data: DataOption = None,
    by: Annotated[
        str, typer.Option(metavar="LEVEL", help="team (default), project, owner or experiment.")
    ] = "team",
    where: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL=NAME",
            help="Only these, e.g. team=vision; may be repeated: names of one level mean any of them.",
        ),
    ] = None,
    tz: TzOption = "",
    instance: Annotated[
        str, typer.Option(metavar="TYPE", help="What if: the rest of the month on this instance type.")
    ] = "",
    region: Annotated[
        str, typer.Option(metavar="NAME", help="What if: the rest of the month in this region.")
    ] = "",
    spot_share: Annotated[
        str, typer.Option(metavar="SHARE", help="What if: so much of the rest on spot, 0 to 1.")
    ] = "",
    idle_cut: Annotated[
        str, typer.Option(metavar="SHARE", help="What if: so much less idle time of nodes, 0 to 1.")
    ] = "",
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show what the month will have cost, with the range in which it lies in four cases of five."""
    from streams.costs.month_forecast import forecast_request, forecast_steps  # loads NumPy

    settings = settings_for(data)
    given = {
        "by": [by],
        "where": where or [],
        "tz": [tz],
        "instance": [instance],
        "region": [region],
        "spot_share": [spot_share],
        "idle_cut": [idle_cut],
    }
    request = forecast_request(given, settings.calendar.calendar(), "--")
    prices = PriceSource(STORED_PRICES, price_book)
    with reader(settings) as store:
        found = store.answered(forecast_steps(request, 0, prices))
    if form is OutputFormat.json:
        sys.stdout.write(to_json(found) + "\n")
        return
    shown = (name for name in _MONEY if name in found["total"] and (name != _PLANNED or found["total"][name]))
    columns = (by, *shown, "budgets")
    is_table = form is OutputFormat.table
    lines = [*found["rows"], {by: "(all)" if is_table else "", **found["total"]}]
    write(Grid(columns, [[_cell(name, line, is_table=is_table) for name in columns] for line in lines]), form)
    if is_table:
        sys.stdout.write(_note(found))
    if found["left_out"]:
        sys.stderr.write(
            f"{found['left_out']} more names are in the total alone; --format json has as many rows\n"
        )


def _cell(name: str, line: Mapping[str, Any], *, is_table: bool) -> object:
    if name == "budgets":
        return ", ".join(
            f"{each['budget']} {usd(each['limit_usd'])}: {_WORDS[each['holds']]}" for each in line[name]
        )
    value = line[name]
    if value is None:
        return "unknown" if is_table else None
    if name in _MONEY and is_table:
        return usd(value)
    return "(none)" if is_table and value == "" else value


_WORDS: Final = {"yes": "holds", "no": "does not hold", "unsure": "may not hold", None: "unknown"}


def _note(found: Mapping[str, Any]) -> str:
    said = f"{found['month']}, {found['left_h']} h left from {found['until']} on; range of 80 %; by {found['basis_days']} days"
    if found["what_if"]:
        said += f"; what if: {', '.join(found['what_if'])}"
    if "idle_saved_usd" in found["total"]:
        said += f", {usd(found['total']['idle_saved_usd'])} less for idle nodes"
    return f"{said}\n"
