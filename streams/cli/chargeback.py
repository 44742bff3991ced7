"""`trainfare chargeback --month 2026-10 --by team`: a month charged to those who caused it, down to the last digit of the bill.

It must not add up money in floats, nor show a part as if it were the whole.
"""

from __future__ import annotations

import sys
from datetime import date, timedelta
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.reserved import USERS_JOBS
from streams.cli.files import must_be_new, write_new
from streams.cli.options import DataOption, levels_of, settings_for
from streams.cli.output import Grid, OutputFormat, plain, to_json, usd, write
from streams.cli.reading import Reader, reader
from streams.costs.shares import Rule
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from streams.costs.charging import Charge

_LEVELS: Final = ("team", "project", "owner", "experiment")
_COSTS: Final = """
SELECT {names}, sum(h.usd) AS cost_usd
FROM
(
    SELECT job_id, sum(gpu_cost_usd + compute_cost_usd + network_cost_usd + storage_cost_usd + license_cost_usd
        + labor_cost_usd + overhead_cost_usd) AS usd
    FROM job_hours FINAL
    WHERE hour >= {{first:String}} AND hour < {{until:String}} AND {users}
    GROUP BY job_id
) AS h
LEFT ANY JOIN (SELECT job_id, team, project, owner, experiment FROM jobs FINAL) AS j ON j.job_id = h.job_id
GROUP BY {names}
HAVING cost_usd != 0
LIMIT 1000000
"""
_IDLE: Final = """
SELECT sum(n.idle_cost_usd) AS idle_usd FROM node_hour_balance AS n WHERE n.hour >= {first:String} AND n.hour < {until:String}
"""
_KEPT: Final = """
SELECT toUInt32OrZero(max(value)) AS month FROM meta WHERE key = 'minutes_kept_from'
"""
_BILL: Final = """
SELECT sum(l.billed_cost) AS billed_usd, countIf(l.billing_currency = 'USD') AS lines, countIf(l.billing_currency != 'USD') AS others
FROM (SELECT billing_currency, if(billing_currency = 'USD', billed_cost, toDecimal128(0, 18)) AS billed_cost
      FROM billed_lines
      WHERE billing_period_start >= {first:String} AND billing_period_start < {until:String}) AS l
"""


class ChargebackFormat(StrEnum):
    """The output format of a month."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def chargeback(
    month: Annotated[str, typer.Option(metavar="MONTH", help="The month (UTC), e.g. 2026-10.")],
    data: DataOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL]", help="team (default), project, owner, experiment; may be repeated."
        ),
    ] = None,
    idle: Annotated[
        Rule, typer.Option(help="Share of idle time: even, weighted by cost, or none (a row of its own).")
    ] = Rule.NONE,
    form: Annotated[
        ChargebackFormat, typer.Option("--format", "-f", help="table, csv, json or parquet.")
    ] = ChargebackFormat.table,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write parquet to this file.")
    ] = None,
) -> None:
    """Charge a month to those who caused it; the parts sum exactly to the bill, or to what was metered."""
    from streams.costs.charging import charges

    if (form is ChargebackFormat.parquet) != (out is not None):
        raise WrongUseError("--format parquet needs --out FILE, and no other format takes it")
    if out is not None:
        must_be_new(out)
    levels = levels_of(by, _LEVELS, "team")
    span = month_of(month)
    with reader(settings_for(data)) as store:
        costs = _costs(store, levels, span)
        (balance,) = store.records(_IDLE, **span)
        (bill,) = store.records(_BILL, **span)
        (kept,) = store.records(_KEPT)
    billed = Decimal(str(bill["billed_usd"])) if bill["lines"] else None
    found = charges(costs, _nano(balance["idle_usd"]), idle, billed)
    grid = _grid(levels, found)
    if form is ChargebackFormat.parquet:
        _write_parquet(grid, out)
    elif form is ChargebackFormat.json:
        sys.stdout.write(to_json({"month": month, "totals": _totals(found), "rows": grid.records()}) + "\n")
    elif form is ChargebackFormat.csv:
        write(grid, OutputFormat.csv)
    else:
        _show(grid, found, len(levels) + 1)
    if int(month.replace("-", "")) < int(str(kept["month"])):
        sys.stderr.write(
            f"trainfare: the minutes of {month} were dropped (meter.minutes_retention_days): idle time is not charged\n"
        )
    if bill["others"]:
        sys.stderr.write(
            f"trainfare: {bill['others']} lines of the bill are not in USD and are charged to nobody\n"
        )


def month_of(text: str) -> dict[str, str]:
    """Return the first day of the month and the day after its last one.

    Raises:
        WrongUseError: It is no month.
    """
    try:
        first = date.fromisoformat(f"{text}-01")
    except ValueError:
        first = date.min
    if len(text) != 7 or not 1970 <= first.year < 2100:
        raise WrongUseError(f"--month {text}: expected a month such as 2026-10")
    return {"first": first.isoformat(), "until": (first + timedelta(days=32)).replace(day=1).isoformat()}


def _costs(store: Reader, levels: tuple[str, ...], span: dict[str, str]) -> dict[tuple[str, ...], int]:
    rows = store.ask(_COSTS.format(names=", ".join(levels), users=USERS_JOBS), **span).rows()
    return {tuple(map(str, row[:-1])): _nano(row[-1]) for row in rows}


def _nano(value: object) -> int:
    return int(Decimal(str(value)).scaleb(9))


def _grid(levels: tuple[str, ...], found: list[Charge]) -> Grid:
    columns = (*levels, "kind", "cost_usd", "idle_usd", "metered_usd", "billed_usd", "charge_usd")
    return Grid(columns, [(*each.names, each.kind, *each[2:]) for each in found])


def _totals(found: list[Charge]) -> dict[str, object]:
    metered = sum((each.metered_usd for each in found), Decimal(0))
    charged = sum((each.charge_usd for each in found), Decimal(0))
    is_billed = any(each.billed_usd is not None for each in found)
    return {"metered_usd": metered, "billed_usd": charged if is_billed else None, "charge_usd": charged}


def _show(grid: Grid, found: list[Charge], names: int) -> None:
    rows = [
        [cell if at < names else "" if cell is None else usd(cell) for at, cell in enumerate(row)]
        for row in grid.rows
    ]
    write(Grid(grid.columns, rows), OutputFormat.table)
    totals = _totals(found)
    if totals["billed_usd"] is None:
        sys.stdout.write(f"{plain(totals['charge_usd'])} USD as metered; no bill of this month is loaded\n")
    else:
        sys.stdout.write(
            f"{plain(totals['billed_usd'])} USD as billed, {plain(totals['metered_usd'])} USD as metered\n"
        )


def _write_parquet(grid: Grid, out: Path | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert out is not None  # the caller's check
    kinds = {name: pa.decimal128(38, 18) if name.endswith("_usd") else pa.string() for name in grid.columns}
    columns = {
        name: pa.array([row[at] for row in grid.rows], kinds[name]) for at, name in enumerate(grid.columns)
    }
    write_new(out, lambda file: pq.write_table(pa.table(columns), file))
