"""Reads OTLP in JSON. Numbers of 64 bits may be texts, as Protocol Buffers write them in JSON."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, TypeVar

import msgspec

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


class _AnyValue(msgspec.Struct, rename="camel"):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: int | str | None = None
    double_value: float | str | None = None


class _KeyValue(msgspec.Struct):
    key: str
    value: _AnyValue | None = None


class _Resource(msgspec.Struct):
    attributes: list[_KeyValue] = []


class _SpanStatus(msgspec.Struct):
    code: int | str = 0


class _WireSpanEvent(msgspec.Struct, rename="camel"):
    name: str = ""
    time_unix_nano: int | str = 0


class _WireSpan(msgspec.Struct, rename="camel"):
    trace_id: str
    span_id: str
    start_time_unix_nano: int | str = 0
    end_time_unix_nano: int | str = 0
    attributes: list[_KeyValue] = []
    events: list[_WireSpanEvent] = []
    status: _SpanStatus | None = None


class _ScopeSpans(msgspec.Struct):
    spans: list[_WireSpan] = []


class _ResourceSpans(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_spans: list[_ScopeSpans] = []


class _Traces(msgspec.Struct, rename="camel"):
    resource_spans: list[_ResourceSpans] = []


class _WirePoint(msgspec.Struct, rename="camel"):
    time_unix_nano: int | str = 0
    as_double: float | str | None = None
    as_int: int | str | None = None
    attributes: list[_KeyValue] = []


class _Points(msgspec.Struct, rename="camel"):
    data_points: list[_WirePoint] = []


class _OtlpMetric(msgspec.Struct):
    name: str = ""
    gauge: _Points | None = None
    sum: _Points | None = None


class _ScopeMetrics(msgspec.Struct):
    metrics: list[_OtlpMetric] = []


class _ResourceMetrics(msgspec.Struct, rename="camel"):
    resource: _Resource | None = None
    scope_metrics: list[_ScopeMetrics] = []


class _Metrics(msgspec.Struct, rename="camel"):
    resource_metrics: list[_ResourceMetrics] = []


Request = TypeVar("Request", _Traces, _Metrics)


def spans_of(body: bytes) -> list[TraceSpan]:
    """Return the spans of an ExportTraceServiceRequest.

    Raises:
        TelemetryError: It is none, or has too many spans.
    """
    found: list[TraceSpan] = []
    for part in _decoded(body, _Traces).resource_spans:
        resource = _resource(part.resource)
        for scope in part.scope_spans:
            if len(found) + len(scope.spans) > SPANS_MAX:
                raise TelemetryError(f"more than {SPANS_MAX} spans; send fewer at once")
            found += (_span(span, resource) for span in scope.spans)
    return found


def points_of(body: bytes) -> list[Point]:
    """Return the points of gauges and sums of an ExportMetricsServiceRequest.

    Raises:
        TelemetryError: It is none, or has too many points.
    """
    found: list[Point] = []
    for part in _decoded(body, _Metrics).resource_metrics:
        resource = _resource(part.resource)
        for metric in (metric for scope in part.scope_metrics for metric in scope.metrics):
            for points in (metric.gauge, metric.sum):
                if points is not None:
                    found += _points(metric.name, points, resource)
            if len(found) > POINTS_MAX:
                raise TelemetryError(f"more than {POINTS_MAX} points; send fewer at once")
    return found


def _decoded(body: bytes, form: type[Request]) -> Request:
    try:
        body.decode()  # the decoder does not check all strings
        return msgspec.json.decode(body, type=form)
    except (ValueError, RecursionError) as fault:
        raise TelemetryError(f"expected OTLP in JSON: {fault}") from None


def _span(span: _WireSpan, resource: Attributes) -> TraceSpan:
    return TraceSpan(
        trace_id=_hexadecimal(span.trace_id, 32),
        span_id=_hexadecimal(span.span_id, 16),
        start_nano=_number(span.start_time_unix_nano),
        end_nano=_number(span.end_time_unix_nano),
        is_error=span.status is not None and span.status.code in (_ERROR, "STATUS_CODE_ERROR"),
        attributes=_attributes(span.attributes),
        resource=resource,
        events=[SpanEvent(event.name, _number(event.time_unix_nano)) for event in span.events],
    )


def _points(name: str, points: _Points, resource: Attributes) -> Iterator[Point]:
    for point in points.data_points:
        value = point.as_double if point.as_double is not None else point.as_int
        if value is None:
            continue
        try:
            number = float(value)
        except ValueError:
            raise TelemetryError(f"{name[:80]!r}: a value is no number") from None
        yield Point(name, _number(point.time_unix_nano), number, _attributes(point.attributes), resource)


def _resource(resource: _Resource | None) -> Attributes:
    return {} if resource is None else _attributes(resource.attributes)


def _attributes(listed: list[_KeyValue]) -> dict[str, Attribute]:
    found: dict[str, Attribute] = {}
    for each in listed:
        value = each.value
        if value is None:
            continue
        if value.string_value is not None:
            found[each.key] = value.string_value
        elif value.bool_value is not None:
            found[each.key] = value.bool_value
        elif value.int_value is not None:
            found[each.key] = _number(value.int_value)
        elif isinstance(value.double_value, float):
            found[each.key] = value.double_value
    return found


def _number(value: int | str) -> int:
    try:
        if isinstance(value, str) and len(value) > 20:
            raise ValueError
        return int(value)
    except ValueError:
        raise TelemetryError(f"{str(value)[:40]!r} is no whole number") from None


def _hexadecimal(text: str, length: int) -> str:
    if len(text) != length or not set(text.lower()) <= set("0123456789abcdef"):
        raise TelemetryError(f"{text[:40]!r} is no id of {length} hexadecimal digits")
    return text.lower()
