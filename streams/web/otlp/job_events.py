"""Makes events of jobs from spans and points that name one. Pure functions: what is sent again gives the same events."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any, Final, NamedTuple

import msgspec

from schemas.events import PRICE_FIELDS
from schemas.wire_types import MAX_ENTRIES, MAX_NAME_BYTES, MAX_SAVE_MS
from streams.web.otlp.telemetry import (
    Attribute,
    Attributes,
    Faults,
    Point,
    TelemetryError,
    TraceSpan,
    Unreadable,
    text,
)

_JOB: Final = "trainfare.job."
JOB_ID: Final = "trainfare.job.id"
_QUALITY: Final = "trainfare.quality."
_PROGRESS: Final = "trainfare.progress."
CHECKPOINT: Final = "trainfare.checkpoint"
_DURATION: Final = "trainfare.checkpoint.duration_ms"
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
_DESCRIBES: Final = ("owner", "team", "project", "experiment", "run_id", *PRICE_FIELDS)
_FAMILIES: Final = (("quality", _QUALITY), ("progress", _PROGRESS))


class Heartbeat(NamedTuple):
    """An event of a job, and the points that it is made of."""

    event: dict[str, Any]
    points: Sequence[Point]


def is_of_job(metric: str) -> bool:
    """Whether a metric of this name may say something about a job."""
    return metric.startswith((_QUALITY, _PROGRESS))


def events_of_spans(spans: Iterable[TraceSpan], faults: Faults | None = None) -> Iterator[dict[str, Any]]:
    """Yield the events of the spans that are jobs, or what happened to one: those with the attribute of a job's id.

    A detail that cannot be read is left out and noted in `faults`.

    Raises:
        TelemetryError: A span has a value that its events cannot do without, and that cannot be read.
    """
    faults = Faults() if faults is None else faults
    for span in spans:
        if JOB_ID in span.attributes:
            yield from _of_span(span, faults)


def _of_span(span: TraceSpan, faults: Faults) -> Iterator[dict[str, Any]]:
    base = {"source": _SOURCE, **_of_job(span.attributes)}
    id_ = f"{span.trace_id}.{span.span_id}"
    described = {**_description(span.resource, faults), **_description(span.attributes, faults)}
    measured = _measures(span.attributes, faults)
    happened = _readable(span.attributes, f"{_JOB}event")
    if happened is not None:
        yield {
            **base,
            **described,
            **measured,
            **_reason(span.attributes),
            **(_duration(span.attributes, faults) if happened == "checkpointed" else {}),
            "id": f"{id_}.event",
            "time_ms": span.end_nano // _MS_NANO,
            "type": happened,
        }
        return
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
                **_duration(event.attributes, faults),
            }
    yield {
        **base,
        **measured,
        **({"reason": "unknown", **_reason(span.attributes)} if span.is_error else {}),
        "id": f"{id_}.ended",
        "time_ms": span.end_nano // _MS_NANO,
        "type": "failed" if span.is_error else "completed",
    }


def heartbeats_of(points: Iterable[Point], faults: Faults | None = None) -> Iterator[Heartbeat]:
    """Yield a heartbeat of each job of which points say quality or progress, with all points that it stands for.

    Of several values of a name it holds the newest; a point that cannot be read is added to `faults`. A job has more than one where it has more values than an event may.
    """
    faults = Faults() if faults is None else faults
    jobs: dict[bytes, tuple[dict[str, Any], dict[str, list[Point]]]] = {}
    for point in points:
        attributes: Attributes = {**point.resource, **point.attributes}
        if JOB_ID not in attributes or not is_of_job(point.metric):
            continue
        try:
            job = _of_job(attributes)
            key = msgspec.json.encode(job)
            _check_measure(point)
        except TelemetryError as fault:
            faults.reject(f"{point.metric[:80]}: {fault}")
            continue
        _, values = jobs.setdefault(key, (job, {}))
        values.setdefault(point.metric, []).append(point)
    for job, values in jobs.values():
        for names in _event_sizes(list(values)):
            yield _heartbeat(job, [point for name in names for point in values[name]])


def _event_sizes(names: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield the names of metrics in as many parts as events are needed."""
    families = ([name for name in names if name.startswith(prefix)] for _, prefix in _FAMILIES)
    parts = (
        [family[first : first + MAX_ENTRIES] for first in range(0, len(family), MAX_ENTRIES)]
        for family in families
    )
    for several in zip_longest(*parts, fillvalue=()):
        yield [name for part in several for name in part]


def _heartbeat(job: Mapping[str, Any], points: Sequence[Point]) -> Heartbeat:
    newest: dict[str, Point] = {}
    for point in points:
        if point.metric not in newest or newest[point.metric].time_nano <= point.time_nano:
            newest[point.metric] = point
    time_ms = max(point.time_nano for point in newest.values()) // _MS_NANO
    measured: dict[str, dict[str, float]] = {}
    for field, prefix in _FAMILIES:
        values = {
            name.removeprefix(prefix): point.value
            for name, point in newest.items()
            if name.startswith(prefix)
        }
        if values:
            measured[field] = values
    event = {"source": _SOURCE, **job, **measured, "time_ms": time_ms, "type": "heartbeat"}
    content = hashlib.blake2b(msgspec.json.encode(event, order="sorted"), digest_size=8).hexdigest()
    return Heartbeat({**event, "id": f"points.{time_ms}.{content}"}, points)


def _check_measure(point: Point) -> None:
    name = point.metric.partition(".")[2].partition(".")[2]
    if why := _no_measure(name, point.value):
        raise TelemetryError(why)


def _no_measure(name: str, value: Attribute) -> str:
    """Why this is no value of that name; empty if it is one."""
    if isinstance(value, Unreadable):
        return value.why
    if isinstance(value, (bool, str)):
        return "is no number"
    if not math.isfinite(value):
        return f"{value} is no finite number"
    readable = text(name)
    if isinstance(readable, Unreadable):
        return f"its name {readable.why}"
    return f"its name has over {MAX_NAME_BYTES} bytes" if len(readable.encode()) > MAX_NAME_BYTES else ""


def _of_job(attributes: Attributes) -> dict[str, Any]:
    """Job and attempt; what is wrong with them is said where events are judged.

    Raises:
        TelemetryError: One cannot be read.
    """
    found: dict[str, Any] = {"job_id": _text(_readable(attributes, JOB_ID))}
    if f"{_JOB}attempt" in attributes:
        found["attempt"] = _readable(attributes, f"{_JOB}attempt")
    return found


def _description(attributes: Attributes, faults: Faults) -> dict[str, Any]:
    named = [*_CONVENTIONS.items(), *((f"{_JOB}{name}", name) for name in _DESCRIBES)]
    found: dict[str, Any] = {}
    for name, field in named:
        if name not in attributes:
            continue
        try:
            found[field] = _text(_readable(attributes, name))
        except TelemetryError as fault:
            faults.leave_out(str(fault))
    if f"{_JOB}gpus" in attributes:
        found["gpu_count"] = _readable(attributes, f"{_JOB}gpus")
    return found


def _reason(attributes: Attributes) -> dict[str, Any]:
    reason = _readable(attributes, f"{_JOB}reason")
    return {} if reason is None else {"reason": reason}


def _duration(attributes: Attributes, faults: Faults) -> dict[str, int]:
    """How long a checkpoint took. A value that is no such time is left out: that the work is safe matters more."""
    found = attributes.get(_DURATION)
    if found is None:
        return {}
    if isinstance(found, int) and not isinstance(found, bool) and 0 <= found <= MAX_SAVE_MS:
        return {"duration_ms": found}
    faults.leave_out(f"{_DURATION}: expected a whole number of ms from 0 to {MAX_SAVE_MS}")
    return {}


def _measures(attributes: Attributes, faults: Faults) -> dict[str, Any]:
    """What is measured. A value that is none is left out: the end of a job matters more."""
    found: dict[str, dict[str, Attribute]] = {}
    for field, prefix in _FAMILIES:
        for name, value in attributes.items():
            if not name.startswith(prefix):
                continue
            why = _no_measure(name.removeprefix(prefix), value)
            values = found.setdefault(field, {}) if not why else {}
            if not why and len(values) == MAX_ENTRIES:
                why = f"one of over {MAX_ENTRIES} values"
            if why:
                faults.leave_out(f"{name[:80]}: {why}")
            else:
                values[name.removeprefix(prefix)] = value
    return found


def _readable(attributes: Attributes, name: str) -> str | int | float | bool | None:
    """An attribute; None where there is none.

    Raises:
        TelemetryError: It cannot be read.
    """
    found = attributes.get(name)
    if isinstance(found, Unreadable):
        raise TelemetryError(f"{name}: {found.why}")
    if isinstance(found, float) and not math.isfinite(found):
        raise TelemetryError(f"{name}: {found} is no finite number")
    return found


def _text(value: str | float | bool | None) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
