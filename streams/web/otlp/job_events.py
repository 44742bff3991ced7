"""Makes events of jobs from spans and points that name one. Pure functions: what is sent again gives the same events."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from schemas.events import PRICE_FIELDS
from streams.web.otlp.telemetry import Attribute, Attributes, Point, TraceSpan

_JOB: Final = "trainfare.job."
JOB_ID: Final = "trainfare.job.id"
_QUALITY: Final = "trainfare.quality."
_PROGRESS: Final = "trainfare.progress."
CHECKPOINT: Final = "trainfare.checkpoint"
_SOURCE: Final = "otlp"
_MS_NANO: Final = 1_000_000
#: OpenTelemetry's own names -> price fields.
_CONVENTIONS: Final[Mapping[str, str]] = {
    "cloud.provider": "cloud",
    "cloud.region": "region",
    "cloud.availability_zone": "zone",
    "cloud.account.id": "account",
    "host.type": "instance_type",
    "k8s.cluster.name": "cluster",
}
_DESCRIBES: Final = ("owner", "team", "project", "experiment", *PRICE_FIELDS)


def events_of_spans(spans: Iterable[TraceSpan]) -> Iterator[dict[str, Any]]:
    """Yield the events of the spans that are jobs, or what happened to one: those with the attribute of a job's id."""
    for span in spans:
        if JOB_ID not in span.attributes:
            continue
        base = {"source": _SOURCE, **_of_job(span.attributes)}
        id_ = f"{span.trace_id}.{span.span_id}"
        described = {**_description(span.resource), **_description(span.attributes)}
        measured = _measures(span.attributes)
        happened = span.attributes.get(f"{_JOB}event")
        if happened is not None:
            yield {
                **base,
                **described,
                **measured,
                **_reason(span.attributes),
                "id": f"{id_}.event",
                "time_ms": span.end_nano // _MS_NANO,
                "type": happened,
            }
            continue
        yield {
            **base,
            **described,
            "id": f"{id_}.started",
            "time_ms": span.start_nano // _MS_NANO,
            "type": "started",
        }
        for index, event in enumerate(span.events):
            if event.name == CHECKPOINT:
                yield {
                    **base,
                    "id": f"{id_}.checkpoint.{index}",
                    "time_ms": event.time_nano // _MS_NANO,
                    "type": "checkpointed",
                }
        yield {
            **base,
            **measured,
            **({"reason": "unknown", **_reason(span.attributes)} if span.is_error else {}),
            "id": f"{id_}.ended",
            "time_ms": span.end_nano // _MS_NANO,
            "type": "failed" if span.is_error else "completed",
        }


def events_of_points(points: Iterable[Point]) -> Iterator[dict[str, Any]]:
    """Yield a heartbeat of each job of which points say quality or progress; of several values of a name the newest."""
    jobs: dict[bytes, tuple[Attributes, dict[str, Point]]] = {}
    for point in points:
        attributes: Attributes = {**point.resource, **point.attributes}
        if JOB_ID not in attributes or not point.metric.startswith((_QUALITY, _PROGRESS)):
            continue
        key = msgspec.json.encode(_of_job(attributes))
        _, values = jobs.setdefault(key, (attributes, {}))
        if point.metric not in values or values[point.metric].time_nano <= point.time_nano:
            values[point.metric] = point
    for attributes, values in jobs.values():
        measured = _measures({name: point.value for name, point in values.items()})
        if not measured:
            continue
        time_ms = max(point.time_nano for point in values.values()) // _MS_NANO
        event = {
            "source": _SOURCE,
            **_of_job(attributes),
            **measured,
            "time_ms": time_ms,
            "type": "heartbeat",
        }
        content = hashlib.blake2b(msgspec.json.encode(event, order="sorted"), digest_size=8).hexdigest()
        yield {**event, "id": f"points.{time_ms}.{content}"}


def _of_job(attributes: Attributes) -> dict[str, Any]:
    """Return job and attempt; what is wrong with them is said where events are judged."""
    found: dict[str, Any] = {"job_id": _text(attributes[JOB_ID])}
    if f"{_JOB}attempt" in attributes:
        found["attempt"] = attributes[f"{_JOB}attempt"]
    return found


def _description(attributes: Attributes) -> dict[str, Any]:
    found: dict[str, Any] = {
        field: _text(attributes[name]) for name, field in _CONVENTIONS.items() if name in attributes
    }
    for name in _DESCRIBES:
        if f"{_JOB}{name}" in attributes:
            found[name] = _text(attributes[f"{_JOB}{name}"])
    if f"{_JOB}gpus" in attributes:
        found["gpu_count"] = attributes[f"{_JOB}gpus"]
    return found


def _reason(attributes: Attributes) -> dict[str, Any]:
    reason = attributes.get(f"{_JOB}reason")
    return {} if reason is None else {"reason": reason}


def _measures(attributes: Attributes) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for field, prefix in (("quality", _QUALITY), ("progress", _PROGRESS)):
        values = {
            name.removeprefix(prefix): value
            for name, value in attributes.items()
            if name.startswith(prefix) and _is_number(value)
        }
        if values:
            found[field] = values
    return found


def _is_number(value: Attribute) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def _text(value: Attribute) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
