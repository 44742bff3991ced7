"""GitHub's webhook `workflow_job`: its signature, and the job that it speaks of."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Final

import msgspec

from streams.web.hooks.ci_jobs import CiJob

_EVENT: Final = "workflow_job"
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


class _WorkflowJob(msgspec.Struct):
    id: int
    run_id: int
    name: str
    run_attempt: int = 1
    labels: list[str] = []
    workflow_name: str | None = None
    head_branch: str | None = None
    conclusion: str | None = None
    runner_name: str | None = None
    created_at: _Instant | None = None
    started_at: _Instant | None = None
    completed_at: _Instant | None = None


class _Repository(msgspec.Struct):
    full_name: str


class _Account(msgspec.Struct):
    login: str


class _Delivery(msgspec.Struct):
    action: str
    workflow_job: _WorkflowJob
    repository: _Repository
    sender: _Account | None = None


_delivery: Final = msgspec.json.Decoder(_Delivery)


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Return whether the body, as it came, was signed with the secret; in a time that does not tell how nearly."""
    wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = headers.get("X-Hub-Signature-256", "")
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "surrogateescape"))


def job_of(headers: Mapping[str, str], body: bytes) -> CiJob | None:
    """Return the job of a message; None of other messages.

    Raises:
        ValueError, RecursionError: It is no such message.
    """
    if headers.get("X-GitHub-Event", "") != _EVENT:
        return None
    found = _delivery.decode(body)
    job, repository = found.workflow_job, found.repository.full_name
    steps: list[tuple[str, datetime | None]] = [("queued", job.created_at)]
    reason = ""
    if found.action == "in_progress" or (found.action == "completed" and job.runner_name):
        steps.append(("started", job.started_at))  # again with the end: the message between may be lost
    if found.action == "completed":
        kind, reason = _ENDS.get(job.conclusion or "", ("failed", "unknown"))
        steps.append((kind, job.completed_at))
    return CiJob(
        source="github",
        job_id=f"github/{repository}/{job.run_id}/{job.name}",
        attempt=job.run_attempt,
        build=job.id,
        names=[*job.labels, job.name],
        steps=steps,
        reason=reason,
        dimensions={
            "owner": found.sender.login if found.sender else "",
            "team": repository.partition("/")[0],
            "project": repository,
            "experiment": job.workflow_name or "",
        },
        labels={"repository": repository, "branch": job.head_branch or "", "ci_job": job.name},
    )
