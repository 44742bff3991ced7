"""How a file of a bill is read: its format as asked for or known from its header, and what was found out on the way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Final, Protocol

import msgspec

from schemas.counting import how_many
from streams.bills.columns import USD
from streams.bills.formats.known import FOCUS, FOCUS_TITLE, format_of
from streams.bills.formats.record import BillFindings, flat
from streams.bills.lines import BillLine, FocusLineReader, checked_names
from streams.bills.record_lines import RecordLineReader
from streams.bills.values import BadValueError, number, of_units, trimmed
from streams.errors import WrongUseError

#: Of a dry run: so many faults of a file are kept in words.
FAULTS_MAX: Final = 20


class AskedFormat(msgspec.Struct, frozen=True):
    """What the user says about files that they do not say themselves; empty: nothing."""

    format: str = ""  # one of `formats.known.NAMES`
    issuer: str = ""  # of a plain list of costs
    units_per_usd: str = ""  # the rate of the invoice, for lines that have none


#: The header tells, and the file says all.
NOTHING_ASKED: Final = AskedFormat()


class BillLineReader(Protocol):
    """Checks the lines of one file."""

    def read(self, number: int, place: str, cells: Sequence[object]) -> Sequence[BillLine]:
        """The charges of a line."""
        ...

    @property
    def unread(self) -> list[str]:
        """The columns that mean nothing to it: they are kept as they are."""
        ...


@dataclass
class LineFaults:
    """What is wrong with a file that is tried, and not loaded."""

    count: int = 0
    first: list[str] = field(default_factory=list)


class Reading:
    """One file being read.

    Args:
        asked: What the user says.
        is_trial: Whether wrong lines are counted instead of ending it.
    """

    def __init__(self, asked: AskedFormat, *, is_trial: bool = False) -> None:
        self.asked = asked
        self.findings = BillFindings(asked=set() if is_trial else None)
        self.faults = LineFaults() if is_trial else None
        self.format, self.title = "", ""
        self._units_per_usd = _rate(asked.units_per_usd)
        self._reader: BillLineReader | None = None
        self._records: RecordLineReader | None = None

    def begin(self, file: str, place: str, header: Sequence[str]) -> None:
        """Take the names of the columns.

        Raises:
            WrongUseError: They are of no format that is read.
        """
        where = f"{file} {place}"
        names = checked_names(where, header)
        found = format_of(where, names, self.asked.format)
        if found is None:
            self.format, self.title = FOCUS, FOCUS_TITLE
            self._reader = FocusLineReader(file, where, names)
            return
        self.format, self.title = found.name, found.title
        self._reader = self._records = RecordLineReader(file, names, found, self.findings, self.asked.issuer)

    def lines(self, number: int, place: str, cells: Sequence[object]) -> Sequence[BillLine]:
        """The charges of a line whose cells are in the order of the header.

        Raises:
            WrongUseError: A value is missing or wrong.
        """
        assert self._reader is not None
        try:
            return self._rated(self._reader.read(number, place, cells))
        except WrongUseError as fault:
            return self._kept(fault)

    def lines_of_record(
        self, file: str, number: int, place: str, record: Mapping[str, object]
    ) -> Sequence[BillLine]:
        """The charges of an object of JSON, of which the first one tells the format.

        Raises:
            WrongUseError: A value is missing or wrong.
        """
        cells = dict(flat(record))
        if self._reader is None:
            self.begin(file, place, list(cells))
        if self._records is None:
            raise WrongUseError(f"{file}: FOCUS in JSON is not read; export it as CSV or Parquet")
        try:
            return self._rated(self._records.read_record(number, place, cells))
        except WrongUseError as fault:
            return self._kept(fault)

    @property
    def has_begun(self) -> bool:
        """Whether the names of the columns are known."""
        return self._reader is not None

    @property
    def unread(self) -> list[str]:
        """The columns that mean nothing to the format: they are kept as they are."""
        return [] if self._reader is None else self._reader.unread

    @property
    def notes(self) -> list[str]:
        """What the reader of a loaded file should know."""
        found = [f"{how_many(count, 'line')} {said}" for said, count in sorted(self.findings.notes.items())]
        if units := self.findings.taken_back_units:
            found.append(f"covered usage and what takes its price back differ by {trimmed(of_units(units))}")
        return found

    def _rated(self, lines: Sequence[BillLine]) -> Sequence[BillLine]:
        """The lines with the rate of the invoice, where they are not in dollars and say none."""
        rate = self._units_per_usd
        if rate is None:
            return lines
        return [
            each
            if each.of("billing_currency") == USD or each.of("units_per_usd") is not None
            else each.with_value("units_per_usd", rate)
            for each in lines
        ]

    def _kept(self, fault: WrongUseError) -> Sequence[BillLine]:
        if self.faults is None:
            raise fault
        self.faults.count += 1
        if len(self.faults.first) < FAULTS_MAX:
            self.faults.first.append(str(fault))
        return ()


def _rate(given: str) -> Decimal | None:
    if not given:
        return None
    try:
        found, _ = number(given)
    except BadValueError as fault:
        raise WrongUseError(f"--units-per-usd: {fault}") from None
    if found <= 0:
        raise WrongUseError(f"--units-per-usd {given}: expected more than 0, e.g. 0.92 for euros")
    return found
