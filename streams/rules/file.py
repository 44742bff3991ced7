"""Reads `rules.toml`: each `[[rule]]` changes the settings of one rule for the jobs that match.

It must not publish: a file is accepted as a whole, or refused with every fault, its line and what is allowed.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from typing import Final, NamedTuple

import msgspec

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.invalid import Invalid
from streams.engine.alerts.controls import Controls
from streams.errors import WrongUseError
from streams.keys import key_of
from streams.topics import Topic

KIND: Final = "rule"
PUBLISHED: Final = "trainfare rules publish"
DEFAULTS_NAME: Final = "defaults.toml"
_FIELDS: Final = ("name", "rule", "enabled", "severity", "thresholds", "match", "comment")
_BEGIN: Final = re.compile(r"^\s*\[\[\s*rule\s*\]\]")
_ID_DIGITS: Final = 24
_SHOWN_AT_MOST: Final = 20


class RuleFileRecord(NamedTuple):
    """One `[[rule]]` as a record of `controls`; `line`: where it begins."""

    line: int
    key: bytes
    value: bytes
    event: ControlEvent


def default_rules() -> str:
    """Return the shipped file: every rule with its default settings."""
    return files(__package__).joinpath(DEFAULTS_NAME).read_text(encoding="utf-8")


def rule_records(name: str, text: str, now_ms: int) -> list[RuleFileRecord]:
    """Return the records of a file; ids are functions of what a record says, `time_ms` is `now_ms`.

    Raises:
        WrongUseError: Something in it is invalid.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as fault:
        raise WrongUseError(f"{name}: no TOML: {fault}") from None
    tables = content.pop("rule", [])
    if content or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        other = next(iter(content), "rule")
        raise WrongUseError(f"{name}: {other!r}: expected tables [[rule]] only")
    lines = [number for number, line in enumerate(text.splitlines(), 1) if _BEGIN.match(line)]
    faults: list[str] = []
    found: list[RuleFileRecord] = []
    named: dict[str, int] = {}
    for place, table in enumerate(tables):
        line = lines[place] if len(lines) == len(tables) else 0
        try:
            record = _record(line, table, now_ms)
            before = named.setdefault(record.event.name, line)
            if before != line:
                raise ValueError(f"name: the rule of line {before} has this name, too")
            found.append(record)
        except ValueError as fault:
            given = table.get("name")
            which = f" ({given!r})" if isinstance(given, str) else ""
            faults.append(f"{name} line {line}: [[rule]] {place + 1}{which}: {fault}")
    if faults:
        more = len(faults) - _SHOWN_AT_MOST
        raise WrongUseError("\n".join(faults[:_SHOWN_AT_MOST]) + (f"\nand {more} more" if more > 0 else ""))
    return found


def _record(line: int, table: Mapping[str, object], now_ms: int) -> RuleFileRecord:
    """Return the record of a table.

    Raises:
        ValueError: It is invalid.
    """
    for field in table:
        if field not in _FIELDS:
            raise ValueError(f"{field}: no such field, expected one of {', '.join(_FIELDS)}")
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise ValueError("name: expected the name of this record, a text that is not empty")
    try:
        said = msgspec.json.encode({**table, "kind": KIND}, order="deterministic")
    except (TypeError, msgspec.MsgspecError) as fault:
        raise ValueError(str(fault)) from None
    digest = hashlib.sha256(said).hexdigest()[:_ID_DIGITS]
    whole = {"source": PUBLISHED, "id": digest, "time_ms": now_ms, "kind": KIND, **table}
    value = msgspec.json.encode(whole)
    event = decode(Topic.CONTROLS, value, [], now_ms)
    if isinstance(event, Invalid):
        raise ValueError(event.detail)
    assert isinstance(event, ControlEvent)
    if faults := Controls.from_events([event]).faults:
        raise ValueError(faults[0].detail)
    return RuleFileRecord(line, key_of(Topic.CONTROLS, value), value, event)
