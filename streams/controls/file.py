"""Reads a file of controls: tables such as `[[silence]]` and `[[rule]]`, each a record, each fault with its line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple, get_args

from schemas.counting import how_many
from schemas.events import ControlEvent
from schemas.refusal import nearest, shown
from schemas.validate_deeds import DEED
from schemas.validate_requests import REQUEST
from schemas.validate_sources import SOURCE
from schemas.validate_tokens import TOKEN
from schemas.wire_types import ControlKind
from streams.controls.table import TableError, record_of
from streams.controls.toml_lines import LocatedTable, located
from streams.engine.alerts.ineffective import field_and_reason
from streams.errors import WrongUseError

#: What people set. What a source has read is said by its collector, and stands in no file.
KINDS: Final[tuple[str, ...]] = tuple(
    kind for kind in get_args(ControlKind) if kind not in (SOURCE, TOKEN, REQUEST, DEED)
)
#: A file is written by people. The parser's time is quadratic in the parts of a dotted key, which is on one line.
TEXT_AT_MOST: Final = 2**20
LINE_AT_MOST: Final = 4_096
#: Of one kind in one file. Each rule that matches by fields of its own is looked up for each job.
TABLES_AT_MOST: Final = 1_000
_NAME_CHARS: Final = 60
_AT_LINE: Final = re.compile(r" \(at line (\d+), column (\d+)\)$")


class FileRecord(NamedTuple):
    """One table as a record to publish, and where it stands."""

    file: str
    table: LocatedTable
    key: bytes
    value: bytes
    event: ControlEvent

    @property
    def where(self) -> str:
        """The file and the line at which the table begins."""
        return f"{self.file} line {self.table.line}"

    def fault(self, detail: str) -> str:
        """A line about a fault of it: file, line of the field, kind and name, and what is wrong."""
        return _fault(self.file, self.table, self.event.kind, self.event.name, self.event.value, detail)


class FileContent(NamedTuple):
    """What a file holds; where there are faults, the records are those without one."""

    records: list[FileRecord]
    faults: list[str]


def parsed(
    name: str, text: str, what: str, parse_float: Callable[[str], object] = float
) -> dict[str, object]:
    """What a text of TOML holds; `what` they should be, for the refusal: rules, controls.

    Raises:
        WrongUseError: It is no TOML, or larger than a file that people write.
    """
    if len(text) > TEXT_AT_MOST:
        raise WrongUseError(f"{name}: more than {TEXT_AT_MOST} characters; name a file of {what} (TOML)")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_AT_MOST:
            raise WrongUseError(f"{name} line {number}: more than {LINE_AT_MOST} characters; break it")
    try:
        return tomllib.loads(text, parse_float=parse_float)
    except RecursionError:
        raise WrongUseError(f"{name}: no TOML of {what}: nested too deeply") from None
    except ValueError as fault:  # a number of thousands of digits, too
        said = str(fault).partition(";")[0]
        found = _AT_LINE.search(said)
        where = f"{name} line {found[1]}" if found else name
        reason = f"{said[: found.start()]} (column {found[2]})" if found else said
        raise WrongUseError(f"{where}: no TOML: {reason}") from None


def read_controls_file(name: str, text: str, source: str, now_ms: int) -> FileContent:
    """The controls of a file; `source`: who publishes them.

    Raises:
        WrongUseError: It is no TOML, or larger than a file that people write.
    """
    content = parsed(name, text, "controls")
    lines = located(text)
    records: list[FileRecord] = []
    faults: list[str] = []
    for kind, tables in content.items():
        where = f"{name} line {lines.of(kind, 0).line}"
        if fault := _fault_of_tables(kind, tables):
            faults.append(f"{where}: {fault}")
            continue
        assert isinstance(tables, list)
        for place, table in enumerate(tables):
            at = lines.of(kind, place)
            try:
                key, value, event = record_of(kind, table, source, now_ms)
            except TableError as fault_of_table:
                named = str(table.get("name", ""))
                faults += [_fault(name, at, kind, named, table, each) for each in fault_of_table.details]
            else:
                records.append(FileRecord(name, at, key, value, event))
                faults += _unstored(records[-1])
    return FileContent(records, faults)


def _unstored(record: FileRecord) -> Iterator[str]:
    """Yield what a valid record loses: a comment that is no text is stored nowhere."""
    comment = record.event.value.get("comment")
    if comment is not None and not isinstance(comment, str):
        yield record.fault(f"comment: got {shown(comment)}, expected a string")


def _fault_of_tables(kind: str, tables: object) -> str:
    """Why a name at the top of a file is no kind of controls; '' if it is one."""
    named = repr(kind[:_NAME_CHARS])
    expected = f"expected tables {', '.join(f'[[{each}]]' for each in KINDS)}"
    if kind == SOURCE:
        return f"[[{kind}]]: what a source has read is said by its collector; {expected}"
    if kind not in KINDS:
        return f"{named}: no kind of controls, {expected}{nearest(kind, KINDS)}"
    if not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        return f"{named}: {expected}; write [[{kind}]] before each"
    if len(tables) > TABLES_AT_MOST:
        return f"{how_many(len(tables), 'table')} [[{kind}]], {TABLES_AT_MOST} at most in a file"
    return ""


def _fault(
    file: str, at: LocatedTable, kind: str, name: str, table: Mapping[str, object], detail: str
) -> str:
    field, _ = field_and_reason(detail)
    line = next((at.fields[each] for each in _places(field, table) if each in at.fields), at.line_of(field))
    which = f"{kind}/{name[:_NAME_CHARS]}" if name else f"[[{kind}]]"
    return f"{file} line {line}: {which}: {detail}"


def _places(field: str, table: Mapping[str, object]) -> Iterator[str]:
    """Yield where a field of a refusal may stand in its table, the likeliest first."""
    yield field
    yield field.removesuffix("_ms")  # a date-time
    inner = table.get("match")
    if isinstance(inner, Mapping) and field in inner:
        yield f"match.{field}"
        yield "match"
    if field == "job_id":
        yield "job"
