"""A job of GitHub Actions, by a webhook or by the API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Final

import msgspec

from streams.ci.jobs import CiJob

_Instant = Annotated[datetime, msgspec.Meta(tz=True)]
#: What a job concluded with -> how its attempt ended, and why.
_ENDS: Final = {
    "success": ("completed", ""),
    "neutral": ("completed", ""),
    "failure": ("failed", "unknown"),
    "startup_failure": ("failed", "unknown"),
    "timed_out": ("failed", "timeout"),
    "cancelled": ("cancelled", ""),
    "skipped": ("cancelled", ""),
    "stale": ("cancelled", ""),
    "action_required": ("cancelled", ""),
}


class WorkflowJob(msgspec.Struct):
    """One attempt of a job, as webhooks and the API have it."""

    id: int
    run_id: int
    name: str
    run_attempt: int = 1
    labels: list[str] = []
    workflow_name: str | None = None
    head_branch: str | None = None
    status: str = ""
    conclusion: str | None = None
    runner_name: str | None = None
    created_at: _Instant | None = None
    started_at: _Instant | None = None
    completed_at: _Instant | None = None


def job_of(job: WorkflowJob, repository: str, owner: str, action: str) -> CiJob:
    """The job; `action` is how far it is: `queued`, `in_progress`, `completed` or something before."""
    steps: list[tuple[str, datetime | None]] = [("queued", job.created_at)]
    reason = ""
    if action == "in_progress" or (action == "completed" and job.runner_name):
        steps.append(("started", job.started_at))  # again with the end: the message between may be lost
    if action == "completed":
        kind, reason = _ENDS.get(job.conclusion or "", ("failed", "unknown"))
        steps.append((kind, job.completed_at))
    return CiJob(
        source="github",
        # Several jobs of a run may show one name: those of a matrix whose `name` leaves a dimension out.
        job_id=f"github/{repository}/{job.run_id}/{job.name}/{job.id}",
        attempt=job.run_attempt,
        build=job.id,
        names=[*job.labels, job.name],
        steps=steps,
        reason=reason,
        dimensions={
            "owner": owner,
            "team": repository.partition("/")[0],
            "project": repository,
            "experiment": job.workflow_name or "",
        },
        labels={
            "repository": repository,
            "branch": job.head_branch or "",
            "ci_job": job.name,
            "ci_run": str(job.run_id),
        },
    )
