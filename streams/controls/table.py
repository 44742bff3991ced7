"""Makes a record of `controls` of a table of a file: one that is invalid by itself is refused as the meter would refuse it."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, time, timedelta
from typing import Final, NamedTuple

import msgspec

from schemas.decode import decode
from schemas.events import ControlEvent
from streams.engine.alerts.ineffective import details_of
from streams.keys import key_of
from streams.topics import Topic

_ID_DIGITS: Final = 24
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
#: Fields that are not a table's to say.
_OURS: Final = ("source", "id", "time_ms", "kind", "specversion")
#: A date-time of TOML beside the field of the record that it stands for.
_INSTANTS: Final = {"from": "from_ms", "until": "until_ms"}


class TableRecord(NamedTuple):
    """A record to publish."""

    key: bytes
    value: bytes
    event: ControlEvent


class TableError(Exception):
    """A table is invalid; `details` has each reason, which begins with its field."""

    def __init__(self, *details: str) -> None:
        super().__init__("; ".join(details))
        self.details = details


def record_of(kind: str, table: Mapping[str, object], source: str, now_ms: int) -> TableRecord:
    """The record of a table; its id is a function of what it says, its `time_ms` is `now_ms`.

    Args:
        kind: What it sets.
        table: Its fields as a parser of TOML gives them.
        source: Who publishes it.
        now_ms: Ms since 1970.

    Raises:
        TableError: It is invalid.
    """
    if ours := [field for field in table if field in _OURS]:
        raise TableError(
            *(f"{field}: it is set when the record is published; leave it out" for field in ours)
        )
    name = table.get("name")
    if not isinstance(name, str) or not name:
        raise TableError("name: expected the name of this record, a text that is not empty")
    try:
        content = dict(_fields_of(table))
        said = msgspec.json.encode({**content, "kind": kind}, order="deterministic")
    except (TypeError, msgspec.MsgspecError) as fault:
        raise TableError(str(fault)) from None
    except RecursionError:  # a dotted key may have thousands of parts
        raise TableError("a field is nested too deeply") from None
    digest = hashlib.sha256(said).hexdigest()[:_ID_DIGITS]
    encoded = msgspec.json.encode(
        {"source": source, "id": digest, "time_ms": now_ms, "kind": kind, **content}
    )
    event = decode(Topic.CONTROLS, encoded, [], now_ms)
    if details := list(details_of(event)):
        raise TableError(*details)
    assert isinstance(event, ControlEvent)
    return TableRecord(key_of(Topic.CONTROLS, encoded), encoded, event)


def _fields_of(table: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for field, value in table.items():
        _check_numbers(field, value)
        if field not in _INSTANTS:
            if isinstance(value, datetime) and field in _INSTANTS.values():
                raise TableError(
                    f"{field}: expected ms since 1970; write {field.removesuffix('_ms')} = {value.isoformat()}"
                )
            yield field, value
            continue
        if not isinstance(value, datetime) or value.tzinfo is None:
            text = value.isoformat() if isinstance(value, date | time) else "another value"
            raise TableError(
                f"{field}: got {text}, expected a date-time with its offset, as 2026-06-01T08:00:00Z"
            )
        if _INSTANTS[field] in table:
            raise TableError(f"{field}: {_INSTANTS[field]} says it, too; leave one out")
        yield _INSTANTS[field], (value - _EPOCH) // timedelta(milliseconds=1)


def _check_numbers(field: str, value: object) -> None:
    """Check that JSON has every number of a value: it would say null for those that are not finite."""
    if isinstance(value, float) and not math.isfinite(value):
        raise TableError(f"{field}: got {value}, expected a number")
    if isinstance(value, dict):
        for name, item in value.items():
            _check_numbers(f"{field}.{name}", item)
    if isinstance(value, list):
        for item in value:
            _check_numbers(field, item)
