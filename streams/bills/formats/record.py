"""One record of a bill by the names of its columns, and what a format declares about them.

Names are compared without case and punctuation, so `lineItem/UsageAmount`, `line_item_usage_amount` and `LineItemUsageAmount` are one.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import msgspec

from streams.bills import values

#: A missing value is an empty cell, a NULL of Parquet, or the word.
_NULL: Final = "NULL"
_US_DAY: Final = re.compile(r"(\d{1,2})/(\d{1,2})/(\d{4})", re.ASCII)
_ZONE: Final = re.compile(r" ?UTC$")
_MONTH: Final = re.compile(r"(\d{4})-?(\d{2})", re.ASCII)

#: A charge: columns of `bill_lines`, not checked yet.
Charge = dict[str, Any]


@lru_cache(maxsize=8_192)
def plain(name: str) -> str:
    """The name of a column without case and punctuation."""
    return "".join(each for each in name.lower() if each.isalnum())


def is_missing(cell: object) -> bool:
    """Whether a cell has no value."""
    return cell is None or (isinstance(cell, str) and cell in ("", _NULL))


@dataclass
class BillFindings:
    """What was found out while a file was read, beside its lines."""

    notes: Counter[str] = field(default_factory=Counter)  # what was read in a way that its reader should know
    taken_back_units: int = (
        0  # of covered usage and of what takes its price back, in 10^-18 of the currency: 0
    )
    kind: str = (
        ""  # of a format that has several kinds of export: which one the lines are of; empty: none shows it
    )
    asked: set[str] | None = None  # the columns that were asked for, if that is to be known

    def note(self, said: str) -> None:
        """Count a line; `said` follows "2 lines"."""
        self.notes[said] += 1


class BillRecord:
    """The cells of one line or row, and of what is nested in them, by `plain` names.

    Args:
        cells: The cells that have a value, by the names in the file.
        findings: Of the file.
        issuer: Whom the file does not name, and its reader does; empty: nobody.
    """

    def __init__(self, cells: Mapping[str, object], findings: BillFindings, issuer: str) -> None:
        self._cells: dict[str, object] = {}
        for name, cell in cells.items():
            self._cells.setdefault(plain(name), cell)
        self.names = cells
        self.findings = findings
        self.issuer = issuer
        self.column = ""  # that was asked for last, for what is said of a fault

    def cell(self, *names: str) -> object:
        """The first of the columns that has a value; None: none has."""
        if self.findings.asked is not None:
            self.findings.asked.update(map(plain, names))
        self.column = names[0]
        for name in names:
            found = self._cells.get(plain(name))
            if not is_missing(found):
                self.column = name
                return found
        return None

    def text(self, *names: str) -> str:
        """The same as text; empty: none has a value."""
        return values.text(self.cell(*names)).strip()

    def number(self, *names: str) -> Decimal | None:
        """The same as a number.

        Raises:
            BadValueError: It is none.
        """
        found = self.cell(*names)
        return None if found is None else values.number(found)[0]

    def cost(self, *names: str) -> Decimal:
        """The same, of a column that must have a value.

        Raises:
            BadValueError: It is missing, or no number.
        """
        found = self.number(*names)
        if found is None:
            raise values.BadValueError("is missing")
        return found

    def instant(self, *names: str) -> datetime:
        """The same as an instant.

        Raises:
            BadValueError: It is missing, or no instant.
        """
        return datetime.fromtimestamp(values.instant_s(self._moment(*names)), UTC)

    def day(self, *names: str) -> datetime:
        """The same as the day that it names, by the clock that it is written by: a list of an issuer's days is of these.

        Raises:
            BadValueError: It is missing, or no day.
        """
        return datetime.fromtimestamp(values.written_day_s(self._moment(*names)), UTC)

    def _moment(self, *names: str) -> object:
        found = self.cell(*names)
        if found is None:
            raise values.BadValueError("is missing")
        return _ZONE.sub("", found.strip()) if isinstance(found, str) else found

    def us_day(self, *names: str) -> datetime:
        """The same where `10/31/2026` is a day of the United States' form, as Azure writes it; elsewhere it might be another day.

        Raises:
            BadValueError: It is missing, or no instant.
        """
        text = self.text(*names)
        parts = _US_DAY.fullmatch(text)
        if parts is None:
            return self.day(*names)
        day = f"{parts[3]}-{int(parts[1]):02}-{int(parts[2]):02}"
        try:
            return datetime.fromtimestamp(values.instant_s(day), UTC)
        except values.BadValueError:
            raise values.BadValueError(
                f"{values.shown(text)} is no day such as 10/31/2026 (the month first) or 2026-10-31"
            ) from None

    def month(self, *names: str) -> datetime:
        """The begin of a month such as 202610.

        Raises:
            BadValueError: It is missing, or no month.
        """
        text = self.text(*names)
        parts = _MONTH.fullmatch(text)
        if parts is None:
            raise values.BadValueError(f"{values.shown(text)} is no month such as 202610")
        return datetime.fromtimestamp(values.instant_s(f"{parts[1]}-{parts[2]}-01"), UTC)

    def pairs(self, *names: str) -> dict[str, str]:
        """A map of texts: of a JSON object, a map of Parquet, or a list of objects with `key` and `value`.

        Raises:
            BadValueError: It is none.
        """
        found = self.cell(*names)
        return {} if found is None else dict(values.tags(found))

    def objects(self, *names: str) -> list[dict[str, object]]:
        """A list of objects, of JSON or of Parquet.

        Raises:
            BadValueError: It is none.
        """
        found = self.cell(*names)
        if found is None:
            return []
        if isinstance(found, str):
            found = _json(found)
        if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
            raise values.BadValueError("expected a list of objects")
        return found

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The columns whose names begin so, by the rest of their names."""
        found = {
            name[len(prefix) :]: values.text(cell)
            for name, cell in self.names.items()
            if name[: len(prefix)].lower() == prefix.lower()
        }
        if found and self.findings.asked is not None:
            self.findings.asked.update(plain(prefix + name) for name in found)
        return found


@dataclass(frozen=True)
class BillFormat:
    """A format of bills.

    `signature` are columns that together no other format has; `columns` says which column of `bill_lines` stands in which of
    the file, of which the first one with a value is read; `charges` makes the charges of a record: most make one.
    """

    name: str  # as --format has it
    title: str  # as people name it
    signature: tuple[str, ...]
    columns: Mapping[str, tuple[str, ...]]
    charges: Callable[[BillRecord, Charge], Iterable[Charge]]
    is_nested: bool = False  # cells with JSON objects are columns that are named `outer.inner`

    def of(self, record: BillRecord) -> Iterator[Charge]:
        """The charges of a record.

        Raises:
            BadValueError: A value is missing or wrong; `record.column` says which.
        """
        found: Charge = {name: record.cell(*names) for name, names in self.columns.items()}
        yield from self.charges(record, found)

    def has_signature_in(self, header: frozenset[str]) -> bool:
        """Whether a file with these columns, as `plain` names, is of this format."""
        return all(plain(name) in header for name in self.signature)

    def source_of(self, column: str) -> str:
        """Where a column of `bill_lines` stands in a file, for what is said of a fault."""
        return next(iter(self.columns.get(column, ())), column)


def flat(record: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    """Each value of an object by its path, as in `service.id`; lists stay as they are."""
    for name, value in record.items():
        path = f"{prefix}{name}"
        if isinstance(value, dict) and value and len(path) < values.TEXT_MAX_BYTES:
            yield from flat(value, f"{path}.")
        else:
            yield path, value


def first_of_month(at: datetime) -> datetime:
    """The begin of the month of an instant."""
    return at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)


def next_month(at: datetime) -> datetime:
    """The begin of the month after."""
    return first_of_month(first_of_month(at) + timedelta(days=32))


def _json(text: str) -> object:
    if len(text) > values.TAGS_MAX_BYTES:
        raise values.BadValueError(f"longer than {values.TAGS_MAX_BYTES} bytes")
    try:
        found: object = msgspec.json.Decoder(float_hook=str).decode(text)
    except (msgspec.MsgspecError, RecursionError):
        raise values.BadValueError(f"{values.shown(text)} is no JSON") from None
    return found
