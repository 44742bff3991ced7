"""Builds the rows of `changes`: each a function of one record of `controls`, without addresses of owners and hashes of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
import pyarrow as pa

from schemas.change_tables import ADDRESS_HEADER, CHANGES, PROOF_HEADER, SCHEMAS
from schemas.columns import instants
from schemas.events import ControlEvent
from schemas.redaction import WITHHELD, field_name
from schemas.validate_deeds import DEED
from schemas.validate_requests import ACTIONS, REQUEST

_LENGTH: Final = 256
#: Kinds whose fields say nothing that is secret, and fields that no kind shows.
_SHOWN_KINDS: Final = frozenset(
    {
        "budget",
        "silence",
        "planned",
        "override",
        "ack",
        "receipt",
        "rule",
        "token",
        "prices",
        ACTIONS,
        DEED,
        REQUEST,
    }
)
_HIDDEN: Final = frozenset({"hash", "former_hash", "webhook", "contact", "sql"})


class Origin(NamedTuple):
    """From where a record came, as the worker that wrote it says; empty: it came over Kafka."""

    address: str = ""
    proof: str = ""


def origin_of(headers: Sequence[tuple[str, bytes | None]]) -> Origin:
    """The origin that a record's headers say."""
    found = {name: (value or b"").decode("utf-8", "backslashreplace")[:_LENGTH] for name, value in headers}
    return Origin(found.get(ADDRESS_HEADER, ""), found.get(PROOF_HEADER, ""))


def change_table(
    log: Sequence[tuple[int, bytes, ControlEvent | None]], offsets: Sequence[int], origins: Sequence[Origin]
) -> pa.Table:
    """Build one row per record.

    Args:
        log: (log time in ms, key, event) of each; an event of None removes the control of its key.
        offsets: The offset of each.
        origins: The origin of each.
    """
    rows = [_row(*each) for each in zip(offsets, log, origins, strict=True)]
    columns = {name: [row[name] for row in rows] for name in SCHEMAS[CHANGES].names}
    return pa.Table.from_pydict({**columns, "time": instants(columns["time"])}, schema=SCHEMAS[CHANGES])


def _row(offset: int, logged: tuple[int, bytes, ControlEvent | None], origin: Origin) -> dict[str, Any]:
    log_ms, key, event = logged
    kind, _, name = key.decode("utf-8", "backslashreplace").partition("/")
    value: Mapping[str, object] = {} if event is None else event.value
    asked = value.get("control")
    said = asked if isinstance(asked, Mapping) else value  # of a request why it was asked for
    comment = said.get("comment") or said.get("reason")
    by = value.get("by")
    return {
        "offset": offset,
        "time": log_ms,
        "kind": kind if event is None else event.kind,
        "name": name if event is None else event.name,
        "by": by if isinstance(by, str) else "",
        "proof": origin.proof,
        "address": origin.address,
        "removed": event is None,
        "after": "" if event is None else _content(event.kind, value),
        "comment": comment if isinstance(comment, str) else "",
        "source": "" if event is None else event.source,
        "id": "" if event is None else event.id,
        "version": offset + 1,
    }


def _content(kind: str, value: Mapping[str, object]) -> str:
    return orjson.dumps(_shown(kind, value), option=orjson.OPT_SORT_KEYS).decode()


def _shown(kind: str, value: Mapping[str, object]) -> dict[str, object]:
    found = {
        field_name(field): each if kind in _SHOWN_KINDS and field not in _HIDDEN else WITHHELD
        for field, each in value.items()
        if field not in ("by", "comment")
    }
    asked = value.get("control")
    if kind == REQUEST and isinstance(asked, Mapping):
        found["control"] = _shown(str(asked.get("kind")), asked)
    return found
