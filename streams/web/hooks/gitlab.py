"""GitLab's webhook of jobs: its token, and the job that it speaks of."""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Final

import msgspec

from streams.ci import gitlab
from streams.ci.jobs import CiJob

_EVENT: Final = "Job Hook"


class _Runner(msgspec.Struct):
    description: str | None = None
    tags: list[str] | None = None


class _User(msgspec.Struct):
    name: str = ""
    username: str = ""


class _GitlabProject(msgspec.Struct):
    path_with_namespace: str = ""


class _Hook(msgspec.Struct):
    build_id: int
    build_name: str
    build_status: str
    pipeline_id: int = 0  # before GitLab 12
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
    """Whether the message shows the secret; in a time that does not tell how nearly."""
    given = headers.get("X-Gitlab-Token", "")
    return hmac.compare_digest(secret.encode(), given.encode("utf-8", "surrogateescape"))


def job_of(headers: Mapping[str, str], body: bytes) -> CiJob | None:
    """The job of a message; None of other messages.

    Raises:
        ValueError, RecursionError: It is no such message.
    """
    if headers.get("X-Gitlab-Event", "") != _EVENT:
        return None
    found = _hook.decode(body)
    path = (found.project.path_with_namespace if found.project else "") or found.project_name.replace(" ", "")
    return gitlab.job_of(
        gitlab.Build(
            id=found.build_id,
            name=found.build_name,
            status=found.build_status,
            pipeline_id=found.pipeline_id,
            path=path,
            ref=found.ref,
            stage=found.build_stage,
            failure_reason=found.build_failure_reason or "",
            created_at=found.build_created_at,
            started_at=found.build_started_at,
            finished_at=found.build_finished_at,
            retries=found.retries_count,
            tags=(found.runner.tags or ()) if found.runner else (),
            user=(found.user.username or found.user.name) if found.user else "",
        )
    )
