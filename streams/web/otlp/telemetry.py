"""Spans and points of metrics as far as jobs need them, whichever encoding they came in. Times in ns since 1970.

One bad part of a request must not cost the good ones: what cannot be taken is counted in `Faults`, the rest is read.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from schemas.escaping import visible
from schemas.reasons import Reason

#: Resources, scopes, metrics, spans and points of one request that are looked at: more than fit where they say something.
PARTS_MAX: Final = 200_000

_TIME_MAX: Final = 2**64 - 1
_INT64: Final = 2**63
_WHOLE: Final = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,400}(\.[0-9]{0,400})?([eE][-+]?[0-9]{1,9})?", re.ASCII)
_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_SHOWN: Final = 40


class TelemetryError(ValueError):
    """The body, or one part of it, is not what OTLP says."""


class Unreadable(NamedTuple):
    """Stands for the value of an attribute that is no text, number or truth value, and says why."""

    why: str


Attribute: TypeAlias = str | int | float | bool | Unreadable
Attributes: TypeAlias = Mapping[str, Attribute]


class Faults:
    """What of one request was not taken: spans or points that were rejected, and details that were left out of those taken."""

    def __init__(self) -> None:
        self.rejected = 0
        self.reasons: Counter[str] = Counter()  #: of those rejected
        self._parts = 0
        self._first_rejected = ""
        self._first_left_out = ""

    def reject(self, why: str, reason: str = Reason.wrong_type, count: int = 1) -> None:
        """Count spans or points that are not taken."""
        self.rejected += count
        self.reasons[reason] += count
        self._first_rejected = self._first_rejected or f"{reason}: {why}"

    def is_too_many(self) -> bool:
        """Count one more part of the request; reject it where there were too many."""
        self._parts += 1
        if self._parts > PARTS_MAX:
            self.reject(
                f"more than {PARTS_MAX} spans, points and the like; send fewer at once", Reason.oversize
            )
        return self._parts > PARTS_MAX

    def leave_out(self, why: str) -> None:
        """Note a detail that is not taken, of a span or point that is."""
        self._first_left_out = self._first_left_out or f"left out: {why}"

    @property
    def message(self) -> str:
        """The first reason for people; empty where everything was taken."""
        return self._first_rejected or self._first_left_out


class SpanEvent(NamedTuple):
    """Something that happened within a span."""

    name: str
    time_nano: int
    attributes: Attributes


class TraceSpan(NamedTuple):
    """A span; ids are in hexadecimal."""

    trace_id: str
    span_id: str
    start_nano: int
    end_nano: int
    is_error: bool
    attributes: Attributes
    resource: Attributes
    events: Sequence[SpanEvent]


class Point(NamedTuple):
    """A value of a gauge or a sum."""

    metric: str
    time_nano: int
    value: float
    attributes: Attributes
    resource: Attributes


def time_nano(value: Any) -> int:
    """A time in ns since 1970.

    Raises:
        TelemetryError: The value is not a whole number of ns, or needs more than 64 bits.
    """
    found = _whole(value)
    if not 0 <= found <= _TIME_MAX:
        raise TelemetryError(f"{_shown(value)} is no time in ns since 1970")
    return found


def int64(value: Any) -> int:
    """A whole number of 64 bits.

    Raises:
        TelemetryError: The value is not such a number.
    """
    found = _whole(value)
    if not -_INT64 <= found < _INT64:
        raise TelemetryError(f"{_shown(value)} is no whole number of 64 bits")
    return found


def number(value: Any) -> float:
    """A number, which may be infinite or none (NaN).

    Raises:
        TelemetryError: The value is not a number.
    """
    if isinstance(value, float):
        return value
    if isinstance(value, str):
        if value in _NOT_FINITE:
            return _NOT_FINITE[value]
        if _DECIMAL.fullmatch(value):
            return float(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= _TIME_MAX:
        return float(value)
    raise TelemetryError(f"{_shown(value)} is no number")


def text(value: str) -> str | Unreadable:
    """A text; what has NUL, or was no UTF-8, is none."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return Unreadable("is no UTF-8")
    return Unreadable("has a NUL byte") if "\0" in value else value


def _whole(value: Any) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, float) and value.is_integer() and abs(value) < _INT64:
        return int(value)
    if isinstance(value, str) and _WHOLE.fullmatch(value):
        return int(value)
    raise TelemetryError(f"{_shown(value)} is no whole number")


def _shown(value: Any) -> str:
    """The beginning of a value; one that is long, or has parts, by its kind only."""
    if isinstance(value, Unreadable):
        return value.why
    if isinstance(value, (dict, list)):
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and abs(value) > _TIME_MAX:
        return "a number of more than 64 bits"
    return visible(repr(value[:_SHOWN] if isinstance(value, str) else value)[: _SHOWN + 2])
