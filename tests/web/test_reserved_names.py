"""No door of HTTP takes a name of the meter's own: each says which event, which field and why, and the rest goes on."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest

from schemas.reserved import CANARY, CANARY_JOB_PREFIX
from tests.web.otlp.test_otlp import attribute, sent, span
from tests.web.test_hooks import SECRET, of_github, of_gitlab
from tests.web.test_hooks import posted as hooked
from tests.web.test_ingest import STARTED, posted

HIDDEN = f"{CANARY_JOB_PREFIX}x"
CHANGES: list[dict[str, Any]] = [
    {"job_id": HIDDEN},
    {"source": CANARY},
    {"cloud": CANARY},
    {"team": "idle"},
    {"nodes": {CANARY: 8}},
]


@pytest.mark.parametrize("changes", CHANGES)
def test_events_over_http(changes: dict[str, Any]) -> None:
    status, found, log = posted([{**STARTED, **changes}, STARTED], "?topic=jobs")
    assert status == 202
    assert found["accepted"] == len(log.records) == 1
    (refused,) = found["refused"]
    assert (refused["index"], refused["reason"]) == (0, "reserved_name")
    assert next(iter(changes)) in refused["detail"]


@pytest.mark.parametrize("changes", [{"job_id": "a\0"}, {"team": "\0"}, {"labels": {"a": "\0"}}])
def test_a_nul_byte_over_http(changes: dict[str, Any]) -> None:
    status, found, log = posted([{**STARTED, **changes}, STARTED], "?topic=jobs")
    assert (status, found["accepted"], len(log.records)) == (202, 1, 1)
    assert [each["reason"] for each in found["refused"]] == ["nul_byte"]


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("trainfare.job.id", HIDDEN, "reserved_name"),
        ("trainfare.job.team", "Unallocated", "reserved_name"),
        ("cloud.provider", CANARY, "reserved_name"),
        ("trainfare.job.id", "a\0b", "NUL byte"),
    ],
)
def test_otlp(name: str, value: str, reason: str) -> None:
    def of(attributes: dict[str, Any]) -> dict[str, Any]:
        return span({"trainfare.job.id": "run-7", **attributes})

    spans = [of({name: value}), of({})]
    body = {
        "resourceSpans": [
            {"resource": {"attributes": [attribute("a", "b")]}, "scopeSpans": [{"spans": spans}]}
        ]
    }
    status, answer, _, log = sent(json.dumps(body).encode())
    assert status == 200
    partial = json.loads(answer)["partialSuccess"]
    assert reason in partial["errorMessage"]
    assert {json.loads(each.value)["job_id"] for each in log.records} == {"run-7"}
    assert all(value not in each.value.decode() for each in log.records)


def test_hooks() -> None:
    """A workflow or a user with such a name is a job that is refused, and the answer says so."""
    message = of_github("in_progress", workflow_name="unallocated")
    body = json.dumps(message).encode()
    digest = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
    headers = {"X-GitHub-Event": "workflow_job", "X-Hub-Signature-256": f"sha256={digest}"}
    ((status, found),), log = hooked("github", (body, headers))
    assert (status, found["accepted"], log.records) == (202, 0, [])
    assert {(each["reason"], each["field"]) for each in found["refused"]} == {("reserved_name", "experiment")}

    message = of_gitlab("running", build_started_at="2026-06-01 10:00:00 UTC")
    message["user"]["username"] = "Idle"
    headers = {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": "the-token-of-gitlab"}
    ((status, found),), log = hooked("gitlab", (json.dumps(message).encode(), headers))
    assert (status, found["accepted"], log.records) == (202, 0, [])
    assert {(each["reason"], each["field"]) for each in found["refused"]} == {("reserved_name", "owner")}


def test_no_repository_makes_a_job_of_the_canary_s() -> None:
    message = of_gitlab("running", build_started_at="2026-06-01 10:00:00 UTC")
    message["project"]["path_with_namespace"] = f"{HIDDEN}/vision"
    headers = {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": "the-token-of-gitlab"}
    ((status, found),), log = hooked("gitlab", (json.dumps(message).encode(), headers))
    jobs = {json.loads(each.value)["job_id"] for each in log.records}
    assert (status, found["refused"]) == (202, [])
    assert jobs
    assert not any(job.startswith(CANARY) for job in jobs)
