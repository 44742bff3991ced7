"""Reads OTLP in Protocol Buffers: the fields of its messages by their numbers (opentelemetry-proto 1), those that jobs need.

A message that is broken costs itself and no other. Others' attributes are not looked at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from schemas.protobuf import ProtobufError, double, fields_of, signed
from streams.web.otlp.job_events import CHECKPOINT, JOB_ID, is_of_job
from streams.web.otlp.telemetry import (
    Attribute,
    Attributes,
    Faults,
    Point,
    SpanEvent,
    TelemetryError,
    TraceSpan,
    Unreadable,
    text,
)

_ERROR: Final = 2


def spans_of(body: bytes, faults: Faults | None = None) -> list[TraceSpan]:
    """The spans of an ExportTraceServiceRequest that name a job; what cannot be read is added to `faults`.

    Raises:
        TelemetryError: The body is not such a request.
    """
    faults = Faults() if faults is None else faults
    found: list[TraceSpan] = []
    for resource_spans in _parts(body, faults):
        resource = _resource(resource_spans, faults)
        for scope in _messages(resource_spans, 2, faults):
            for message in _messages(scope, 2, faults):
                try:
                    span = _span(message, resource, faults)
                except (ProtobufError, TelemetryError) as fault:
                    faults.reject(f"a span: {fault}")
                else:
                    found += () if span is None else (span,)
    return found


def points_of(body: bytes, faults: Faults | None = None) -> list[Point]:
    """The points of an ExportMetricsServiceRequest's gauges and sums that are of jobs; what cannot be read is added to `faults`.

    Raises:
        TelemetryError: The body is not such a request.
    """
    faults = Faults() if faults is None else faults
    found: list[Point] = []
    for resource_metrics in _parts(body, faults):
        resource = _resource(resource_metrics, faults)
        for scope in _messages(resource_metrics, 2, faults):
            for metric in _messages(scope, 2, faults):
                name, points = _metric(metric, faults)
                for message in points if is_of_job(name) else ():
                    try:
                        point = _point(name, message, resource)
                    except (ProtobufError, TelemetryError) as fault:
                        faults.reject(f"{name[:80]}: {fault}")
                    else:
                        found += () if point is None else (point,)
    return found


def _parts(body: bytes, faults: Faults) -> list[bytes]:
    """The messages that a request has.

    Raises:
        TelemetryError: The body is not a protobuf message.
    """
    try:
        return [
            value
            for number, value in fields_of(body)
            if number == 1 and isinstance(value, bytes) and not faults.is_too_many()
        ]
    except ProtobufError as fault:
        raise TelemetryError(f"expected OTLP in Protocol Buffers: {fault}") from None


def _messages(message: bytes, field: int, faults: Faults) -> Iterator[bytes]:
    """Yield the messages in a field of another, as far as that can be read."""
    try:
        for number, value in fields_of(message):
            if number == field and isinstance(value, bytes) and not faults.is_too_many():
                yield value
    except ProtobufError as fault:
        faults.reject(f"what follows in a message that is broken: {fault}")


def _span(message: bytes, resource: Attributes, faults: Faults) -> TraceSpan | None:
    """A span; None for one that names no job, whatever else is wrong with it.

    Raises:
        ProtobufError, TelemetryError: The bytes are not a span.
    """
    numbers: dict[int, int] = {}
    messages: dict[int, list[bytes]] = {}
    for field, value in fields_of(message):
        if isinstance(value, bytes):
            messages.setdefault(field, []).append(value)
        else:
            numbers[field] = value
    attributes: dict[str, Attribute] = {}
    for attribute in messages.get(9, ()):
        attributes.update(_attribute(attribute))
    if JOB_ID not in attributes:
        return None
    return TraceSpan(
        trace_id=_id(messages.get(1, ()), 16),
        span_id=_id(messages.get(2, ()), 8),
        start_nano=numbers.get(7, 0),
        end_nano=numbers.get(8, 0),
        is_error=any((3, _ERROR) in fields_of(status) for status in messages.get(15, ())),
        attributes=attributes,
        resource=resource,
        events=[event for each in messages.get(11, ()) for event in _checkpoints(each, faults)],
    )


def _checkpoints(message: bytes, faults: Faults) -> Iterator[SpanEvent]:
    """Yield the event of a span, if it means something."""
    name, time_nano = b"", 0
    attributes: dict[str, Attribute] = {}
    try:
        for number, value in fields_of(message):
            if number == 1 and isinstance(value, int):
                time_nano = value
            elif number == 2 and isinstance(value, bytes):
                name = value
            elif number == 3 and isinstance(value, bytes):
                attributes.update(_attribute(value))
    except ProtobufError as fault:
        faults.leave_out(f"an event of a span: {fault}")
        return
    if name == CHECKPOINT.encode():
        yield SpanEvent(CHECKPOINT, time_nano, attributes)


def _metric(message: bytes, faults: Faults) -> tuple[str, list[bytes]]:
    """The name of a metric and the points of its gauge or sum; none of what is broken."""
    name = ""
    data: list[bytes] = []
    try:
        for number, value in fields_of(message):
            if isinstance(value, bytes):
                if number == 1:
                    name = _readable(value)
                elif number in (5, 7):  # gauge, sum
                    data.append(value)
    except ProtobufError as fault:
        faults.reject(f"{name[:80] or 'a metric'}: {fault}")
    if not is_of_job(name):
        return name, []
    return name, [point for part in data for point in _messages(part, 1, faults)]


def _point(name: str, message: bytes, resource: Attributes) -> Point | None:
    """The point of a gauge or a sum; None where it has no value, or no job.

    Raises:
        ProtobufError: The bytes are not a metric.
    """
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
    if found is None or (JOB_ID not in attributes and JOB_ID not in resource):
        return None
    return Point(name, time_nano, found, attributes, resource)


def _resource(message: bytes, faults: Faults) -> Attributes:
    """The attributes of the resource, field 1 of what belongs to one, as far as they can be read."""
    found: dict[str, Attribute] = {}
    try:
        for number, resource in fields_of(message):
            if number == 1 and isinstance(resource, bytes):
                for inner, attribute in fields_of(resource):
                    if inner == 1 and isinstance(attribute, bytes):
                        found.update(_attribute(attribute))
    except ProtobufError as fault:
        faults.leave_out(f"a resource: {fault}")
    return found


def _attribute(message: bytes) -> dict[str, Attribute]:
    """A key with its value; nothing where it has none."""
    key, value_message = "", b""
    try:
        for number, value in fields_of(message):
            if isinstance(value, bytes):
                if number == 1:
                    key = _readable(value)
                elif number == 2:
                    value_message = value
        found = _value(value_message)
    except ProtobufError as fault:
        found = Unreadable(f"is broken: {fault}")
    return {} if found is None else {key: found}


def _value(message: bytes) -> Attribute | None:
    """The value of an attribute; None where it has none.

    Raises:
        ProtobufError: The bytes are not a value.
    """
    found: Attribute | None = None
    for kind, each in fields_of(message):
        if kind == 1 and isinstance(each, bytes):
            found = text(_readable(each))
        elif kind == 2 and isinstance(each, int):
            found = bool(each)
        elif kind == 3 and isinstance(each, int):
            found = signed(each)
        elif kind == 4 and isinstance(each, int):
            found = double(each)
        elif kind in (5, 6, 7):
            found = Unreadable("is a list or the like, expected a text or a number")
        elif 1 <= kind <= 4:
            found = Unreadable("is of another type than it says")
    return found


def _id(values: Sequence[bytes], length: int) -> str:
    if not values:
        raise TelemetryError("a span has no ids")
    if len(values[-1]) != length:
        raise TelemetryError(f"an id has {len(values[-1])} bytes, expected {length}")
    return values[-1].hex()


def _readable(value: bytes) -> str:
    """A text; bytes that are no UTF-8 become what `telemetry.text` refuses."""
    return value.decode("utf-8", "surrogateescape")
