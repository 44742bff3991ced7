"""Reads OTLP in JSON. Numbers of 64 bits may be texts, as Protocol Buffers write them in JSON.

Any part may have any form: what is wrong costs itself and no other part. Others' attributes are not looked at.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

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
    int64,
    number,
    text,
    time_nano,
)

_ERROR: Final = (2, "STATUS_CODE_ERROR")
#: Digits of a number of 64 bits, with its sign.
_DIGITS_MAX: Final = 20
#: Levels of nesting; deeper values are read as null. A span's attribute stands on the tenth.
_DEPTH_MAX: Final = 100
_TOKENS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[\]{}]', re.DOTALL)
_VALUES: Final = ("stringValue", "boolValue", "intValue", "doubleValue")
_Object = dict[str, Any]


def spans_of(body: bytes, faults: Faults | None = None) -> list[TraceSpan]:
    """The spans of an ExportTraceServiceRequest that name a job; what cannot be read is added to `faults`.

    Raises:
        TelemetryError: The body is not such a request.
    """
    faults = Faults() if faults is None else faults
    found: list[TraceSpan] = []
    for part in _parts(body, "resourceSpans", faults):
        resource = _resource(part, faults)
        for scope in _objects(part, "scopeSpans", faults):
            for span in _objects(scope, "spans", faults):
                try:
                    attributes = _attributes(span, faults)
                    if JOB_ID in attributes:
                        found.append(_span(span, attributes, resource, faults))
                except TelemetryError as fault:
                    faults.reject(f"a span: {fault}")
    return found


def points_of(body: bytes, faults: Faults | None = None) -> list[Point]:
    """The points of an ExportMetricsServiceRequest's gauges and sums that are of jobs; what cannot be read is added to `faults`.

    Raises:
        TelemetryError: The body is not such a request.
    """
    faults = Faults() if faults is None else faults
    found: list[Point] = []
    for part in _parts(body, "resourceMetrics", faults):
        resource = _resource(part, faults)
        for scope in _objects(part, "scopeMetrics", faults):
            for metric in _objects(scope, "metrics", faults):
                name = metric.get("name")
                if not isinstance(name, str) or not is_of_job(name):
                    continue
                for point in _points_in(metric, name, faults):
                    try:
                        found += _point(name, point, resource, faults)
                    except TelemetryError as fault:
                        faults.reject(f"{name[:80]}: {fault}")
    return found


def _parts(body: bytes, name: str, faults: Faults) -> Iterator[_Object]:
    """Yield the objects of the list that a request is.

    Raises:
        TelemetryError: There is no such list, nor nothing.
    """
    # Bytes that are no UTF-8 become halves of surrogates, as those that JSON may have escaped; `text` refuses both.
    written = body.decode("utf-8", "surrogateescape")
    try:
        try:
            request = _parsed(written)
        except RecursionError:
            request = _parsed(_cut_to_depth(written))
    except (ValueError, RecursionError) as fault:
        raise TelemetryError(f"expected OTLP in JSON: {fault}") from None
    if not isinstance(request, dict) or not isinstance(request.get(name) or [], list):
        raise TelemetryError(f'expected OTLP in JSON: an object such as {{"{name}": [...]}}')
    return _objects(request, name, faults)


def _parsed(written: str) -> Any:
    return json.loads(written, parse_int=_int_of)


def _int_of(digits: str) -> int | Unreadable:
    return int(digits) if len(digits) <= _DIGITS_MAX else Unreadable("a number of more than 64 bits")


def _cut_to_depth(written: str) -> str:
    """The same JSON with null for each value that is nested too deep."""
    kept: list[str] = []
    depth = begin = 0
    for token in _TOKENS.finditer(written):
        bracket = token[0]
        if bracket in ("[", "{"):
            depth += 1
            if depth == _DEPTH_MAX + 1:
                kept.append(written[begin : token.start()])
        elif bracket in ("]", "}"):
            depth -= 1
            if depth == _DEPTH_MAX:
                kept.append("null")
                begin = token.end()
    if depth > _DEPTH_MAX:
        raise ValueError("an object or a list has no end")
    return "".join([*kept, written[begin:]])


def _objects(holder: _Object, name: str, faults: Faults) -> Iterator[_Object]:
    """Yield the objects of a list; what else stands there is rejected."""
    listed = holder.get(name)
    if listed is None:
        return
    if not isinstance(listed, list):
        faults.reject(f"{name}: expected a list")
        return
    for each in listed:
        if faults.is_too_many():
            continue
        if isinstance(each, dict):
            yield each
        else:
            faults.reject(f"{name}: expected objects")


def _span(span: _Object, attributes: Attributes, resource: Attributes, faults: Faults) -> TraceSpan:
    return TraceSpan(
        trace_id=_hexadecimal(span, "traceId", 32),
        span_id=_hexadecimal(span, "spanId", 16),
        start_nano=_time(span, "startTimeUnixNano"),
        end_nano=_time(span, "endTimeUnixNano"),
        is_error=_is_error(span.get("status")),
        attributes=attributes,
        resource=resource,
        events=list(_checkpoints(span.get("events"), faults)),
    )


def _is_error(status: Any) -> bool:
    if status is None:
        return False
    code = status.get("code", 0) if isinstance(status, dict) else None
    if not isinstance(code, (int, str)):
        raise TelemetryError('status: expected an object such as {"code": 2}')
    return code in _ERROR


def _checkpoints(events: Any, faults: Faults) -> Iterator[SpanEvent]:
    """Yield the events that mean something; there may be anything else."""
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("name") == CHECKPOINT:
            try:
                yield SpanEvent(CHECKPOINT, _time(event, "timeUnixNano"), _attributes(event, faults))
            except TelemetryError as fault:
                faults.leave_out(f"{CHECKPOINT}: {fault}")


def _points_in(metric: _Object, name: str, faults: Faults) -> Iterator[_Object]:
    for kind in ("gauge", "sum"):
        data = metric.get(kind)
        if isinstance(data, dict):
            yield from _objects(data, "dataPoints", faults)
        elif data is not None:
            faults.reject(f"{name[:80]}: {kind}: expected an object")


def _point(name: str, point: _Object, resource: Attributes, faults: Faults) -> Iterator[Point]:
    """Yield the point, where it has a value and a job."""
    attributes = _attributes(point, faults)
    value = next((point[key] for key in ("asDouble", "asInt") if point.get(key) is not None), None)
    if value is None or (JOB_ID not in attributes and JOB_ID not in resource):
        return
    found = number(value) if point.get("asDouble") is not None else float(int64(value))
    yield Point(name, _time(point, "timeUnixNano"), found, attributes, resource)


def _resource(part: _Object, faults: Faults) -> Attributes:
    """The attributes of a resource; one that cannot be read has none, for its spans may say all by themselves."""
    resource = part.get("resource")
    try:
        if not isinstance(resource, dict | None):
            raise TelemetryError("expected an object")
        return {} if resource is None else _attributes(resource, faults)
    except TelemetryError as fault:
        faults.leave_out(f"a resource: {fault}")
        return {}


def _attributes(holder: _Object, faults: Faults) -> dict[str, Attribute]:
    """Attributes by name; one that has no value, or no name, is left out.

    Raises:
        TelemetryError: They are no list.
    """
    listed = holder.get("attributes")
    if listed is None:
        return {}
    if not isinstance(listed, list):
        raise TelemetryError("attributes: expected a list")
    found: dict[str, Attribute] = {}
    for each in listed:
        if not isinstance(each, dict) or not isinstance(each.get("key"), str):
            faults.leave_out(
                'an attribute: expected an object such as {"key": "a", "value": {"intValue": "1"}}'
            )
        elif each.get("value") is not None:
            value = _value_of(each["value"])
            found |= {} if value is None else {each["key"]: value}
    return found


def _value_of(value: Any) -> Attribute | None:
    """The value of an attribute, which may have none."""
    if not isinstance(value, dict):
        return Unreadable('is no object such as {"stringValue": "a"}')
    kind = next((each for each in _VALUES if value.get(each) is not None), None)
    if kind is not None:
        return _value(kind, value[kind])
    if all(each is None for each in value.values()):
        return None
    return Unreadable("is a list or the like, expected a text or a number")


def _value(kind: str, value: Any) -> Attribute:
    try:
        if kind == "intValue":
            return int64(value)
        if kind == "doubleValue":
            return number(value)
    except TelemetryError as fault:
        return Unreadable(str(fault))
    if kind == "stringValue" and isinstance(value, str):
        return text(value)
    if kind == "boolValue" and isinstance(value, bool):
        return value
    return Unreadable(f"is no {kind}")


def _time(holder: _Object, name: str) -> int:
    try:
        return time_nano(0 if holder.get(name) is None else holder[name])
    except TelemetryError as fault:
        raise TelemetryError(f"{name}: {fault}") from None


def _hexadecimal(span: _Object, name: str, length: int) -> str:
    found = span.get(name)
    if (
        not isinstance(found, str)
        or len(found) != length
        or not set(found.lower()) <= set("0123456789abcdef")
    ):
        raise TelemetryError(f"{name}: {str(found)[:40]!r} is no id of {length} hexadecimal digits")
    return found.lower()
