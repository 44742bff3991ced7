"""Says what is wrong with the value of one field before there is a record, so that settings are refused with the meter's own words."""

from __future__ import annotations

from functools import cache
from typing import Any, Final, get_type_hints

import msgspec

from schemas.limits import check_value
from schemas.refusal import RefusedError, descriptions, did_you_mean, shown
from schemas.reserved import reserved_in
from schemas.wire import Wire

_hints: Final = cache(lambda wire: get_type_hints(wire, include_extras=True))


def fault_of_value(wire: type[Wire], field: str, value: Any) -> str:
    """Why the meter would refuse every record of `wire` that has this value in a field; empty if it would not."""
    try:
        msgspec.convert(value, _hints(wire)[field])
        check_value(field, value)
    except msgspec.ValidationError as mismatch:
        expected = descriptions(wire).get(field, str(mismatch))
        return f"field `{field}`: got {shown(value)}, expected {expected}{did_you_mean(str(value), expected)}"
    except RefusedError as refusal:
        return refusal.invalid(secret=False).detail
    found = reserved_in({field: value})
    return "" if found is None else f"field `{field}`: got {shown(value)}, expected {found.expected}"
