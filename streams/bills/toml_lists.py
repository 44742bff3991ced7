"""Lists that finance writes as TOML: their entries, each with its line, and the newest file as the whole list.

An entry is checked field by field, and money is a decimal from the text of the file on: nothing is a float.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from schemas.durations import HOUR_S
from schemas.tables import SCHEMAS
from streams.bills import values
from streams.bills.files import BillFile, refused_head
from streams.bills.lists import ListLoaded
from streams.bills.loading import BillStore
from streams.controls.file import TEXT_AT_MOST, parsed
from streams.controls.toml_lines import LocatedTable, located
from streams.errors import WrongUseError

TEXT_MAX: Final = 255
_SAID_MAX: Final = 20
#: What may differ between two rows of the same entry.
_LOADED: Final = ("is_removed", "source", "time", "version")


class TomlEntry:
    """The fields of one table of a file; a fault says its line."""

    def __init__(self, name: str, at: LocatedTable, given: Mapping[str, Any]) -> None:
        self._name, self._at, self._given = name, at, given

    def check_known(self, fields: Iterable[str]) -> None:
        """Refuse a field that means nothing.

        Raises:
            WrongUseError: There is one.
        """
        if unknown := sorted(self._given.keys() - set(fields)):
            raise self.fault(unknown[0], f"is unknown; expected {', '.join(sorted(fields))}")

    def fault(self, field: str, reason: str) -> WrongUseError:
        """A refusal of a field."""
        where = f"{self._name} line {self._at.line_of(field)}"
        return WrongUseError(f"{where}: {field}: {reason}" if field else f"{where}: {reason}")

    def has(self, field: str) -> bool:
        """Whether the file says it."""
        return field in self._given

    def text(self, field: str, given: Mapping[str, Any] | None = None, path: str = "") -> str:
        """A text; empty where the file says none.

        Raises:
            WrongUseError: It is no such text.
        """
        found = (self._given if given is None else given).get(field, "")
        if not isinstance(found, str) or len(found) > TEXT_MAX or not found.isprintable():
            raise self.fault(path or field, f"expected a text of {TEXT_MAX} printable characters at most")
        return found

    def amount(self, field: str, usual: str = "0", at_least: Decimal = Decimal(0)) -> Decimal:
        """A number of nine decimals at most.

        Raises:
            WrongUseError: It is no such number.
        """
        given = self._given.get(field, usual)
        try:
            found, is_rounded = values.number(given)
        except values.BadValueError as fault:
            raise self.fault(field, str(fault)) from None
        if found < at_least:
            raise self.fault(field, f"{values.shown(str(given))} is less than {at_least:f}")
        if is_rounded or found != found.quantize(Decimal(1).scaleb(-9), context=values.CONTEXT):
            raise self.fault(field, f"{values.shown(str(given))} has more than nine decimals")
        return found

    def hour_s(self, field: str) -> int:
        """A whole hour in seconds since 1970; a day is midnight UTC.

        Raises:
            WrongUseError: It is no such instant.
        """
        given = self._given.get(field)
        if isinstance(given, datetime):
            at = given if given.tzinfo is not None else given.replace(tzinfo=UTC)
        elif isinstance(given, date):
            at = datetime(given.year, given.month, given.day, tzinfo=UTC)
        else:
            raise self.fault(
                field, "expected a day such as 2026-01-01, or an instant such as 2026-01-01T00:00:00+01:00"
            )
        if not 2000 <= at.year < 2100:
            raise self.fault(field, f"expected a year from 2000 to 2099, got {at.year}")
        found = int(at.timestamp())
        if found % HOUR_S or at.microsecond:
            raise self.fault(
                field, "expected a whole hour of UTC: the ledger has hours, and commitments are used in them"
            )
        return found

    def value(self, field: str) -> object:
        """What the file says, of whatever type; None: nothing."""
        return self._given.get(field)

    def table(self, field: str, known: Iterable[str]) -> dict[str, Any]:
        """A table of fields that are known; empty where the file says none.

        Raises:
            WrongUseError: It is no such table.
        """
        found = self._given.get(field, {})
        if not isinstance(found, dict):
            raise self.fault(field, f"expected a table with fields of {', '.join(known)}")
        if unknown := sorted(found.keys() - set(known)):
            raise self.fault(f"{field}.{unknown[0]}", f"is unknown; expected {', '.join(known)}")
        return found


def toml_entries(file: BillFile, table: str, what: str, most: int, wanted: str) -> Iterator[TomlEntry]:
    """Yield the tables `[[table]]` of a file that has nothing else.

    Raises:
        WrongUseError: It is no such file.
    """
    with file.open() as stream:
        refused_head(file.name, stream, b"[")
        data = stream.read(TEXT_AT_MOST + 1)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as fault:
        raise WrongUseError(f"{file.name}: byte {fault.start}: no UTF-8; {wanted}") from None
    content = parsed(file.name, text, what, Decimal)
    tables = content.get(table)
    if unknown := sorted(content.keys() - {table}):
        raise WrongUseError(f"{file.name}: {values.shown(unknown[0])} is unknown; {wanted}")
    if not isinstance(tables, list) or not tables or not all(isinstance(each, dict) for each in tables):
        raise WrongUseError(f"{file.name}: has no [[{table}]]; {wanted}")
    if len(tables) > most:
        raise WrongUseError(f"{file.name}: more than {most} {what}")
    lines = located(text)
    for place, given in enumerate(tables):
        yield TomlEntry(file.name, lines.of(table, place), given)


def load_whole_list(
    store: BillStore,
    files: Sequence[BillFile],
    now_ms: int,
    table: str,
    key: str,
    read: Callable[[BillFile], list[dict[str, object]]],
) -> list[ListLoaded]:
    """Store the entries of one file as the whole list; one that it does not have is removed.

    Raises:
        WrongUseError: The file is wrong, or there are several; nothing is stored.
    """
    if len(files) != 1:
        raise WrongUseError("name one file: it is the whole list")
    (file,) = files
    rows = read(file)
    standing = {str(row[key]): row for row in store.select(table).to_pylist()}
    alive = {name: row for name, row in standing.items() if not row["is_removed"]}
    version = max([now_ms, *(int(row["version"]) + 1 for row in standing.values())])
    loaded = {
        "source": file.name.rpartition("/")[2][-TEXT_MAX:],
        "time": datetime.fromtimestamp(now_ms / 1_000, UTC),
        "version": version,
    }
    names = {row[key] for row in rows}
    changed = [row for row in rows if _differs(alive.get(str(row[key])), row)]
    gone = [row for name, row in sorted(alive.items()) if name not in names]
    written = [row | {"is_removed": 0} | loaded for row in changed] + [
        row | {"is_removed": 1} | loaded for row in gone
    ]
    if written:
        rows_written = pa.Table.from_pylist(written, schema=SCHEMAS[table])
        store.insert(table, rows_written, f"{table}-{version}-{len(written)}")
    restated = [row for row in changed if row[key] in alive]
    said = [f"{row[key]}: changed" for row in restated] + [f"{row[key]}: removed" for row in gone]
    new = len(changed) - len(restated)
    return [ListLoaded(file.name, len(rows), new, len(restated), len(gone), said[:_SAID_MAX])]


def _differs(stands: Mapping[str, object] | None, row: Mapping[str, object]) -> bool:
    return stands is None or any(stands[name] != value for name, value in row.items() if name not in _LOADED)
