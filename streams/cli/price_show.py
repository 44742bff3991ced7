"""`trainfare prices show`: the prices that hold at an instant, since when, for what, and what comes next."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated

import typer

from schemas.escaping import visible
from schemas.events import MATCH_FIELDS, PriceEvent
from schemas.reserved import CANARY
from schemas.units import per_text
from streams.cli.options import DataOption, settings_for
from streams.cli.output import FormatOption, Grid, OutputFormat, write
from streams.cli.price_output import book_of, match_text, plain_usd
from streams.cli.reading import reader
from streams.clock import SystemClock
from streams.engine.pricing.gpu_types import product
from streams.errors import TrainfareError, WrongUseError
from streams.prices.instants import effective_ms, since
from streams.prices.label_gaps import label_gaps
from streams.prices.standing import Standing, standing

_COLUMNS = (
    "sku",
    "component",
    "usd",
    "per",
    "gpus",
    "since",
    "next_usd",
    "next_per",
    "next_gpus",
    "next_from",
)


def show(
    data: DataOption = None,
    at: Annotated[
        str | None, typer.Option(metavar="DATE", help="What held then: a date or an instant (UTC); else now.")
    ] = None,
    sku: Annotated[str | None, typer.Option(metavar="NAME", help="Only this SKU.")] = None,
    gpu_type: Annotated[
        str | None,
        typer.Option(metavar="TYPE", help="Only prices that apply to this type of GPU, by any of its names."),
    ] = None,
    form: FormatOption = OutputFormat.table,
) -> None:
    """Show the prices that hold: since when, for what, and what comes next."""
    at_ms = _at_ms(at)
    with reader(settings_for(data)) as store:
        book = book_of(store)
        gaps = label_gaps(store.records, book)
    found = [
        each
        for each in standing(book, at_ms)
        if (each.sku == sku if sku is not None else each.sku != CANARY)
        and (gpu_type is None or _is_for(each.latest.match.get("gpu_type"), gpu_type))
    ]
    if not found and (sku is not None or gpu_type is not None):
        what = f"sku {sku!r}" if sku is not None else f"gpu_type {gpu_type!r}"
        raise TrainfareError(f"{what}: no price in this store; `trainfare prices show` lists all")
    if not book:
        sys.stderr.write("no prices in this store yet; `trainfare prices load FILE` publishes some\n")
    write(_for_people(found) if form is OutputFormat.table else _for_programs(found), form)
    sys.stderr.writelines(f"trainfare: {visible(each)}\n" for each in gaps)


def _is_for(named: str | None, gpu_type: str) -> bool:
    return named is not None and product(named) == product(gpu_type)


def _at_ms(text: str | None) -> int:
    if text is None or not text.strip():
        return SystemClock().now_ms()
    try:
        return effective_ms(text)
    except ValueError:
        raise WrongUseError(
            f"--at {text}: no date or instant; expected e.g. 2026-10-01 or 2026-10-01T12:00Z"
        ) from None


def _for_people(found: list[Standing]) -> Grid:
    rows = [
        (
            each.sku,
            each.latest.component,
            plain_usd(each.now.usd_nano) if each.now else "none yet",
            per_text(each.latest.per, each.latest.gpus),
            since(each.now.effective_ms) if each.now else "",
            match_text(each.latest.match),
            _next(each),
        )
        for each in found
    ]
    return Grid(("sku", "component", "usd", "per", "since", "for", "next"), rows)


def _next(each: Standing) -> str:
    """The next revision, with all that it changes."""
    if each.then is None:
        return ""
    text = f"{plain_usd(each.then.usd_nano)} from {since(each.then.effective_ms)}"
    if each.now is None:
        return text
    if per_text(each.then.per, each.then.gpus) != per_text(each.now.per, each.now.gpus):
        text += f" per {per_text(each.then.per, each.then.gpus)}"
    return text + (f" for {match_text(each.then.match)}" if each.then.match != each.now.match else "")


def _for_programs(found: list[Standing]) -> Grid:
    """Every digit; a price that holds since ever does so since 1970."""
    rows = [
        (
            each.sku,
            each.latest.component,
            *_cells(each.now),
            *_cells(each.then),
            *(each.latest.match.get(name) for name in MATCH_FIELDS),
        )
        for each in found
    ]
    return Grid((*_COLUMNS, *MATCH_FIELDS), rows)


def _cells(event: PriceEvent | None) -> tuple[object, ...]:
    if event is None:
        return (None, None, None, None)
    at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=event.effective_ms)
    return (Decimal(event.usd_nano).scaleb(-9), event.per, event.gpus, at)
