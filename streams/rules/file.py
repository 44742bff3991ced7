"""Reads `rules.toml`: each `[[rule]]` changes the settings of one rule for the jobs that match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from schemas.counting import how_many
from schemas.events import ControlEvent
from schemas.refusal import nearest
from streams.controls.file import TABLES_AT_MOST, parsed
from streams.controls.table import TableError, record_of
from streams.controls.toml_lines import located
from streams.errors import FileFaultsError, WrongUseError
from streams.rules.defaults import defaults_text

KIND: Final = "rule"
PUBLISHED: Final = "trainfare rules publish"
_FIELDS: Final = ("name", "rule", "enabled", "severity", "thresholds", "match", "comment", "sql", "every")
_SHOWN_AT_MOST: Final = 20
_NAME_AT_MOST: Final = 60


class RuleFileRecord(NamedTuple):
    """One `[[rule]]` as a record of `controls`; `line`: where it begins."""

    line: int
    key: bytes
    value: bytes
    event: ControlEvent


def default_rules() -> str:
    """The shipped file: every rule with its default settings."""
    return defaults_text()


def rule_records(name: str, text: str, now_ms: int) -> list[RuleFileRecord]:
    """The records of a file; ids are functions of what a record says, `time_ms` is `now_ms`.

    Raises:
        WrongUseError: The file is no list of `[[rule]]`.
        FileFaultsError: Some of its rules are invalid.
    """
    content = parsed(name, text, "rules")
    tables = content.pop("rule", [])
    if content or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        other = next(iter(content), "rule")
        raise WrongUseError(f"{name}: {other[:_NAME_AT_MOST]!r}: expected tables [[rule]] only")
    if len(tables) > TABLES_AT_MOST:
        raise WrongUseError(
            f"{name}: {how_many(len(tables), 'rule')}, {TABLES_AT_MOST} at most; match by owner, team or label instead"
        )
    lines = located(text)
    faults: list[str] = []
    found: list[RuleFileRecord] = []
    named: dict[str, int] = {}
    for place, table in enumerate(tables):
        line = lines.of(KIND, place).line
        try:
            record = _record(line, table, now_ms)
            before = named.setdefault(record.event.name, line)
            if before != line:
                raise TableError(f"name: the rule of line {before} has this name, too")
            found.append(record)
        except TableError as fault:
            given = table.get("name")
            which = f" ({given[:_NAME_AT_MOST]!r})" if isinstance(given, str) else ""
            faults += (f"{name} line {line}: [[rule]] {place + 1}{which}: {each}" for each in fault.details)
    if faults:
        more = len(faults) - _SHOWN_AT_MOST
        raise FileFaultsError(faults[:_SHOWN_AT_MOST] + ([f"and {more} more"] if more > 0 else []))
    return found


def _record(line: int, table: Mapping[str, object], now_ms: int) -> RuleFileRecord:
    """The record of a table.

    Raises:
        TableError: It is invalid.
    """
    details = [
        f"{field}: no such field, expected one of {', '.join(_FIELDS)}{nearest(field, _FIELDS)}"
        for field in table
        if field not in _FIELDS
    ]
    try:
        record = record_of(
            KIND, {name: each for name, each in table.items() if name in _FIELDS}, PUBLISHED, now_ms
        )
    except TableError as fault:
        raise TableError(*details, *fault.details) from None
    if details:
        raise TableError(*details)
    return RuleFileRecord(line, *record)
