"""Reads files of daily exchange rates and stores them: the European Central Bank's CSV, or `date,currency,usd`.

A rate is kept as the two numbers that it is made of, so that nothing is rounded before an amount is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import IO, Final, NamedTuple

import msgspec
import pyarrow as pa

from schemas.bill_tables import FX_RATES
from schemas.tables import SCHEMAS
from streams.bills import values
from streams.bills.columns import USD
from streams.bills.csv_lines import csv_records
from streams.bills.files import BillFile, refused_head
from streams.bills.loading import BillStore
from streams.bills.text_lines import TextLines
from streams.errors import WrongUseError

EUR: Final = "EUR"
#: 40 currencies since 1999 are 300,000.
RATES_MAX: Final = 1_000_000
_CODE: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_LONG_DAY: Final = "%d %B %Y"  # of the bank's file of one day
_ABSENT: Final = frozenset({"", "N/A", "-"})
_SAID_MAX: Final = 20
_WANTED: Final = "expected the European Central Bank's CSV (Date,USD,JPY,...), or columns date,currency,usd: dollars for one unit"


class Rate(NamedTuple):
    """So many units of a currency cost so many dollars."""

    units: Decimal
    dollars: Decimal


class RateKey(NamedTuple):
    """What a rate is of."""

    currency: str
    day_s: int  # its begin, since 1970


class RatesLoaded(msgspec.Struct, frozen=True):
    """What became of a file of rates."""

    name: str
    rates: int
    currencies: int
    first_day: str
    last_day: str
    new: int
    restated: int
    changes: list[str]  # the first of those that were restated, in words


def rates_of(file: BillFile) -> dict[RateKey, Rate]:
    """All rates of a file.

    Raises:
        WrongUseError: It is no file of rates, or a line is wrong; it is named.
    """
    with file.open() as stream:
        refused_head(file.name, stream)
        rows = _rows(file.name, stream)
        where, header = next(rows, ("", []))
        names = [name.strip() for name in header]
        lower = [name.lower() for name in names]
        if {"date", "currency", "usd"} <= set(lower):
            found = _listed(rows, lower)
        elif {"CURRENCY", "CURRENCY_DENOM", "TIME_PERIOD", "OBS_VALUE"} <= set(names):
            found = _observed(rows, names)
        elif lower[:1] == ["date"] and USD in names:
            found = _wide(rows, names)
        else:
            raise WrongUseError(f"{where or file.name}: is no file of exchange rates; {_WANTED}")
        rates: dict[RateKey, Rate] = {}
        for place, key, rate in found:
            if rates.setdefault(key, rate) != rate:
                raise WrongUseError(f"{place}: another rate of {key.currency} on that day stands before it")
            if len(rates) > RATES_MAX:
                raise WrongUseError(f"{file.name}: more than {RATES_MAX} rates; split it")
    if not rates:
        raise WrongUseError(f"{file.name}: has no rates")
    return rates


def load_rates(store: BillStore, files: Sequence[BillFile], now_ms: int) -> list[RatesLoaded]:
    """Store the rates of files; a rate that stands otherwise is restated, and every figure with it.

    Raises:
        WrongUseError: A file is wrong; nothing of any is stored.
    """
    given = [(file, rates_of(file)) for file in files]
    standing = {
        RateKey(str(row["currency"]), int(row["day"].timestamp())): row
        for row in store.select(FX_RATES).to_pylist()
    }
    version = max([now_ms, *(int(row["version"]) + 1 for row in standing.values())])
    rows: dict[RateKey, dict[str, object]] = {}
    found = []
    for file, rates in given:
        before = {key: Rate(row["units"], row["dollars"]) for key, row in standing.items() if key in rates}
        changed = {key: rate for key, rate in rates.items() if before.get(key) != rate}
        for key, rate in changed.items():
            rows[key] = standing[key] = _row(key, rate, file.name.rpartition("/")[2], now_ms, version)
        found.append(_loaded(file.name, rates, before, changed))
    if rows:
        table = pa.Table.from_pylist(list(rows.values()), schema=SCHEMAS[FX_RATES])
        store.insert(FX_RATES, table, f"fx-{version}-{len(rows)}")
    return found


def _row(key: RateKey, rate: Rate, source: str, now_ms: int, version: int) -> dict[str, object]:
    return {
        "currency": key.currency,
        "day": datetime.fromtimestamp(key.day_s, UTC),
        "units": rate.units,
        "dollars": rate.dollars,
        "source": source,
        "time": datetime.fromtimestamp(now_ms / 1_000, UTC),
        "version": version,
    }


def _loaded(
    name: str,
    rates: Mapping[RateKey, Rate],
    before: Mapping[RateKey, Rate],
    changed: Mapping[RateKey, Rate],
) -> RatesLoaded:
    restated = sorted(key for key in changed if key in before)
    days = [key.day_s for key in rates]
    return RatesLoaded(
        name=name,
        rates=len(rates),
        currencies=len({key.currency for key in rates}),
        first_day=_iso(min(days)),
        last_day=_iso(max(days)),
        new=len(changed) - len(restated),
        restated=len(restated),
        changes=[
            f"{key.currency} {_iso(key.day_s)}: {said(before[key])} becomes {said(changed[key])}"
            for key in restated[:_SAID_MAX]
        ],
    )


def said(rate: Rate) -> str:
    """A rate in words."""
    return f"{values.trimmed(rate.units)} for {values.trimmed(rate.dollars)} USD"


def _iso(day_s: int) -> str:
    return f"{datetime.fromtimestamp(day_s, UTC):%Y-%m-%d}"


_Found = Iterator[tuple[str, RateKey, Rate]]


def _listed(rows: Iterator[tuple[str, list[str]]], names: list[str]) -> _Found:
    """`date,currency,usd`: dollars for one unit."""
    at = {name: number for number, name in enumerate(names)}
    for where, cells in rows:
        currency, dollars = cells[at["currency"]].strip(), _number(where, "usd", cells[at["usd"]])
        _check_code(where, currency)
        if dollars is not None and currency != USD:
            yield where, RateKey(currency, _day(where, cells[at["date"]])), Rate(Decimal(1), dollars)


def _wide(rows: Iterator[tuple[str, list[str]]], names: list[str]) -> _Found:
    """A column per currency: its units for one euro."""
    for name in names[1:]:
        if name:
            _check_code("the header", name)
    dollar = names.index(USD)
    for where, cells in rows:
        dollars = _number(where, USD, cells[dollar])
        if dollars is None:
            raise WrongUseError(f"{where}: has no rate of the dollar")
        day_s = _day(where, cells[0])
        yield where, RateKey(EUR, day_s), Rate(Decimal(1), dollars)
        for name, cell in zip(names[1:], cells[1:], strict=True):
            if name and name not in (USD, EUR) and (units := _number(where, name, cell)) is not None:
                yield where, RateKey(name, day_s), Rate(units, dollars)


def _observed(rows: Iterator[tuple[str, list[str]]], names: list[str]) -> _Found:
    """The bank's data portal: a line per currency and day, its units for one euro."""
    at = {name: number for number, name in enumerate(names)}
    by_day: dict[int, dict[str, tuple[str, Decimal]]] = {}
    for where, cells in rows:
        currency, base = cells[at["CURRENCY"]].strip(), cells[at["CURRENCY_DENOM"]].strip()
        _check_code(where, currency)
        if base != EUR:
            raise WrongUseError(f"{where}: CURRENCY_DENOM: {values.shown(base)}, expected {EUR}")
        units = _number(where, "OBS_VALUE", cells[at["OBS_VALUE"]])
        if units is not None:
            by_day.setdefault(_day(where, cells[at["TIME_PERIOD"]]), {})[currency] = where, units
    for day_s, found in by_day.items():
        if USD not in found:
            where, _ = next(iter(found.values()))
            raise WrongUseError(f"{where}: the file has no rate of the dollar on that day")
        where, dollars = found.pop(USD)
        yield where, RateKey(EUR, day_s), Rate(Decimal(1), dollars)
        for currency, (place, units) in found.items():
            yield place, RateKey(currency, day_s), Rate(units, dollars)


def _rows(name: str, stream: IO[bytes]) -> Iterator[tuple[str, list[str]]]:
    return ((f"{name} line {number}", cells) for number, cells in csv_records(TextLines(name, stream)))


def _check_code(where: str, currency: str) -> None:
    if _CODE.fullmatch(currency) is None:
        raise WrongUseError(f"{where}: {values.shown(currency)} is no code of a currency such as EUR")


def _number(where: str, column: str, cell: str) -> Decimal | None:
    text = cell.strip()
    if text in _ABSENT:
        return None
    try:
        found, _ = values.number(text)
    except values.BadValueError as fault:
        raise WrongUseError(f"{where}: {column}: {fault}") from None
    if found <= 0:
        raise WrongUseError(f"{where}: {column}: {values.shown(text)}, expected more than 0")
    return found


def _day(where: str, cell: str) -> int:
    text = cell.strip()
    try:
        if len(text) <= 40 and " " in text:
            return int(datetime.strptime(text, _LONG_DAY).replace(tzinfo=UTC).timestamp())
        found = values.instant_s(text)
    except (values.BadValueError, ValueError):
        raise WrongUseError(f"{where}: {values.shown(text)} is no day such as 2026-10-01") from None
    return found - found % 86_400
