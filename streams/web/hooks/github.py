"""GitHub's webhook `workflow_job`: its signature, and the job that it speaks of."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final

import msgspec

from streams.ci import github
from streams.ci.jobs import CiJob

_EVENT: Final = "workflow_job"


class _Repository(msgspec.Struct):
    full_name: str


class _Account(msgspec.Struct):
    login: str


class _Delivery(msgspec.Struct):
    action: str
    workflow_job: github.WorkflowJob
    repository: _Repository
    sender: _Account | None = None


_delivery: Final = msgspec.json.Decoder(_Delivery)


def is_signed(headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    """Whether the body, as it came, was signed with the secret; in a time that does not tell how nearly."""
    wanted = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    given = headers.get("X-Hub-Signature-256", "")
    return hmac.compare_digest(wanted.encode(), given.encode("utf-8", "surrogateescape"))


def job_of(headers: Mapping[str, str], body: bytes) -> CiJob | None:
    """The job of a message; None of other messages.

    Raises:
        ValueError, RecursionError: It is no such message.
    """
    if headers.get("X-GitHub-Event", "") != _EVENT:
        return None
    found = _delivery.decode(body)
    owner = found.sender.login if found.sender else ""
    return github.job_of(found.workflow_job, found.repository.full_name, owner, found.action)
