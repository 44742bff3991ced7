"""Spans and points of metrics as far as jobs need them, whichever encoding they came in. Times in ns since 1970."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

Attribute = str | int | float | bool
Attributes = Mapping[str, Attribute]

#: Of one request; more are refused as a whole.
SPANS_MAX = 10_000
POINTS_MAX = 100_000


class TelemetryError(ValueError):
    """The body is not what OTLP says, or too much of it."""


class SpanEvent(NamedTuple):
    """Something that happened within a span."""

    name: str
    time_nano: int


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
