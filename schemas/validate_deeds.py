"""Checks the controls of kind `deed`: what somebody did, or was refused, beside records that set something; in force for nobody.

A prices list that was loaded, a backfill, a repair of rows, requests that a worker refused.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

import orjson

from schemas.events import ControlEvent
from schemas.refusal import refuse_missing, refuse_unknown
from schemas.wire_types import MAX_COMMENT_BYTES, MAX_NAME_BYTES

DEED: Final = "deed"
KEY_PREFIX: Final = b"deed/"
ACTS: Final = ("prices", "backfill", "undo", "repair", "refused")
_FIELDS: Final = frozenset({"act", "what", "count", "by", "comment"})


class DeedRecord(NamedTuple):
    """A record to write: key and value."""

    key: bytes
    value: bytes


def deed_record(
    act: str, name: str, by: str, what: str, count: int, now_ms: int, comment: str = ""
) -> DeedRecord:
    """The record of a deed; `what`: about what it was, in words, cut to 256 bytes, `count`: of how many records, rows or requests."""
    named = _cut(f"{act}_{name}", MAX_NAME_BYTES)
    value = {
        "source": "trainfare",
        "id": f"{named}_{now_ms}",
        "time_ms": now_ms,
        "kind": DEED,
        "name": named,
        "act": act,
        "what": _cut(what, MAX_NAME_BYTES),
        "count": count,
        "by": _cut(by, MAX_NAME_BYTES),
        **({"comment": _cut(comment, MAX_COMMENT_BYTES)} if comment else {}),
    }
    return DeedRecord(KEY_PREFIX + named.encode(), orjson.dumps(value))


def _cut(text: str, most_bytes: int) -> str:
    return text.replace("\0", "").encode("utf-8", "replace")[:most_bytes].decode("utf-8", "ignore")


def is_deed(key: bytes, event: ControlEvent | None) -> bool:
    """Whether a record of `controls` tells of a deed, or forgets one."""
    return key.startswith(KEY_PREFIX) and (event is None or event.kind == DEED)


def check_deed(value: Mapping[str, object]) -> None:
    """Check the fields of a record.

    Raises:
        RefusedError: One is missing or invalid.
    """
    refuse_unknown(value, _FIELDS)
    if value.get("act") not in ACTS:
        refuse_missing("act", f"one of {', '.join(ACTS)}")
    for field in ("what", "by"):
        if not isinstance(value.get(field), str):
            refuse_missing(field, "a text")
    count = value.get("count")
    if isinstance(count, bool) or not isinstance(count, int):
        refuse_missing("count", "a whole number")
