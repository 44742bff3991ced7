"""`trainfare prices amortize`: prices per GPU-hour of GPUs that are owned, and the schedule of their depreciation."""

from __future__ import annotations

import re
import sys
from decimal import Decimal
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final, NamedTuple

import msgspec
import typer

from schemas.counting import how_many
from schemas.events import MATCH_FIELDS
from schemas.units import NANO_PER_USD, USD_LIMIT
from schemas.wire_types import MIN_TIME_MS
from streams.cli.deeds import put_on_record
from streams.cli.files import must_be_new
from streams.cli.options import settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, to_json, write
from streams.cli.price_files import begin_ms, write_records
from streams.cli.price_output import plain_usd, price_grid, publish_prices
from streams.clock import SystemClock
from streams.errors import WrongUseError
from streams.prices.amortize import (
    CENTS_PER_USD,
    MAX_MONTHS,
    MONTHS_PER_YEAR,
    DepreciationPeriod,
    HourPrices,
    Purchase,
    hour_prices,
    schedule,
)
from streams.prices.records import PriceRecord, records_of
from streams.prices.source import PriceFormat, PriceList

_AMOUNT: Final = re.compile(r"[0-9]{1,15}(?:\.[0-9]{1,9})?", re.ASCII)
_SOURCE: Final = "trainfare prices amortize"


class _Result(NamedTuple):
    bought: Purchase
    records: list[PriceRecord]
    periods: list[DepreciationPeriod]


class SchedulePeriod(StrEnum):
    """The period of a line of the schedule."""

    year = "year"
    month = "month"


_MONTHS: Final = {SchedulePeriod.year: MONTHS_PER_YEAR, SchedulePeriod.month: 1}


def amortize(
    usd: Annotated[str, typer.Option(metavar="USD", help="Purchase price of all GPUs and their hosts.")],
    gpus: Annotated[int, typer.Option(min=1, max=1_000_000, help="How many GPUs were bought.")],
    years: Annotated[str, typer.Option(metavar="YEARS", help="Lifetime; whole months, e.g. 4 or 3.5.")],
    sku: Annotated[
        str, typer.Option(metavar="NAME", help="The SKUs are NAME.hardware, NAME.power, NAME.staff.")
    ],
    salvage: Annotated[str, typer.Option(metavar="USD", help="Value at the end of the lifetime.")] = "0",
    use: Annotated[
        str,
        typer.Option(metavar="SHARE", help="Share of all hours in which a GPU is expected to be paid for."),
    ] = "1",
    kw_per_gpu: Annotated[
        str,
        typer.Option(
            metavar="KW", help="Average draw per GPU, its share of the host and idle hours included."
        ),
    ] = "0",
    kw_per_node: Annotated[
        str, typer.Option(metavar="KW", help="Instead: average draw per node of --gpus-per-node.")
    ] = "0",
    gpus_per_node: Annotated[int, typer.Option(min=1, max=1_024, help="GPUs of a node.")] = 8,
    pue: Annotated[
        str,
        typer.Option(metavar="RATIO", help="Power usage effectiveness: all power / power of the machines."),
    ] = "1",
    usd_per_kwh: Annotated[str, typer.Option(metavar="USD", help="Price of power.")] = "0",
    staff_usd_per_year: Annotated[
        str, typer.Option(metavar="USD", help="What running them costs in staff.")
    ] = "0",
    match: Annotated[
        list[str] | None,
        typer.Option(metavar="FIELD=VALUE", help="What the prices apply to, e.g. gpu_type=H100; repeat it."),
    ] = None,
    begin: Annotated[str, typer.Option("--from", metavar="DATE", help="From when; else since ever.")] = "",
    per: Annotated[SchedulePeriod, typer.Option(help="A line of the schedule for each year or month.")] = (
        SchedulePeriod.year
    ),
    out: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the prices as JSON lines for `replay` and `publish`."),
    ] = None,
    publish: Annotated[bool, typer.Option("--publish", help="Publish the prices to Kafka.")] = False,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Make prices per GPU-hour from a purchase, its lifetime, power and staff, and print the schedule.

    Depreciation is straight line: every month an equal part of purchase less salvage, which sum to it exactly.
    """
    bought = Purchase(
        purchase_cents=_cents("--usd", usd),
        salvage_cents=_cents("--salvage", salvage),
        months=_months(years),
        gpus=gpus,
        use_ratio=_decimal("--use", use, "a share above 0, up to 1, e.g. 0.7", Decimal(1), above_0=True),
        kw=_kw(kw_per_gpu, kw_per_node, gpus, gpus_per_node),
        pue=_decimal("--pue", pue, "a ratio from 1 to 10, e.g. 1.3", Decimal(10), at_least=Decimal(1)),
        usd_per_kwh=_decimal("--usd-per-kwh", usd_per_kwh, "dollars, e.g. 0.12", Decimal(1_000)),
        staff_usd_per_year=_decimal("--staff-usd-per-year", staff_usd_per_year, "dollars", Decimal(10**12)),
    )
    if bought.salvage_cents > bought.purchase_cents:
        raise WrongUseError(f"--salvage {salvage}: more than the purchase price, {usd}")
    if out is not None and publish:
        raise WrongUseError(
            "--out and --publish: choose one; a file of prices is published by `trainfare publish`"
        )
    if out is not None:
        must_be_new(out)
    time_ms = (
        SystemClock().now_ms() if out is None else MIN_TIME_MS
    )  # a file must not move the clock of `replay`
    records = _records(sku, hour_prices(bought), match or [], begin, time_ms)
    if str(out) != "-":
        _print(_Result(bought, records, schedule(bought, _MONTHS[per])), per, form)
    if out is not None:
        write_records(out, records)
        sys.stderr.write(f"{how_many(len(records), 'price')} written to {out}\n")
    if publish:
        settings = settings_for()
        publish_prices(settings.kafka, records)
        put_on_record(settings, "prices", str(time_ms), f"amortized {sku}", len(records), own_log=False)


def _records(sku: str, prices: HourPrices, match: list[str], begin: str, time_ms: int) -> list[PriceRecord]:
    """A record for each part that costs something."""
    fields = dict(_match_field(each) for each in match)
    parts = (("hardware", "gpu"), ("power", "overhead"), ("staff", "labor"))
    lines = []
    for (name, component), usd_nano in zip(parts, prices, strict=True):
        if usd_nano >= USD_LIMIT * NANO_PER_USD:
            raise WrongUseError(f"{name}: more than {USD_LIMIT} dollars per GPU-hour; check the amounts")
        if usd_nano:
            record = {
                "sku": f"{sku}.{name}",
                "component": component,
                "usd": plain_usd(usd_nano),
                "per": "gpu_hour",
                "effective_ms": begin_ms(begin),
                **fields,
            }
            lines.append(msgspec.json.encode(record))
    if not lines:
        raise WrongUseError("nothing to pay for: purchase less salvage, power and staff are all 0")
    given = PriceList("prices amortize", b"\n".join(lines))
    return records_of(given, PriceFormat.jsonl, time_ms, _SOURCE)


def _match_field(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or name not in MATCH_FIELDS or not value:
        raise WrongUseError(f"--match {text}: expected FIELD=VALUE with a field of {', '.join(MATCH_FIELDS)}")
    return name, value


def _print(result: _Result, per: SchedulePeriod, form: OutputFormat) -> None:
    """Print the prices and the schedule; CSV is the schedule alone."""
    periods, bought = result.periods, result.bought
    lines: list[tuple[object, ...]] = [
        (each.number, *map(_usd, (each.opening, each.depreciation, each.closing))) for each in periods
    ]
    columns = (str(per), "opening_usd", "depreciation_usd", "closing_usd")
    if form is OutputFormat.csv:
        write(Grid(columns, lines), form)
        return
    total_nano = sum(each.event.usd_nano for each in result.records)
    hours = bought.used_gpu_hours
    if form is OutputFormat.json:
        prices = [
            {"sku": each.event.sku, "component": each.event.component, "usd": plain_usd(each.event.usd_nano)}
            for each in result.records
        ]
        whole = {
            "usd_per_gpu_hour": plain_usd(total_nano),
            "gpu_hours": plain_usd(round(hours * NANO_PER_USD)),
        }
        shown = {**whole, "prices": prices, "schedule": Grid(columns, lines).records()}
        sys.stdout.write(to_json(shown) + "\n")
        return
    sys.stdout.write(f"Per GPU-hour, of {float(hours):,.0f} expected in {bought.months} months\n")
    table = price_grid(result.records)
    write(Grid(table.columns[1:], [row[1:] for row in table.rows]), form)
    sys.stdout.write(f"together {plain_usd(total_nano)} USD per GPU-hour\n\nDepreciation, straight line\n")
    total = sum(each.depreciation for each in periods)
    people = [(str(row[0]), *(f"{cell:,}" for cell in row[1:])) for row in lines]
    write(
        Grid(
            (str(per), "opening", "depreciation", "closing"), [*people, ("all", "", f"{_usd(total):,}", "")]
        ),
        form,
    )


def _usd(cents: int) -> Decimal:
    return Decimal(cents).scaleb(-2)


def _decimal(
    option: str,
    text: str,
    expected: str,
    at_most: Decimal,
    *,
    at_least: Decimal = Decimal(0),
    above_0: bool = False,
) -> Decimal:
    value = Decimal(text) if _AMOUNT.fullmatch(text) else Decimal(-1)
    if not at_least <= value <= at_most or (above_0 and value == 0):
        raise WrongUseError(f"{option} {text}: expected {expected}")
    return value


def _cents(option: str, text: str) -> int:
    cents = (
        _decimal(option, text, "dollars and cents, e.g. 250000 or 1999.99", Decimal(10**15)) * CENTS_PER_USD
    )
    if cents % 1:
        raise WrongUseError(f"{option} {text}: expected whole cents")
    return int(cents)


def _months(text: str) -> int:
    months = _decimal("--years", text, "years, e.g. 4 or 3.5", Decimal(1_000)) * MONTHS_PER_YEAR
    if months % 1 or not 0 < months <= MAX_MONTHS:
        raise WrongUseError(f"--years {text}: expected whole months, from a month to 50 years, e.g. 4 or 3.5")
    return int(months)


def _kw(per_gpu: str, per_node: str, gpus: int, gpus_per_node: int) -> Decimal:
    """The draw of all of it; nodes are whole."""
    by_gpu = _decimal("--kw-per-gpu", per_gpu, "kilowatts, e.g. 1.3", Decimal(1_000))
    by_node = _decimal("--kw-per-node", per_node, "kilowatts, e.g. 10.2", Decimal(100_000))
    if by_gpu and by_node:
        raise WrongUseError("--kw-per-gpu and --kw-per-node: give one; the other would count the power twice")
    return by_gpu * gpus if by_gpu else by_node * -(-gpus // gpus_per_node)
