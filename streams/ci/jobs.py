"""A job of a CI system, and its lifecycle events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any, Final, NamedTuple

from schemas.wire_types import MAX_NAME_BYTES
from streams.accounts.accelerators import is_accelerator

_JOB_ID_BYTES: Final = 200
#: States in which a job is not over.
_OPEN: Final = frozenset({"queued", "started"})
#: A runner's clock is less than that away from the one of its system.
_SKEW: Final = timedelta(minutes=1)


class CiGpus(NamedTuple):
    """The GPUs of a runner; the type may be empty."""

    gpu_count: int
    gpu_type: str


class CiJob(NamedTuple):
    """What a message says of one attempt of a job.

    `steps` are its states so far, each with its time; `build` is what the system calls this attempt, `names` are those by
    which its GPUs are known: labels of the runner, and its own name.
    """

    source: str
    job_id: str
    attempt: int
    build: int
    names: Sequence[str]
    steps: Sequence[tuple[str, datetime | None]]
    reason: str
    dimensions: Mapping[str, str]  # owner, team, project, experiment
    labels: Mapping[str, str]


def gpus_of(job: CiJob, gpus: Mapping[str, CiGpus]) -> CiGpus | None:
    """The GPUs of the runner that a job ran on; None if it has none."""
    held = next((gpus[name] for name in job.names if name in gpus), None)
    return None if held is None or held.gpu_count == 0 else held


class UnmeteredJob(NamedTuple):
    """Why a job that means GPUs has no events: one of `REMEDIES`, and what it says."""

    reason: str
    said: str


def left_out(job: CiJob, gpus: Mapping[str, CiGpus]) -> UnmeteredJob | None:
    """Why a job is not understood; None where it is metered, or ran without GPUs."""
    if gpus_of(job, gpus) is None:
        odd = unlisted(job.names, gpus)
        return UnmeteredJob("unlisted_label", f"{job.job_id} ran on {odd}") if odd else None
    times = dict(job.steps)
    if times.get("started") and any(at is None for kind, at in job.steps if kind not in _OPEN):
        return UnmeteredJob("no_times", f"{job.job_id} is over, and nothing says when")
    if begun := times.get("started"):
        ends = [at for kind, at in job.steps if kind not in _OPEN and at is not None]
        if ends and min(ends) < begun - _SKEW:
            return UnmeteredJob("no_times", f"{job.job_id} ends before it begins")
    return None


def unlisted(names: Sequence[str], gpus: Mapping[str, CiGpus]) -> str:
    """The first of some names that is an accelerator's and stands for no GPUs; empty where there is none."""
    return next((name[:100] for name in names if is_accelerator(name) and name not in gpus), "")


def events_of(job: CiJob, gpus: Mapping[str, CiGpus]) -> Iterator[dict[str, Any]]:
    """Yield the events of a job that has GPUs, and whose states have times."""
    held = gpus_of(job, gpus)
    if held is None:
        return
    for kind, at in job.steps:
        if at is None:
            continue
        event: dict[str, Any] = {
            "source": job.source,
            "id": f"{job.build}.{kind}",
            "time_ms": round(at.timestamp() * 1000),
            "job_id": job_id_of(job.job_id),
            "attempt": job.attempt,
            "type": kind,
        }
        if kind in {"queued", "started"}:
            event |= {name: shortened(text) for name, text in job.dimensions.items() if text}
            event["labels"] = {name: shortened(text) for name, text in job.labels.items() if text}
        if kind == "started":
            event["gpu_count"] = held.gpu_count
            if held.gpu_type:
                event["gpu_type"] = held.gpu_type
        elif job.reason and kind == "failed":
            event["reason"] = job.reason
        yield event


def job_id_of(text: str) -> str:
    """The text, or what is as good as unique and short enough for a job's id."""
    text = text.replace("\0", "")  # which no event may have
    if len(text.encode("utf-8", "replace")) <= _JOB_ID_BYTES:
        return text
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()
    return f"{_cut(text, _JOB_ID_BYTES - 17)}~{digest}"


def shortened(text: str) -> str:
    """Return as much of a name as an event may have."""
    return _cut(text.replace("\0", ""), MAX_NAME_BYTES)


def _cut(text: str, bytes_at_most: int) -> str:
    return text.encode("utf-8", "replace")[:bytes_at_most].decode("utf-8", "ignore")
