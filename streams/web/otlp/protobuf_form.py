"""Reads OTLP in Protocol Buffers: the fields of its messages by their numbers (opentelemetry-proto 1), those that jobs need."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from schemas.protobuf import ProtobufError, double, fields_of, signed
from streams.web.otlp.telemetry import (
    POINTS_MAX,
    SPANS_MAX,
    Attribute,
    Attributes,
    Point,
    SpanEvent,
    TelemetryError,
    TraceSpan,
)

_ERROR: Final = 2


def spans_of(body: bytes) -> list[TraceSpan]:
    """Return the spans of an ExportTraceServiceRequest.

    Raises:
        TelemetryError: It is none, or has too many spans.
    """
    found: list[TraceSpan] = []
    try:
        for resource_spans in _messages(body, 1):
            resource = _resource(resource_spans)
            for span in (span for scope in _messages(resource_spans, 2) for span in _messages(scope, 2)):
                if len(found) == SPANS_MAX:
                    raise TelemetryError(f"more than {SPANS_MAX} spans; send fewer at once")
                found.append(_span(span, resource))
    except ProtobufError as fault:
        raise TelemetryError(f"expected OTLP in Protocol Buffers: {fault}") from None
    return found


def points_of(body: bytes) -> list[Point]:
    """Return the points of gauges and sums of an ExportMetricsServiceRequest.

    Raises:
        TelemetryError: It is none, or has too many points.
    """
    found: list[Point] = []
    try:
        for resource_metrics in _messages(body, 1):
            resource = _resource(resource_metrics)
            for metric in (each for scope in _messages(resource_metrics, 2) for each in _messages(scope, 2)):
                for point in _points(metric, resource):
                    if len(found) == POINTS_MAX:
                        raise TelemetryError(f"more than {POINTS_MAX} points; send fewer at once")
                    found.append(point)
    except ProtobufError as fault:
        raise TelemetryError(f"expected OTLP in Protocol Buffers: {fault}") from None
    return found


def _span(message: bytes, resource: Attributes) -> TraceSpan:
    trace_id = span_id = ""
    start_nano = end_nano = 0
    is_error = False
    attributes: dict[str, Attribute] = {}
    events: list[SpanEvent] = []
    for number, value in fields_of(message):
        if isinstance(value, int):
            if number == 7:
                start_nano = value
            elif number == 8:
                end_nano = value
        elif number == 1:
            trace_id = _id(value, 16)
        elif number == 2:
            span_id = _id(value, 8)
        elif number == 9:
            attributes.update(_attribute(value))
        elif number == 11:
            events.append(_event(value))
        elif number == 15:
            is_error = (3, _ERROR) in fields_of(value)
    if not trace_id or not span_id:
        raise TelemetryError("a span has no ids")
    return TraceSpan(trace_id, span_id, start_nano, end_nano, is_error, attributes, resource, events)


def _event(message: bytes) -> SpanEvent:
    name, time_nano = "", 0
    for number, value in fields_of(message):
        if number == 1 and isinstance(value, int):
            time_nano = value
        elif number == 2 and isinstance(value, bytes):
            name = _text(value)
    return SpanEvent(name, time_nano)


def _points(metric: bytes, resource: Attributes) -> Iterator[Point]:
    name = ""
    data: list[bytes] = []
    for number, value in fields_of(metric):
        if isinstance(value, bytes):
            if number == 1:
                name = _text(value)
            elif number in (5, 7):  # gauge, sum
                data += _messages(value, 1)
    for message in data:
        point = _point(name, message, resource)
        if point is not None:
            yield point


def _point(name: str, message: bytes, resource: Attributes) -> Point | None:
    """Return the point of a gauge or a sum; None where it has no value."""
    time_nano, found = 0, None
    attributes: dict[str, Attribute] = {}
    for number, value in fields_of(message):
        if isinstance(value, bytes):
            if number == 7:
                attributes.update(_attribute(value))
        elif number == 3:
            time_nano = value
        elif number == 4:
            found = double(value)
        elif number == 6:
            found = float(signed(value))
    return None if found is None else Point(name, time_nano, found, attributes, resource)


def _resource(message: bytes) -> Attributes:
    """Return the attributes of the resource, field 1 of what belongs to one."""
    found: dict[str, Attribute] = {}
    for resource in _messages(message, 1):
        for attribute in _messages(resource, 1):
            found.update(_attribute(attribute))
    return found


def _attribute(message: bytes) -> dict[str, Attribute]:
    """Return a key with its value; nothing where the value is a list or the like."""
    key, found = "", dict[str, Attribute]()
    for number, value in fields_of(message):
        if not isinstance(value, bytes):
            continue
        if number == 1:
            key = _text(value)
        elif number == 2:
            for kind, each in fields_of(value):
                if kind == 1 and isinstance(each, bytes):
                    found["value"] = _text(each)
                elif kind == 2 and isinstance(each, int):
                    found["value"] = bool(each)
                elif kind == 3 and isinstance(each, int):
                    found["value"] = signed(each)
                elif kind == 4 and isinstance(each, int):
                    found["value"] = double(each)
    return dict.fromkeys((key,), found["value"]) if found else {}


def _messages(message: bytes, field: int) -> Iterator[bytes]:
    """Yield the messages in a field of another."""
    for number, value in fields_of(message):
        if number == field and isinstance(value, bytes):
            yield value


def _id(value: bytes, length: int) -> str:
    if len(value) != length:
        raise TelemetryError(f"an id has {len(value)} bytes, expected {length}")
    return value.hex()


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise TelemetryError("a text is not UTF-8") from None
