"""Reads jobs of Azure Machine Learning, as Azure Resource Manager has them.

That does not tell when a job began and ended: `startTimeUtc` and `endTimeUtc`, which the details of a run have, must stand
beside it, or among its properties.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streams.collect.training_jobs.jobs import InstanceGroup, Instant, JobStep, TrainingJob, tagged, time_ms
from streams.collect.training_jobs.options import TrainingJobOptions

LISTS: Final = ("value",)
_HOLDING: Final = frozenset({"Running", "Finalizing"})
_ENDS: Final = {"Completed": "completed", "Failed": "failed", "Canceled": "cancelled"}


class _SystemData(msgspec.Struct):
    created: Instant = msgspec.field(name="createdAt", default=None)
    created_by: str = msgspec.field(name="createdBy", default="")


class _AzureResources(msgspec.Struct):
    instance_type: str | None = msgspec.field(name="instanceType", default=None)
    instance_count: int | None = msgspec.field(name="instanceCount", default=None)


class _RunTimes(msgspec.Struct):
    started: Instant = msgspec.field(name="startTimeUtc", default=None)
    ended: Instant = msgspec.field(name="endTimeUtc", default=None)


class _AzureProperties(msgspec.Struct):
    status: str
    experiment: str = msgspec.field(name="experimentName", default="")
    display_name: str | None = msgspec.field(name="displayName", default=None)
    compute: str | None = msgspec.field(name="computeId", default=None)
    resources: _AzureResources | None = None
    properties: _RunTimes | None = None
    tags: dict[str, str | None] | None = None


class _AzureJob(_RunTimes):
    name: str = ""
    id: str = ""
    properties: _AzureProperties = msgspec.field(default_factory=lambda: _AzureProperties(""))
    system: _SystemData | None = msgspec.field(name="systemData", default=None)


_azure_job: Final = msgspec.json.Decoder(_AzureJob)


def job_of(piece: bytes, options: TrainingJobOptions) -> TrainingJob:
    """The job of a document.

    Raises:
        ValueError: The document does not describe a training job.
    """
    found = _azure_job.decode(piece)
    said = found.properties
    if not found.name or not said.status:
        raise ValueError("expected a job with name and properties.status")
    inner = said.properties or _RunTimes()
    system = found.system or _SystemData()
    steps = [
        ("queued", time_ms(system.created)),
        ("started", time_ms(found.started) or time_ms(inner.started)),
    ]
    if said.status in _ENDS:
        steps.append((_ENDS[said.status], time_ms(found.ended) or time_ms(inner.ended)))
    resources = said.resources or _AzureResources()
    compute = (said.compute or "").rpartition("/")[2]
    parts = found.id.split("/")
    dimensions = tagged(options, {name: text or "" for name, text in (said.tags or {}).items()})
    dimensions["owner"] = dimensions.get("owner") or system.created_by
    dimensions["experiment"] = dimensions.get("experiment") or said.experiment
    return TrainingJob(
        job_id=found.name,
        steps=[
            JobStep(1, kind, at_ms, "unknown" if kind == "failed" else "")
            for kind, at_ms in steps
            if at_ms is not None
        ],
        groups=[InstanceGroup(resources.instance_type or compute, resources.instance_count or 1)],
        fields={"cloud": "azure", "account": parts[2] if len(parts) > 2 else ""},
        dimensions=dimensions,
        labels={"azure_ml": said.display_name or ""},
        state="ended" if said.status in _ENDS else "running" if said.status in _HOLDING else "",
    )
