"""Reads DescribeTrainingJob of SageMaker: attempts by its secondary states, as interruptions of spot capacity end one.

Paid is from the start of the download on instances to their end: SageMaker does not bill their launch. A warm pool that
keeps them after the job is paid, too.
"""

from __future__ import annotations

from typing import Final

import msgspec

from streams.collect.training_jobs.jobs import InstanceGroup, Instant, JobStep, TrainingJob, tagged, time_ms
from streams.collect.training_jobs.options import TrainingJobOptions

LISTS: Final = ("TrainingJobs",)
_HOLD: Final = frozenset({"Downloading", "DownloadingTrainingImage", "Training", "Uploading"})
#: States of a warm pool whose time grows no more.
_POOL_ENDED: Final = frozenset({"Terminated", "Reused"})
_KEPT: Final = frozenset({"Available", *_POOL_ENDED})
#: More than any pool may be kept: 28 days.
_KEPT_S_MAX: Final = 28 * 86_400
_ENDS: Final = frozenset({"Completed", "Failed", "Stopped"})
_TIMEOUTS: Final = frozenset({"MaxRuntimeExceeded", "MaxWaitTimeExceeded"})
_REASONS: Final = {
    "AlgorithmError": "user_error",
    "ClientError": "user_error",
    "InternalServerError": "node_failure",
}


class _Transition(msgspec.Struct):
    status: str = msgspec.field(name="Status")
    start: Instant = msgspec.field(name="StartTime", default=None)


class _ResourceGroup(msgspec.Struct):
    instance_type: str = msgspec.field(name="InstanceType", default="")
    instance_count: int = msgspec.field(name="InstanceCount", default=1)


class _Resources(_ResourceGroup):
    groups: list[_ResourceGroup] = msgspec.field(name="InstanceGroups", default_factory=list)
    plan: str | None = msgspec.field(name="TrainingPlanArn", default=None)
    keep_s: int | None = msgspec.field(name="KeepAlivePeriodInSeconds", default=None)


class _WarmPool(msgspec.Struct):
    status: str = msgspec.field(name="Status", default="")
    billable_s: int | None = msgspec.field(name="ResourceRetainedBillableTimeInSeconds", default=None)


class _ResourceTag(msgspec.Struct):
    key: str = msgspec.field(name="Key")
    value: str = msgspec.field(name="Value", default="")


class _ExperimentConfig(msgspec.Struct):
    name: str = msgspec.field(name="ExperimentName", default="")


class _Description(msgspec.Struct):
    name: str = msgspec.field(name="TrainingJobName")
    status: str = msgspec.field(name="TrainingJobStatus")
    resources: _Resources = msgspec.field(name="ResourceConfig")
    arn: str = msgspec.field(name="TrainingJobArn", default="")
    created: Instant = msgspec.field(name="CreationTime", default=None)
    started: Instant = msgspec.field(name="TrainingStartTime", default=None)
    ended: Instant = msgspec.field(name="TrainingEndTime", default=None)
    failure: str | None = msgspec.field(name="FailureReason", default=None)
    is_spot: bool | None = msgspec.field(name="EnableManagedSpotTraining", default=None)
    billable_s: int | None = msgspec.field(name="BillableTimeInSeconds", default=None)
    transitions: list[_Transition] = msgspec.field(name="SecondaryStatusTransitions", default_factory=list)
    experiment: _ExperimentConfig | None = msgspec.field(name="ExperimentConfig", default=None)
    warm_pool: _WarmPool | None = msgspec.field(name="WarmPoolStatus", default=None)
    tags: list[_ResourceTag] = msgspec.field(name="Tags", default_factory=list)


_description: Final = msgspec.json.Decoder(_Description)


def job_of(piece: bytes, options: TrainingJobOptions) -> TrainingJob:
    """The job of a document.

    Raises:
        ValueError: The document does not describe a training job.
    """
    found = _description.decode(piece)
    arn = found.arn.split(":")
    dimensions = tagged(options, {tag.key: tag.value for tag in found.tags})
    if found.experiment is not None and found.experiment.name:
        dimensions["experiment"] = dimensions.get("experiment") or found.experiment.name
    groups = found.resources.groups or [found.resources]
    bought = "reserved" if found.resources.plan else "on_demand"
    kept_ms, kept_open = _kept(found)
    return TrainingJob(
        job_id=found.name,
        steps=_steps(found),
        groups=[InstanceGroup(each.instance_type, each.instance_count) for each in groups],
        fields={
            "cloud": "aws",
            "region": arn[3] if len(arn) > 5 else "",
            "account": arn[4] if len(arn) > 5 else "",
            "purchase": "spot" if found.is_spot else bought,
        },
        dimensions=dimensions,
        labels={"sagemaker": found.name},
        final_labels={} if found.billable_s is None else {"billable_s": str(found.billable_s)},
        kept_ms=kept_ms,
        state="ended" if found.status in _ENDS else "",
        kept_open=kept_open,
    )


def _kept(found: _Description) -> tuple[tuple[int, int] | None, str]:
    """Return from when to when a warm pool kept the instances; how it keeps them instead, where that is not known.

    Raises:
        ValueError: It is longer than a pool can be.
    """
    pool, keep_s = found.warm_pool or _WarmPool(), found.resources.keep_s or 0
    if pool.billable_s is None:
        is_kept = pool.status in _KEPT or (found.warm_pool is None and keep_s and found.status in _ENDS)
        return None, "are, or were, kept for a time that the document does not have" if is_kept else ""
    if not pool.billable_s:
        return None, ""
    if not 0 < pool.billable_s <= _KEPT_S_MAX:
        raise ValueError(f"a warm pool that was kept for {pool.billable_s} s")
    ended_ms = time_ms(found.ended)
    if pool.status not in _POOL_ENDED or ended_ms is None:
        return None, f"have been kept for {pool.billable_s} s"
    return (ended_ms, ended_ms + pool.billable_s * 1000), ""


def _steps(found: _Description) -> list[JobStep]:
    steps = _Steps()
    steps.add("queued", time_ms(found.created))
    started_ms, ended_ms = time_ms(found.started), time_ms(found.ended)
    for transition in found.transitions:
        at_ms = time_ms(transition.start)
        if transition.status in _HOLD:
            steps.add("allocated", started_ms if steps.attempt == 1 and started_ms is not None else at_ms)
            if transition.status == "Training":
                steps.add("started", at_ms)
        elif transition.status == "Interrupted":
            steps.ended("preempted", at_ms, "spot_reclaim")
        elif transition.status == "Restarting":
            steps.ended("failed", at_ms, "node_failure")
    if steps.attempt == 1:
        steps.add("allocated", started_ms)  # where there are no transitions
    if found.status in _ENDS:
        kind, reason = _end(found)
        steps.add(kind, ended_ms, reason)
    return steps.found


class _Steps:
    """Steps in the order in which they happened; each but the end once in an attempt."""

    def __init__(self) -> None:
        self.attempt = 1
        self.found: list[JobStep] = []

    def add(self, kind: str, at_ms: int | None, reason: str = "") -> None:
        if at_ms is not None and (self.attempt, kind) not in {
            (step.attempt, step.type) for step in self.found
        }:
            self.found.append(JobStep(self.attempt, kind, at_ms, reason))

    def ended(self, kind: str, at_ms: int | None, reason: str) -> None:
        """End an attempt that held something; the next one waits from then on."""
        if at_ms is not None and any(
            (step.attempt, step.type) == (self.attempt, "allocated") for step in self.found
        ):
            self.add(kind, at_ms, reason)
            self.attempt += 1
            self.add("queued", at_ms)


def _end(found: _Description) -> tuple[str, str]:
    if found.status == "Completed":
        return "completed", ""
    if any(transition.status in _TIMEOUTS for transition in found.transitions):
        return "failed", "timeout"
    if found.status == "Stopped":
        return "cancelled", ""
    return "failed", _REASONS.get((found.failure or "").partition(":")[0].strip(), "unknown")
