"""A training job in attempts, and its lifecycle events."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from schemas.wire_types import MAX_NAME_BYTES
from streams.collect.collector import CollectedEvent
from streams.collect.training_jobs.options import TrainingJobOptions
from streams.prices.instance_gpus import NO_GPUS, gpus_of
from streams.topics import Topic

#: Seconds since 1970, or a time in ISO 8601.
Instant = int | float | str | None
_FIRST_S: Final = 946_684_800
_GPUS_MAX: Final = 100_000
_NO_ENDS: Final = frozenset({"queued", "allocated", "started"})
_NUMBER: Final = re.compile(r"\d{1,12}(?:\.\d{1,9})?\Z")


class JobStep(NamedTuple):
    """Something that happened to an attempt."""

    attempt: int
    type: str
    time_ms: int
    reason: str = ""


class InstanceGroup(NamedTuple):
    """Some equal instances; `gpus` where the API itself says how many one has: count and type."""

    instance_type: str
    instance_count: int
    gpus: tuple[int, str] | None = None


class TrainingJob(NamedTuple):
    """What an API says of a job. `final_labels` are known at the end only."""

    job_id: str
    steps: Sequence[JobStep]
    groups: Sequence[InstanceGroup]
    fields: Mapping[str, str]
    dimensions: Mapping[str, str]
    labels: Mapping[str, str]
    final_labels: Mapping[str, str] = {}
    kept_ms: tuple[int, int] | None = (
        None  # from when to when its instances were kept, and paid, after its end
    )
    kept_open: str = ""  # how they are kept, where it is not known from when to when
    state: str = ""  #: `running`, or `ended`, whatever times are said; empty: neither is known


def paid_ms(job: TrainingJob) -> int:
    """Return for how long its attempts hold instances; of those that have ended."""
    paid = 0
    begun: dict[int, int] = {}
    for step in sorted(job.steps, key=lambda step: step.time_ms):
        if step.type in {"allocated", "started"}:
            begun.setdefault(step.attempt, step.time_ms)
        elif step.type != "queued" and step.attempt in begun:
            paid += step.time_ms - begun.pop(step.attempt)
    return paid


def untimed(job: TrainingJob) -> str:
    """What a job has not said that its cost follows from; empty where it has said all."""
    found = {step.type for step in job.steps}
    begun = found & {"allocated", "started"}
    if job.state == "ended" and not found - _NO_ENDS:
        return "is over, and nothing says when"
    if (job.state == "running" or "completed" in found) and not begun:
        return "holds instances, or did, and nothing says since when"
    begun_ms = min((step.time_ms for step in job.steps if step.type in {"allocated", "started"}), default=0)
    if any(step.time_ms < begun_ms for step in job.steps if step.type not in _NO_ENDS):
        return "ends before it begins"
    return ""


def events_of(job: TrainingJob, options: TrainingJobOptions, source: str) -> Iterator[CollectedEvent]:
    """Yield the events of a job.

    Raises:
        UnknownInstanceError: After the last event, if it is not known which GPUs it held.
        ValueError: It cannot be.
    """
    held, unknown = _held(job, options)
    for step in job.steps:
        event: dict[str, Any] = {
            "source": source,
            "id": f"{step.attempt}.{step.type}.{step.time_ms}",
            "time_ms": step.time_ms,
            "job_id": options.job_id_prefix + job.job_id,
            "attempt": step.attempt,
            "type": step.type,
        }
        if step.type in {"queued", "allocated", "started"}:
            event |= {name: _short(text) for name, text in job.dimensions.items() if text} | held
            event["labels"] = _labels(job.labels)
        elif job.final_labels:
            event["labels"] = _labels({**job.labels, **job.final_labels})
        if step.reason:
            event["reason"] = step.reason
        yield CollectedEvent(Topic.JOBS, event)
    if job.kept_ms is not None:
        with suppress(UnknownInstanceError):  # which is raised for the job
            yield from events_of(_kept(job, *job.kept_ms), options, source)
    if unknown:
        raise UnknownInstanceError(unknown)


def _kept(job: TrainingJob, from_ms: int, to_ms: int) -> TrainingJob:
    """What its instances are between its end and theirs: a job of its own, of the same owner."""
    return job._replace(
        job_id=f"{job.job_id}/warm-pool",
        steps=[JobStep(1, "allocated", from_ms), JobStep(1, "completed", to_ms)],
        labels={**job.labels, "warm_pool_of": job.job_id},
        final_labels={},
        kept_ms=None,
    )


class UnknownInstanceError(Exception):
    """It is not known which GPUs a type of instance has."""


def _held(job: TrainingJob, options: TrainingJobOptions) -> tuple[dict[str, Any], str]:
    """What an attempt holds, and a type of instance whose GPUs are not known."""
    found = [
        (group, group.gpus or gpus_of(group.instance_type, options.instance_gpus)) for group in job.groups
    ]
    unknown = next((group.instance_type or "its instance" for group, gpus in found if gpus is None), "")
    held: dict[str, Any] = {
        **job.fields,
        "instance_count": sum(group.instance_count for group in job.groups),
        "gpu_count": sum(group.instance_count * (gpus or NO_GPUS)[0] for group, gpus in found),
    }
    if not held["instance_count"]:
        raise ValueError("it names no instances")
    types = {group.instance_type for group in job.groups}
    gpu_types = {gpus[1] for _, gpus in found if gpus is not None and gpus[0] and gpus[1]}
    if len(types) == 1:
        held["instance_type"] = types.pop()
    if len(gpu_types) == 1:
        held["gpu_type"] = gpu_types.pop()
    if not (0 <= held["gpu_count"] <= _GPUS_MAX and 0 <= held["instance_count"] <= _GPUS_MAX):
        raise ValueError("it holds more instances or GPUs than there are, or fewer than none")
    return {name: value for name, value in (held | options.price_fields).items() if value != ""}, unknown


def tagged(options: TrainingJobOptions, found: Mapping[str, str]) -> dict[str, str]:
    """Owner, team, project and experiment as tags or labels have them, whatever their case."""
    by_name = {name.lower(): text for name, text in found.items()}
    return {name: by_name.get(tag.lower(), "") for name, tag in options.tags.items()}


def time_ms(at: Instant) -> int | None:
    """An instant in ms; None without one.

    Raises:
        ValueError: The value is not an instant.
    """
    if at is None or at == "":
        return None
    if isinstance(at, str) and not _NUMBER.match(at):
        found = datetime.fromisoformat(at)
        at = (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    seconds = float(at)
    if not _FIRST_S <= seconds < 1e11:
        raise ValueError(f"{seconds:g} is no time in seconds")
    return round(seconds * 1000)


def _labels(labels: Mapping[str, str]) -> dict[str, str]:
    return {name: _short(text) for name, text in labels.items() if text}


def _short(text: str) -> str:
    return text.encode("utf-8", "replace")[:MAX_NAME_BYTES].decode("utf-8", "ignore")
