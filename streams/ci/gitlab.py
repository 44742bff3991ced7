"""A job of GitLab CI, by a webhook or by the API."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple

from streams.ci.jobs import CiJob

_STARTED: Final = frozenset({"running", "success", "failed", "canceled"})
_ENDS: Final = {"success": "completed", "failed": "failed", "canceled": "cancelled", "skipped": "cancelled"}
_REASONS: Final = {
    "job_execution_timeout": "timeout",
    "stuck_or_timeout_failure": "timeout",
    "runner_system_failure": "node_failure",
    "stale_schedule": "unknown",
}


class Build(NamedTuple):
    """One attempt of a job. `retries`: how many there were before; None where that is not known. `tags` are those of the runner."""

    id: int
    name: str
    status: str
    pipeline_id: int
    path: str
    ref: str
    stage: str
    failure_reason: str
    created_at: str | None
    started_at: str | None
    finished_at: str | None
    retries: int | None
    tags: Sequence[str]
    user: str


def job_of(build: Build) -> CiJob:
    """The job.

    Raises:
        ValueError: A time is none.
    """
    steps = [("queued", _instant(build.created_at))]
    if build.status in _STARTED:
        steps.append(("started", _instant(build.started_at)))
    if build.status in _ENDS:
        steps.append((_ENDS[build.status], _instant(build.finished_at)))
    job_id = f"gitlab/{build.path}/{build.pipeline_id}/{build.name}"
    if build.retries is None:  # an older GitLab does not count them: each build is a job
        job_id = f"{job_id}/{build.id}"
    return CiJob(
        source="gitlab",
        job_id=job_id,
        attempt=(build.retries or 0) + 1,
        build=build.id,
        names=[*build.tags, build.name],
        steps=steps,
        reason=_REASONS.get(build.failure_reason, "unknown"),
        dimensions={"owner": build.user, "team": build.path.rpartition("/")[0], "project": build.path},
        labels={
            "repository": build.path,
            "branch": build.ref,
            "stage": build.stage,
            "ci_job": build.name,
        },
    )


def _instant(text: str | None) -> datetime | None:
    """The second of a text such as `2026-06-01 10:00:00 UTC`, as webhooks have it, or in ISO 8601, as the API has it.

    Raises:
        ValueError: The text is in neither form.
    """
    if not text:
        return None
    at = datetime.fromisoformat(text.removesuffix(" UTC")).replace(microsecond=0)
    return at if at.tzinfo else at.replace(tzinfo=UTC)
