"""`trainfare chargeback --month 2026-10 --by team`: a month charged to those who caused it, down to the last digit of the bill."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from schemas.counting import how_many
from schemas.escaping import visible
from streams.calendar import PLAIN
from streams.cli.files import must_be_new, write_new
from streams.cli.options import DataOption, levels_of, settings_for
from streams.cli.output import Grid, OutputFormat, money, plain, to_json, write
from streams.cli.reading import reader
from streams.cli.spans import days_of_month
from streams.clock import SystemClock
from streams.costs.charge_sql import BillCost
from streams.costs.parts import HourSpan
from streams.costs.request import calendar_of, currency_of, instant_of
from streams.costs.shares import Rule
from streams.costs.variance import CAUSE_COLUMNS
from streams.errors import WrongUseError

if TYPE_CHECKING:
    from streams.costs.charge_lines import Where
    from streams.costs.charging import Charged
    from streams.costs.month_reader import BillsOfMonth

_LEVELS: Final = ("team", "project", "owner", "experiment", "job")
_WHERE: Final = ("account", "provider", "service")
#: Columns that the table leaves out where they have nothing to say.
_MAY_BE_EMPTY: Final = (
    *_WHERE,
    "overcommitted_cost_usd",
    "unallocated_usd",
    "license_cost_usd",
    "labor_cost_usd",
    "overhead_cost_usd",
    *CAUSE_COLUMNS,
)
_SUMS: Final = ("metered_usd", "overcommitted_cost_usd", "billed_usd", "unallocated_usd", "only_metered_usd")
_APART: Final = ("license_cost_usd", "labor_cost_usd", "overhead_cost_usd")


class ChargebackFormat(StrEnum):
    """The output format of a month."""

    table = "table"
    csv = "csv"
    json = "json"
    parquet = "parquet"


def chargeback(
    month: Annotated[
        str,
        typer.Option(
            metavar="MONTH", help="The month, e.g. 2026-10: of UTC, as bills are; with --tz of that zone."
        ),
    ],
    data: DataOption = None,
    by: Annotated[
        list[str] | None,
        typer.Option(
            metavar="LEVEL[,LEVEL]", help="team (default), project, owner, experiment, job; may be repeated."
        ),
    ] = None,
    idle: Annotated[
        Rule,
        typer.Option(
            help="Share of idle time, within its cluster and GPU type: even, weighted by cost, or none (a row of its own)."
        ),
    ] = Rule.NONE,
    share_unallocated: Annotated[
        Rule,
        typer.Option(
            help="Share of billed lines that no job used, within their account: even, weighted by cost, or none (rows of their own)."
        ),
    ] = Rule.NONE,
    cost: Annotated[
        BillCost,
        typer.Option(help="Which cost of billed lines: billed (cash), effective (amortised) or list."),
    ] = BillCost.effective,
    where: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="account, provider or service; may be repeated."),
    ] = None,
    currency: Annotated[
        str,
        typer.Option(
            metavar="CODE",
            help="Show the charge in this currency, too, at the last rate of the month: e.g. EUR.",
        ),
    ] = "",
    is_explained: Annotated[
        bool,
        typer.Option(
            "--variance",
            help="Also why jobs were billed otherwise than metered, in dollars by cause, and which prices would be right.",
        ),
    ] = False,
    tz: Annotated[
        str,
        typer.Option(
            "--tz",
            metavar="ZONE",
            help="What was metered, without bills, in the month of this time zone, e.g. Europe/Berlin.",
        ),
    ] = "",
    form: Annotated[
        ChargebackFormat, typer.Option("--format", "-f", help="table, csv, json or parquet.")
    ] = ChargebackFormat.table,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write parquet to this file.")
    ] = None,
) -> None:
    """Charge a month to those who caused it; the parts sum exactly to the bill and what is only metered."""
    from streams.cli.bill_months import say_utc_month
    from streams.cli.chargeback_variance import right_prices_of, show_prices, with_variance
    from streams.cli.shown_currency import rate_of, with_currency
    from streams.costs.allocating import month_bills
    from streams.costs.charging import Rules, charges
    from streams.costs.closing import closed_months
    from streams.costs.month_reader import MonthReader

    if (form is ChargebackFormat.parquet) != (out is not None):
        raise WrongUseError("--format parquet needs --out FILE, and no other format takes it")
    if out is not None:
        must_be_new(out)
    levels = levels_of(by, _LEVELS, "team")
    code = currency_of("--currency", currency)
    settings = settings_for(data)
    # A month is charged as its bills are, and as it is closed: by UTC, whatever calendar is the usual one.
    usual = settings.calendar.calendar()
    calendar = calendar_of("--tz", tz, usual) if tz else PLAIN
    hours = HourSpan(*(instant_of("--month", day, calendar) for day in days_of_month(month, calendar)))
    first, until = days_of_month(month)
    span = {"first": first, "until": until}
    shown = where_of(where or [])
    if is_explained and where:
        raise WrongUseError("--variance is of whole jobs: it takes no --where")
    rules = Rules(idle, share_unallocated, shown)
    with reader(settings) as store:
        source = MonthReader(store, span, levels, cost, hours)
        bills = month_bills(store, source, cost, rules) if is_explained else None
        charged = charges(source.month(), rules) if bills is None else bills.charged
        prices = [] if bills is None else right_prices_of(store, bills, span)
        closed = closed_months(store).get(month)
        rate = rate_of(store, code, month, SystemClock().now_ms()) if code else None
    grid = _grid(levels, charged)
    if bills is not None:
        grid = with_variance(grid, bills, len(levels))
    if rate is not None:
        grid = with_currency(grid, rate)
    totals = _totals(charged)
    if form is ChargebackFormat.parquet:
        _write_parquet(grid, out)
    elif form is ChargebackFormat.json:
        found = {
            "month": month,
            "tz": calendar.zone,
            "cost": cost.value,
            "where": where or [],
            "totals": totals,
            "rows": grid.records(),
            **({} if rate is None else {"rate": rate.record()}),
            **({} if bills is None else {"prices": prices}),
        }
        sys.stdout.write(to_json(found) + "\n")
    elif form is ChargebackFormat.csv:
        write(grid, OutputFormat.csv)
    else:
        _show(grid, totals, cost, code)
        show_prices(prices)
        if rate is not None:
            sys.stdout.write(f"{rate.converted(totals['charge_usd'])} at {rate.words()}\n")
    notes = _notes(charged, source.bills, cost, month, is_dropped=source.is_dropped)
    if closed is not None:
        notes.append(
            f"{month} is closed since {closed.read().closed}: this is what it would be charged now, and `trainfare statement` says what it was"
        )
    sys.stderr.write("".join(f"trainfare: {note}\n" for note in notes))
    if not tz:
        say_utc_month(month, usual)


def where_of(given: Sequence[str]) -> Where:
    """The conditions: of one name either value, of several names all.

    Raises:
        WrongUseError: One is no condition.
    """
    from streams.costs.charge_lines import Where

    found: dict[str, set[str]] = {name: set() for name in _WHERE}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign or not value or name not in found:
            raise WrongUseError(
                f"--where {visible(text[:80])}: expected NAME=VALUE, where NAME is one of {', '.join(_WHERE)}"
            )
        found[name].add(value.lower() if name == "service" else value)
    return Where(*(frozenset(found[name]) for name in _WHERE))


def _grid(levels: tuple[str, ...], charged: Charged) -> Grid:
    from streams.costs.charging import Charge

    return Grid((*levels, *Charge._fields[1:]), [(*each.names, *each[1:]) for each in charged.rows])


def _totals(charged: Charged) -> dict[str, object]:
    from streams.costs.charging import total

    return {name: total(charged.rows, name) for name in (*_SUMS, *_APART, "charge_usd")}


def _show(grid: Grid, totals: dict[str, object], cost: BillCost, currency: str) -> None:
    codes = [
        "USD" if column.endswith("_usd") else currency if column == "charge" else ""
        for column in grid.columns
    ]
    shown = [
        at
        for at, column in enumerate(grid.columns)
        if column not in _MAY_BE_EMPTY or any(row[at] for row in grid.rows)
    ]
    rows = [
        [
            "" if row[at] is None else money(row[at], codes[at]) if codes[at] else plain(row[at])
            for at in shown
        ]
        for row in grid.rows
    ]
    write(Grid(tuple(grid.columns[at] for at in shown), rows), OutputFormat.table)
    if totals["billed_usd"] is None:
        sys.stdout.write(
            f"{plain(totals['charge_usd'] or 0)} USD as metered; no bill of this month is loaded\n"
        )
        return
    kept = [("as billed" if cost is BillCost.billed else f"of {cost.value} cost", totals["billed_usd"])]
    kept += [("only metered", totals["only_metered_usd"])]
    kept += [(name.removesuffix("_cost_usd"), totals[name]) for name in _APART if totals[name]]
    parts = " + ".join(f"{plain(amount)} {what}" for what, amount in kept)
    sys.stdout.write(
        f"{plain(totals['charge_usd'])} USD = {parts}; {plain(totals['metered_usd'])} USD were metered\n"
    )


def _notes(
    charged: Charged, bills: BillsOfMonth, cost: BillCost, month: str, *, is_dropped: bool
) -> list[str]:
    """What a reader would not expect, and what mends it."""
    from streams.cli.shown_currency import LOADS_RATES, converted_words

    notes = []
    if is_dropped:
        notes.append(
            f"the minutes of {month} were dropped (meter.minutes_retention_days): idle time is not charged, "
            "and no line finds the jobs of its resource"
        )
    notes += [f"{each.words}; {LOADS_RATES}" for each in bills.unrated]
    notes += [f"converted: {converted_words(row)}" for row in bills.converted]
    if cost is not BillCost.billed and bills.commitments:
        notes.append(
            f"{how_many(bills.commitments, 'purchase of a commitment', 'purchases of commitments')}, of {plain(bills.commitments_usd)} USD billed: "
            "in --cost billed alone"
        )
    if cost is not BillCost.billed and bills.billed_usd and not bills.with_amount:
        notes.append(
            f"the bill has no {cost.value} cost, and {plain(bills.billed_usd)} USD were billed: --cost billed charges these"
        )
    if charged.without_line_usd and not is_dropped:
        notes.append(
            f"{plain(charged.without_line_usd)} USD were metered on resources that the bill of their account and day does not "
            "name: they are not charged; `trainfare bills reconcile --by account,resource` lists both sides, and a tag "
            "trainfare_node or trainfare_job joins them"
        )
    notes += [
        f"{plain(usd)} USD are billed by {provider} on resources that were metered on {cloud}: nobody pays them, and what was "
        f"metered there is charged, too. If they are the same, load the bill with --issuer {cloud}, or let events name the cloud {provider}"
        for (provider, cloud), usd in sorted(charged.other_cloud_usd.items())
    ]
    if charged.without_account_usd and bills.lines:
        notes.append(
            f"{plain(charged.without_account_usd)} USD were metered without an account, on resources that no bill of their cloud names: "
            "they are charged as metered; jobs and nodes may say their `account`"
        )
    return notes


def _write_parquet(grid: Grid, out: Path | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    assert out is not None  # the caller's check
    kinds = {
        name: pa.decimal128(38, 18) if name.endswith("_usd") or name == "charge" else pa.string()
        for name in grid.columns
    }
    columns = {
        name: pa.array([row[at] for row in grid.rows], kinds[name]) for at, name in enumerate(grid.columns)
    }
    write_new(out, lambda file: pq.write_table(pa.table(columns), file))
