"""Checks one line of a bill and makes rows of `bill_lines` of many."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import pyarrow as pa

from schemas.bill_tables import BILL_LINES
from schemas.tables import SCHEMAS
from schemas.wire_types import MAX_NAME_BYTES
from streams.bills import values
from streams.bills.columns import CHARGE_CATEGORIES, COLUMNS, CORRECTION, MANDATORY, ColumnKind, FocusColumn
from streams.bills.formats.record import is_missing, plain
from streams.errors import WrongUseError

_CURRENCY: Final = re.compile(r"[A-Z]{3}", re.ASCII)
_COLUMNS_MAX: Final = 1_000
_SEPARATORS: Final = {
    ";": "semicolons; write it with commas, and points in numbers",
    "\t": "tabs; write it with commas",
}


class BillLine(NamedTuple):
    """One checked line: the values of `COLUMNS` in their order, the others by name, and what was rounded."""

    number: int
    values: tuple[Any, ...]
    other: list[tuple[str, str]]
    rounded: int

    def of(self, name: str) -> Any:
        """The value of a column."""
        return self.values[_PLACE[name]]

    def with_value(self, name: str, value: Any) -> BillLine:
        """The same with another value of a column."""
        at = _PLACE[name]
        return self._replace(values=(*self.values[:at], value, *self.values[at + 1 :]))

    @property
    def fingerprint(self) -> int:
        """A hash of all that it has, good within this process."""
        return hash((self.number, self.content_hash, *self.other))

    @property
    def content_hash(self) -> int:
        """A hash of the values of `COLUMNS`, good within this process: the same wherever the line stands in a file."""
        return hash(tuple(tuple(value) if isinstance(value, list) else value for value in self.values))

    @property
    def text_chars(self) -> int:
        """How many characters its texts have, for a bound of memory."""
        pairs = sum(len(name) + len(text) for name, text in (*self.other, *self.of("tags")))
        return pairs + sum(len(value) for value in self.values if isinstance(value, str))


_PLACE: Final = {column.name: at for at, column in enumerate(COLUMNS)}


def checked_names(where: str, header: Sequence[str]) -> list[str]:
    """The names of a file's columns.

    Raises:
        WrongUseError: They are too many or too long, or one stands twice.
    """
    names = [name.strip() for name in header]
    for separator, said in _SEPARATORS.items():
        if len(names) == 1 and names[0].count(separator) >= 2:
            raise WrongUseError(f"{where}: its columns are separated by {said}")
    if len(names) > _COLUMNS_MAX:
        raise WrongUseError(f"{where}: more than {_COLUMNS_MAX} columns; is it a bill?")
    for name in names:
        if len(name.encode("utf-8", "surrogatepass")) > MAX_NAME_BYTES:
            raise WrongUseError(
                f"{where}: the name of column {values.shown(name)} is longer than {MAX_NAME_BYTES} bytes"
            )
    doubled = sorted(name for name, count in Counter(names).items() if count > 1)
    if doubled:
        raise WrongUseError(f"{where}: column {values.shown(doubled[0])} stands twice")
    return names


class FocusLineReader:
    """Checks the lines of one file in the FOCUS format, whose columns it is given first.

    Raises:
        WrongUseError: A mandatory column is missing.
    """

    def __init__(self, file: str, where: str, names: Sequence[str]) -> None:
        self._file = file
        at = {name: number for number, name in enumerate(names)}
        alike = {plain(name): number for name, number in at.items()}
        self._typed: list[tuple[FocusColumn, int | None]] = []
        for column in COLUMNS:
            found = next((at[name] for name in column.headers if name in at), None)
            if found is None:  # a database wrote the names in lower or upper case
                found = next((alike[plain(name)] for name in column.headers if plain(name) in alike), None)
            if found is None and column.name in MANDATORY:
                raise WrongUseError(
                    f"{where}: mandatory column {' or '.join(column.headers)} is missing; "
                    "expected a bill in the FOCUS format, version 1.0 to 1.3"
                )
            self._typed.append((column, found))
        taken = {found for _, found in self._typed}
        self._other = [(name, number) for name, number in at.items() if number not in taken and name]

    @property
    def unread(self) -> list[str]:
        """The columns that are kept as they are, in `other`."""
        return [name for name, _ in self._other]

    def read(self, number: int, place: str, cells: Sequence[object]) -> Sequence[BillLine]:
        """The checked line, alone.

        Raises:
            WrongUseError: A value is missing or wrong.
        """
        found: list[Any] = []
        rounded = 0
        header = ""
        try:
            for column, at in self._typed:
                header = column.headers[0]
                value, was_rounded = checked_value(column.kind, None if at is None else cells[at])
                rounded += was_rounded
                found.append(value)
            other = []
            for header, at in self._other:
                cell = cells[at]
                if not is_missing(cell):
                    other.append((header, values.text(cell)))
            line = BillLine(number, tuple(found), other, rounded)
            header = fault_of(line)
        except values.BadValueError as fault:
            raise WrongUseError(
                f"{self._file} {place}: {header}: {fault}; nothing of this file is loaded"
            ) from None
        if header:
            raise WrongUseError(f"{self._file} {place}: {header}; nothing of this file is loaded")
        return (line,)


def rows_of(load_id: str, lines: Sequence[BillLine], version: int) -> pa.Table:
    """Rows of `bill_lines`."""
    schema = SCHEMAS[BILL_LINES]
    columns: dict[str, Any] = {
        "load_id": [load_id] * len(lines),
        "line": [line.number for line in lines],
        "other": [line.other for line in lines],
        "version": [version] * len(lines),
    }
    for name, at in _PLACE.items():
        columns[name] = [line.values[at] for line in lines]
    arrays = [_array(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(found: list[Any], kind: pa.DataType) -> pa.Array:
    if pa.types.is_timestamp(kind):
        return pa.array(found, pa.int64()).cast(kind)
    return pa.array(found, kind)


def checked_value(kind: ColumnKind, cell: object) -> tuple[Any, bool]:
    """A cell as its column is stored, and whether it was rounded.

    Raises:
        BadValueError: It is missing where it must not be, or cannot be read.
    """
    if is_missing(cell):
        if kind in (ColumnKind.NAME, ColumnKind.COST, ColumnKind.INSTANT, ColumnKind.DAY):
            raise values.BadValueError("is missing")
        empty: Mapping[ColumnKind, Any] = {ColumnKind.TEXT: "", ColumnKind.NUMBER: None, ColumnKind.TAGS: []}
        return empty[kind], False
    if kind in (ColumnKind.COST, ColumnKind.NUMBER):
        return values.number(cell)
    if kind is ColumnKind.INSTANT:
        return values.instant_s(cell), False
    if kind is ColumnKind.DAY:
        return values.day_s(cell), False
    if kind is ColumnKind.TAGS:
        return values.tags(cell), False
    return values.text(cell), False


def fault_of(line: BillLine) -> str:
    """What is wrong with values of a line that are readable on their own; empty if nothing is."""
    category, charge_class = line.of("charge_category"), line.of("charge_class")
    if category not in CHARGE_CATEGORIES:
        return f"ChargeCategory: {values.shown(category)} is none of {', '.join(sorted(CHARGE_CATEGORIES))}"
    if charge_class not in ("", CORRECTION):
        return f"ChargeClass: {values.shown(charge_class)} is neither empty nor {CORRECTION}"
    if _CURRENCY.fullmatch(line.of("billing_currency")) is None:
        return f"BillingCurrency: {values.shown(line.of('billing_currency'))} is no code such as USD"
    if (rate := line.of("units_per_usd")) is not None and rate <= 0:
        return f"the rate of the invoice is {rate:f}, expected more than 0"
    for period in ("billing", "charge"):
        if line.of(f"{period}_period_end") <= line.of(f"{period}_period_start"):
            return f"{period.capitalize()}PeriodEnd is not after {period.capitalize()}PeriodStart"
    return ""
