"""Builds the rows of `sources`: what a source says of all that it has read, one row for each class and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa

from schemas.columns import instants
from schemas.events import ControlEvent
from schemas.source_table import SCHEMAS, SOURCES
from schemas.validate_sources import KEY_PREFIX, METERED, NOT_UNDERSTOOD


def source_table(log: Sequence[tuple[int, bytes, ControlEvent | None]], offsets: Sequence[int]) -> pa.Table:
    """Build the rows of each record.

    Args:
        log: (log time in ms, key, event) of each; an event of None forgets the source.
        offsets: The offset of each.
    """
    rows = [
        row
        for offset, (log_ms, key, event) in zip(offsets, log, strict=True)
        for row in _rows(offset, log_ms, key, event)
    ]
    columns = {name: [row[name] for row in rows] for name in SCHEMAS[SOURCES].names}
    times = {name: instants(columns[name]) for name in ("time", "polled")}
    return pa.Table.from_pydict({**columns, **times}, schema=SCHEMAS[SOURCES])


def _rows(offset: int, log_ms: int, key: bytes, event: ControlEvent | None) -> Iterator[dict[str, Any]]:
    value: Mapping[str, Any] = {} if event is None else event.value
    standing = frozenset(value.get("standing") or ())
    entries = {
        METERED: 0,
        **{f"{NOT_UNDERSTOOD}/{reason}": 0 for reason in standing},
        **value.get("entries", {}),
    }
    for name, count in entries.items():
        entry_class, _, reason = name.partition("/")
        is_open = entry_class == NOT_UNDERSTOOD
        yield {
            "name": key[len(KEY_PREFIX) :].decode("utf-8", "backslashreplace"),
            "offset": offset,
            "entry_class": entry_class,
            "reason": reason,
            "time": log_ms,
            "polled": log_ms if event is None else event.time_ms,
            "polls": value.get("polls", 0),
            "entries": count,
            "example": (value.get("examples") or {}).get(reason, "") if is_open else "",
            "standing": is_open and reason in standing,
            "removed": event is None,
            "version": offset + 1,
        }
