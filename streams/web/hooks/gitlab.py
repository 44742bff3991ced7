"""GitLab's webhook of jobs: its token, and the job that it speaks of."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

import msgspec

from streams.web.hooks.ci_jobs import CiJob

_EVENT: Final = "Job Hook"
_STARTED: Final = frozenset({"running", "success", "failed", "canceled"})
_ENDS: Final = {"success": "completed", "failed": "failed", "canceled": "cancelled", "skipped": "cancelled"}
_REASONS: Final = {
    "job_execution_timeout": "timeout",
    "stuck_or_timeout_failure": "timeout",
    "runner_system_failure": "node_failure",
    "stale_schedule": "unknown",
}


class _Runner(msgspec.Struct):
    description: str | None = None
    tags: list[str] = []


class _User(msgspec.Struct):
    name: str = ""
    username: str = ""


class _GitlabProject(msgspec.Struct):
    path_with_namespace: str = ""


class _Hook(msgspec.Struct):
    build_id: int
    build_name: str
    build_status: str
    pipeline_id: int
    ref: str = ""
    build_stage: str = ""
    build_failure_reason: str | None = None
    build_created_at: str | None = None
    build_started_at: str | None = None
    build_finished_at: str | None = None
    retries_count: int | None = None
    project_name: str = ""
    project: _GitlabProject | None = None
    runner: _Runner | None = None
    user: _User | None = None


_hook: Final = msgspec.json.Decoder(_Hook)


def has_token(headers: Mapping[str, str], secret: str) -> bool:
    """Return whether the message shows the secret; in a time that does not tell how nearly."""
    given = headers.get("X-Gitlab-Token", "")
    return hmac.compare_digest(secret.encode(), given.encode("utf-8", "surrogateescape"))


def job_of(headers: Mapping[str, str], body: bytes) -> CiJob | None:
    """Return the job of a message; None of other messages.

    Raises:
        ValueError, RecursionError: It is no such message.
    """
    if headers.get("X-Gitlab-Event", "") != _EVENT:
        return None
    found = _hook.decode(body)
    path = (found.project.path_with_namespace if found.project else "") or found.project_name.replace(" ", "")
    steps = [("queued", _instant(found.build_created_at))]
    if found.build_status in _STARTED:
        steps.append(("started", _instant(found.build_started_at)))
    if found.build_status in _ENDS:
        steps.append((_ENDS[found.build_status], _instant(found.build_finished_at)))
    job_id = f"gitlab/{path}/{found.pipeline_id}/{found.build_name}"
    if found.retries_count is None:  # an older GitLab does not count them: each build is a job
        job_id = f"{job_id}/{found.build_id}"
    return CiJob(
        source="gitlab",
        job_id=job_id,
        attempt=(found.retries_count or 0) + 1,
        build=found.build_id,
        names=[*(found.runner.tags if found.runner else ()), found.build_name],
        steps=steps,
        reason=_REASONS.get(found.build_failure_reason or "", "unknown"),
        dimensions={
            "owner": (found.user.username or found.user.name) if found.user else "",
            "team": path.rpartition("/")[0],
            "project": path,
        },
        labels={
            "repository": path,
            "branch": found.ref,
            "stage": found.build_stage,
            "ci_job": found.build_name,
        },
    )


def _instant(text: str | None) -> datetime | None:
    """Return the time of a text such as `2026-06-01 10:00:00 UTC`, or in ISO 8601.

    Raises:
        ValueError: It is none.
    """
    if not text:
        return None
    at = datetime.fromisoformat(text.removesuffix(" UTC"))
    return at if at.tzinfo else at.replace(tzinfo=UTC)
