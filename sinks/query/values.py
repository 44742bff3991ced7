"""Encodes ClickHouse values as JSON: money and large integers as strings, instants as milliseconds since 1970.

A value that a double cannot represent is sent as text.
"""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

import orjson

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
#: Beyond it a double, and so JavaScript, cannot represent every integer.
EXACT_MAX = 2**53


def to_json(value: object) -> bytes:
    """Encode an object of the API; NaN and infinity are null."""
    options = orjson.OPT_NON_STR_KEYS | orjson.OPT_PASSTHROUGH_DATETIME
    return orjson.dumps(value, default=_other, option=options)


def plain(value: object) -> object:
    """Convert a cell of any ClickHouse type to a JSON value."""
    if value is None or isinstance(value, (bool, str, float)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT_MAX else str(value)
    if isinstance(value, dict):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return _other(value)


def ms(at: datetime) -> int:
    """Convert an instant to milliseconds since 1970; without a zone it is UTC."""
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(milliseconds=1)


def _other(value: object) -> object:
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        return ms(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
