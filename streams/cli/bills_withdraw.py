"""`trainfare bills withdraw LOAD`: lets a load of a bill stand no more, and first shows what goes by service."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.cli.options import DataOption, UrlOption, check_one_of, settings_for
from streams.cli.output import Grid, OutputFormat, usd, write
from streams.cli.reading import reader, reader_at

_LOADS: Final = """
SELECT load_id, file, status, lines, billed_usd, billing_period_start, billing_period_end, version
FROM bill_loads FINAL WHERE startsWith(load_id, {load:String}) LIMIT 10000"""
_SERVICES: Final = """
SELECT service_name AS service, billing_currency AS currency, count() AS lines, sum(billed_cost) AS billed, sum(effective_cost) AS effective
FROM bill_lines FINAL WHERE load_id = {load:String}
GROUP BY service, currency ORDER BY billed DESC, service, currency LIMIT 1000"""


def withdraw(
    load: Annotated[
        str,
        typer.Argument(
            metavar="LOAD", help="The load_id of `bills list`, or its first 8 characters or more."
        ),
    ],
    data: DataOption = None,
    is_trial: Annotated[
        bool, typer.Option("--dry-run", help="Withdraw nothing; show the sums by service that would go.")
    ] = False,
    url: UrlOption = None,
) -> None:
    """Withdraw a bill that was loaded wrongly, as under another issuer; of a closed month it is refused."""
    check_one_of(data, url)
    from streams.bills.withdrawing import load_named, refuse_closed
    from streams.costs.loaded_bills_sql import CLOSED

    settings = settings_for(data)
    with reader(settings) if url is None else reader_at(url, settings) as store:
        found = load_named(store.records(_LOADS, load=load), load)
        sums = store.ask(_SERVICES, load=found.load_id)
        rows = [(*row[:3], usd(row[3]), usd(row[4])) for row in sums.rows()]
        write(Grid(sums.names, rows), OutputFormat.table)
        said = f"{visible(found.file)}: {how_many(found.lines, 'line')}, {usd(found.billed_usd)} USD of {', '.join(found.months)}"
        refuse_closed(found, [str(row["name"]) for row in store.records(CLOSED)])
        if is_trial:
            sys.stdout.write(f"{said} would be withdrawn; nothing is\n")
            return
        if url is None:
            store.withdraw_bill(found.load_id)
            store.allocate_bills()
    if url is not None:
        with reader_at(url, settings, writes=True) as store:
            store.withdraw_bill(found.load_id)
            store.allocate_bills()
    sys.stdout.write(f"{said} is withdrawn; loading the same file again puts it back\n")
