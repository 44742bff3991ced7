"""Limits of names, ids and labels, in bytes of UTF-8, and of their number in one object.

The wire types count characters during decoding, which suffices for ASCII records; this module counts the bytes of all
others, and of the records of `controls`, whose fields are free.
"""

from collections.abc import Mapping
from typing import Final

from msgspec import Struct

from schemas.reasons import Reason
from schemas.redaction import field_name
from schemas.refusal import RefusedError, shown
from schemas.wire_types import (
    MAX_ADDRESS_BYTES,
    MAX_COMMENT_BYTES,
    MAX_ENTRIES,
    MAX_NAME_BYTES,
    MAX_SQL_BYTES,
)

_BYTES_PER_CHARACTER: Final = 4  # of UTF-8, at most
_NAME_CHARS: Final = 60  # of a name shown in a refusal
_LONGER: Final[dict[str, int]] = {
    "comment": MAX_COMMENT_BYTES,
    "webhook": MAX_ADDRESS_BYTES,
    "slack": MAX_ADDRESS_BYTES,
    "sql": MAX_SQL_BYTES,
}
_ANY_SIZE: Final = 2**20
_OTHERWISE: Final = frozenset(
    {"job_id", "specversion"}
)  # the first has a limit of its own, the second is not stored


def check_names(raw: Struct) -> None:
    """Check the sizes of a record's names.

    Raises:
        RefusedError: One is too long (reason `too_long`), or has a NUL byte (`nul_byte`).
    """
    for field in raw.__struct_fields__:
        if field not in _OTHERWISE:
            _check_value(field, getattr(raw, field), MAX_NAME_BYTES)
    job_id = getattr(raw, "job_id", None)
    if isinstance(job_id, str):
        _check_bytes("field `job_id`", job_id, _ANY_SIZE)


def check_control(fields: Mapping[str, object]) -> None:
    """Check the number and sizes of a control's free fields.

    Raises:
        RefusedError: They are too many or too long (reason `too_long`), or one has a NUL byte (`nul_byte`).
    """
    _check_count("record", len(fields))
    for name, value in fields.items():
        _check_bytes("record (a name in it)", name, MAX_NAME_BYTES)
        # A field's name is the producer's, too, and may be an address in the wrong place.
        _check_value(field_name(name), value, _LONGER.get(name, MAX_NAME_BYTES), is_free=True)


def check_value(field: str, value: object) -> None:
    """Check the sizes of the names in one field of a record.

    Raises:
        RefusedError: One is too long (reason `too_long`), or has a NUL byte (`nul_byte`).
    """
    _check_value(field, value, _ANY_SIZE if field == "job_id" else MAX_NAME_BYTES)


def _check_value(field: str, value: object, most_bytes: int, *, is_free: bool = False) -> None:
    """Check a value; `is_free`: no wire type has counted its entries, and its names must not be shown."""
    if isinstance(value, str):
        _check_bytes(f"field `{field}`", value, most_bytes)
    elif isinstance(value, dict):
        if is_free:
            _check_count(f"field `{field}`", len(value))
        for name, item in value.items():
            _check_bytes(f"field `{field} (a name in it)`", name, MAX_NAME_BYTES)
            inner = field_name(name) if is_free else name[:_NAME_CHARS]
            # A request has the fields of a control within it.
            most = (
                MAX_COMMENT_BYTES if is_free and (field, name) == ("control", "comment") else MAX_NAME_BYTES
            )
            _check_value(f"{field}.{inner}", item, most, is_free=is_free)
    elif isinstance(value, list):
        if is_free:
            _check_count(f"field `{field}`", len(value))
        for index, item in enumerate(value):
            _check_value(f"{field}[{index}]", item, MAX_NAME_BYTES, is_free=is_free)
    elif isinstance(value, Struct):
        for name in value.__struct_fields__:
            _check_value(f"{field}.{name}", getattr(value, name), MAX_NAME_BYTES)


def _check_bytes(where: str, text: str, most: int) -> None:
    if "\0" in text:  # ends a name for programs in C, and so makes two names look like one
        raise RefusedError(Reason.nul_byte, where, shown(text), "no NUL byte")
    if len(text) * _BYTES_PER_CHARACTER > most and len(text.encode("utf-8", "surrogatepass")) > most:
        raise RefusedError(Reason.too_long, where, shown(text), f"at most {most} bytes of UTF-8")


def _check_count(where: str, count: int) -> None:
    if count > MAX_ENTRIES:
        raise RefusedError(Reason.too_long, where, str(count), f"at most {MAX_ENTRIES} entries")
