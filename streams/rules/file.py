"""Reads `rules.toml`: each `[[rule]]` changes the settings of one rule for the jobs that match."""

from __future__ import annotations

import hashlib
import math
import re
import tomllib
from collections.abc import Mapping
from typing import Final, NamedTuple

import msgspec

from schemas.decode import decode
from schemas.events import ControlEvent
from schemas.invalid import Invalid
from streams.engine.alerts.controls import Controls
from streams.errors import FileFaultsError, WrongUseError
from streams.keys import key_of
from streams.rules.defaults import defaults_text
from streams.topics import Topic

KIND: Final = "rule"
PUBLISHED: Final = "trainfare rules publish"
_FIELDS: Final = ("name", "rule", "enabled", "severity", "thresholds", "match", "comment")
_BEGIN: Final = re.compile(r"^\s*\[\[\s*rule\s*\]\]")
_ID_DIGITS: Final = 24
_SHOWN_AT_MOST: Final = 20
_NAME_AT_MOST: Final = 60
#: A file is written by people. The parser's time is quadratic in the parts of a dotted key, which is on one line.
TEXT_AT_MOST: Final = 2**20
LINE_AT_MOST: Final = 4_096
RULES_AT_MOST: Final = 1_000


class RuleFileRecord(NamedTuple):
    """One `[[rule]]` as a record of `controls`; `line`: where it begins."""

    line: int
    key: bytes
    value: bytes
    event: ControlEvent


def default_rules() -> str:
    """Return the shipped file: every rule with its default settings."""
    return defaults_text()


def rule_records(name: str, text: str, now_ms: int) -> list[RuleFileRecord]:
    """Return the records of a file; ids are functions of what a record says, `time_ms` is `now_ms`.

    Raises:
        WrongUseError: The file is no list of `[[rule]]`.
        FileFaultsError: Some of its rules are invalid.
    """
    content = _parsed(name, text)
    tables = content.pop("rule", [])
    if content or not isinstance(tables, list) or not all(isinstance(each, dict) for each in tables):
        other = next(iter(content), "rule")
        raise WrongUseError(f"{name}: {other[:_NAME_AT_MOST]!r}: expected tables [[rule]] only")
    if len(tables) > RULES_AT_MOST:
        raise WrongUseError(
            f"{name}: {len(tables)} rules, {RULES_AT_MOST} at most; match by owner, team or label instead"
        )
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
            which = f" ({given[:_NAME_AT_MOST]!r})" if isinstance(given, str) else ""
            faults.append(f"{name} line {line}: [[rule]] {place + 1}{which}: {fault}")
    if faults:
        more = len(faults) - _SHOWN_AT_MOST
        raise FileFaultsError(faults[:_SHOWN_AT_MOST] + ([f"and {more} more"] if more > 0 else []))
    return found


def _parsed(name: str, text: str) -> dict[str, object]:
    if len(text) > TEXT_AT_MOST:
        raise WrongUseError(f"{name}: more than {TEXT_AT_MOST} characters; name a file of rules (TOML)")
    for number, line in enumerate(text.splitlines(), 1):
        if len(line) > LINE_AT_MOST:
            raise WrongUseError(f"{name} line {number}: more than {LINE_AT_MOST} characters; break it")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise WrongUseError(f"{name}: no TOML of rules: nested too deeply") from None
    except ValueError as fault:  # a number of thousands of digits, too
        raise WrongUseError(f"{name}: no TOML: {str(fault).partition(';')[0]}") from None


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
    thresholds = table.get("thresholds")
    for field, value in thresholds.items() if isinstance(thresholds, dict) else ():
        if isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"thresholds.{field}: got {value}, expected a number")  # JSON would say null
    try:
        said = msgspec.json.encode({**table, "kind": KIND}, order="deterministic")
    except (TypeError, msgspec.MsgspecError) as fault:
        raise ValueError(str(fault)) from None
    digest = hashlib.sha256(said).hexdigest()[:_ID_DIGITS]
    whole = {"source": PUBLISHED, "id": digest, "time_ms": now_ms, "kind": KIND, **table}
    encoded = msgspec.json.encode(whole)
    event = decode(Topic.CONTROLS, encoded, [], now_ms)
    if isinstance(event, Invalid):
        raise ValueError(event.detail)
    assert isinstance(event, ControlEvent)
    if faults := Controls.from_events([event]).faults:
        raise ValueError(faults[0].detail)
    return RuleFileRecord(line, key_of(Topic.CONTROLS, encoded), encoded, event)
