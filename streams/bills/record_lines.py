"""Makes lines in FOCUS's terms of the records of another format, each with all of its own columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from streams.bills import values
from streams.bills.columns import COLUMNS, ColumnKind
from streams.bills.formats.record import BillFindings, BillFormat, BillRecord, Charge, flat, is_missing
from streams.bills.formats.record import plain as plain_name
from streams.bills.lines import BillLine, checked_value, fault_of
from streams.errors import WrongUseError

_SECOND: Final = timedelta(seconds=1)
#: What a column has that a charge does not say.
_EMPTY: Final[Mapping[ColumnKind, Any]] = {ColumnKind.TEXT: "", ColumnKind.NUMBER: None}


class RecordLineReader:
    """Checks the lines of one file, whose columns it is given first.

    A line is numbered by its place; if a record makes several charges or none, those after it count on, so that no two
    have one number.
    """

    def __init__(
        self, file: str, names: Sequence[str], form: BillFormat, findings: BillFindings, issuer: str
    ) -> None:
        self._file = file
        self._names = names
        self._form = form
        self._findings = findings
        self._issuer = issuer
        self._further = 0  # charges of earlier lines, beyond one each
        #: What was nested in the cells of a column, if it is to be known which columns were asked for.
        self._inner: dict[str, dict[str, None]] = {}

    @property
    def unread(self) -> list[str]:
        """The columns, and what is nested in their cells, that mean nothing to the format."""
        asked: AbstractSet[str] = self._findings.asked or frozenset()
        columns = (name for name in self._names if name and plain_name(name) not in asked)
        return [
            each
            for name in columns
            for each in self._inner.get(name, (name,))
            if plain_name(each) not in asked
        ]

    def read(self, number: int, place: str, cells: Sequence[object]) -> Sequence[BillLine]:
        """The charges of a line.

        Raises:
            WrongUseError: A value is missing or wrong.
        """
        given = {
            name: cell for name, cell in zip(self._names, cells, strict=True) if name and not is_missing(cell)
        }
        return self.read_record(number, place, given)

    def read_record(self, number: int, place: str, given: Mapping[str, object]) -> Sequence[BillLine]:
        """The charges of a record, of which every column that has a value is kept.

        Raises:
            WrongUseError: A value is missing or wrong.
        """
        named = self._unfolded(given) if self._form.is_nested else given
        record = BillRecord(named, self._findings, self._issuer)
        name = ""
        try:
            other = []
            for name, cell in given.items():
                if not is_missing(cell):
                    other.append((name, values.text(cell)))
            name = ""
            charges = list(self._form.of(record))
        except values.BadValueError as fault:
            raise self._refused(place, f"{name or record.column}: {fault}") from None
        found = [
            self._line(number + self._further + at, place, each, other) for at, each in enumerate(charges)
        ]
        self._further += max(len(found) - 1, 0)
        return found

    def _unfolded(self, given: Mapping[str, object]) -> dict[str, object]:
        """The cells, and what is in objects among them, whether these are JSON in a cell or values of Parquet."""
        found: dict[str, object] = {}
        for name, cell in given.items():
            inner = dict(flat({name: _opened(cell)}))
            if self._findings.asked is not None and name not in inner:
                self._inner.setdefault(name, {}).update(dict.fromkeys(inner))
            found |= inner
        return found

    def _line(self, number: int, place: str, charge: Charge, other: list[tuple[str, str]]) -> BillLine:
        found: list[Any] = []
        rounded = 0
        for column in COLUMNS:
            cell = charge.get(column.name)
            if column.kind is ColumnKind.INSTANT:
                cell = _ended(charge, column.name)
            elif isinstance(cell, str) and column.kind is ColumnKind.TEXT:
                cell = cell.strip()
            elif cell is None and column.kind in _EMPTY:
                found.append(_EMPTY[column.kind])
                continue
            try:
                value, was_rounded = checked_value(column.kind, cell)
            except values.BadValueError as fault:
                raise self._refused(place, f"{self._form.source_of(column.name)}: {fault}") from None
            rounded += was_rounded
            found.append(value)
        line = BillLine(number, tuple(found), other, rounded)
        if fault_said := fault_of(line):
            raise self._refused(place, fault_said)
        return line

    def _refused(self, place: str, fault: str) -> WrongUseError:
        return WrongUseError(f"{self._file} {place}: {fault}; nothing of this file is loaded")


def _ended(charge: Charge, name: str) -> object:
    """The bounds of a period: what is at an instant takes a second, for FOCUS knows no charge without time."""
    cell = charge.get(name)
    start = charge.get("charge_period_start")
    if name == "charge_period_end" and isinstance(cell, datetime) and cell == start:
        return cell + _SECOND
    return cell


def _opened(cell: object) -> object:
    """The object that is JSON in a cell; other cells as they are."""
    if isinstance(cell, str) and cell.startswith("{") and len(cell) <= values.TEXT_MAX_BYTES:
        try:
            opened: object = msgspec.json.Decoder(float_hook=str).decode(cell)
        except (msgspec.MsgspecError, RecursionError):
            return cell  # a text that begins so
        return opened
    return cell
