"""Reads CustomJob of Vertex AI. It has one attempt: the API does not tell restarts of its workers."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from streams.collect.training_jobs.jobs import InstanceGroup, Instant, JobStep, TrainingJob, tagged, time_ms
from streams.collect.training_jobs.options import TrainingJobOptions

LISTS: Final = ("customJobs",)
_NAME: Final = re.compile(r"projects/([^/]+)/locations/([^/]+)/customJobs/([^/]+)\Z")
_ENDS: Final = {
    "JOB_STATE_SUCCEEDED": ("completed", ""),
    "JOB_STATE_PARTIALLY_SUCCEEDED": ("completed", ""),
    "JOB_STATE_FAILED": ("failed", "unknown"),
    "JOB_STATE_CANCELLED": ("cancelled", ""),
    "JOB_STATE_EXPIRED": ("failed", "timeout"),
}
_DEADLINE_EXCEEDED: Final = 4
#: The former word, LOW_COST, is spot capacity, too.
_SPOT: Final = ("SPOT", "LOW_COST")
_RESERVED: Final = "SPECIFIC_RESERVATION"
#: Google's names -> those of price lists; others are taken without NVIDIA_, TESLA_ and the memory.
_GPU_TYPES: Final = {"NVIDIA_A100_80GB": "A100-80GB", "NVIDIA_H100_MEGA_80GB": "H100-MEGA"}
_DECORATION: Final = re.compile(r"\A(?:NVIDIA_)?(?:TESLA_)?|_\d+GB\Z")


class _Affinity(msgspec.Struct):
    type: str = msgspec.field(name="reservationAffinityType", default="")


class _Machine(msgspec.Struct):
    machine_type: str = msgspec.field(name="machineType", default="")
    accelerator_type: str = msgspec.field(name="acceleratorType", default="")
    accelerator_count: int = msgspec.field(name="acceleratorCount", default=0)
    reservation: _Affinity | None = msgspec.field(name="reservationAffinity", default=None)


class _Pool(msgspec.Struct):
    machine: _Machine | None = msgspec.field(name="machineSpec", default=None)
    replicas: int | str = msgspec.field(name="replicaCount", default=1)


class _Scheduling(msgspec.Struct):
    strategy: str = ""


class _JobSpec(msgspec.Struct):
    pools: list[_Pool] = msgspec.field(name="workerPoolSpecs", default_factory=list)
    scheduling: _Scheduling | None = None


class _VertexError(msgspec.Struct):
    code: int = 0


class _CustomJob(msgspec.Struct):
    name: str
    state: str
    spec: _JobSpec = msgspec.field(name="jobSpec")
    display_name: str = msgspec.field(name="displayName", default="")
    created: Instant = msgspec.field(name="createTime", default=None)
    started: Instant = msgspec.field(name="startTime", default=None)
    ended: Instant = msgspec.field(name="endTime", default=None)
    error: _VertexError | None = None
    labels: dict[str, str] = {}


_custom_job: Final = msgspec.json.Decoder(_CustomJob)


def job_of(piece: bytes, options: TrainingJobOptions) -> TrainingJob:
    """The job of a document.

    Raises:
        ValueError: The document does not describe a training job.
    """
    found = _custom_job.decode(piece)
    name = _NAME.match(found.name)
    if name is None:
        raise ValueError("name: expected projects/.../locations/.../customJobs/...")
    steps = [("queued", time_ms(found.created), ""), ("started", time_ms(found.started), "")]
    if found.state in _ENDS:
        kind, reason = _ENDS[found.state]
        if found.error is not None and found.error.code == _DEADLINE_EXCEEDED:
            reason = "timeout"
        steps.append((kind, time_ms(found.ended), reason if kind == "failed" else ""))
    return TrainingJob(
        job_id=name[3],
        steps=[JobStep(1, kind, at_ms, reason) for kind, at_ms, reason in steps if at_ms is not None],
        groups=[_group(pool) for pool in found.spec.pools if pool.machine is not None],
        fields={
            "cloud": "gcp",
            "region": name[2],
            "account": name[1],
            "purchase": _purchase(found.spec),
        },
        dimensions=tagged(options, found.labels),
        labels={"vertex": found.display_name},
        state="ended" if found.state in _ENDS else "running" if found.state == "JOB_STATE_RUNNING" else "",
    )


def _group(pool: _Pool) -> InstanceGroup:
    machine = pool.machine
    assert machine is not None
    given = machine.accelerator_type
    gpu_type = _GPU_TYPES.get(given) or _DECORATION.sub("", given)
    return InstanceGroup(
        machine.machine_type,
        int(str(pool.replicas)[:9]),
        (machine.accelerator_count, gpu_type) if machine.accelerator_count else None,
    )


def _purchase(spec: _JobSpec) -> str:
    if spec.scheduling is not None and spec.scheduling.strategy in _SPOT:
        return "spot"
    affinities = (pool.machine.reservation for pool in spec.pools if pool.machine is not None)
    return (
        "reserved" if any(each is not None and each.type == _RESERVED for each in affinities) else "on_demand"
    )
