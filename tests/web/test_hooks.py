"""Webhooks of CI systems: only with the secret, and then the jobs that they speak of, whatever comes twice or not at all."""

from __future__ import annotations

import hashlib
import hmac
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from schemas.decode import decode
from schemas.events import JobEvent
from streams.ci.jobs import CiGpus, events_of, job_id_of
from streams.config.live import CiSettings
from streams.web.hooks import github, gitlab
from streams.web.ingest import BODY_MAX_BYTES
from streams.web.token_guesses import FREE
from tests.harness import meter
from tests.oracle.model import Line
from tests.source_cases import source_case
from tests.web.serving import WALL_MS, Client, served
from tests.web.test_ingest import Log

SECRET = "the-secret-of-github"
TOKEN = "the-token-of-gitlab"
SETTINGS = CiSettings(
    github_secret=SecretStr(SECRET), gitlab_token=SecretStr(TOKEN), runner_gpus="gpu-h100=8xH100, eval=2"
)
GPUS = {"gpu-h100": CiGpus(8, "H100"), "eval": CiGpus(2, "")}
RUNNER: dict[str, Any] = {
    "runner_id": 1,
    "runner_name": "gpu-01",
    "runner_group_id": 2,
    "runner_group_name": "gpus",
}


def of_github(action: str, **others: Any) -> dict[str, Any]:
    """A message after GitHub's page of webhook events and payloads."""
    job = {
        "id": 29679449526, "run_id": 9876543210, "workflow_name": "train", "head_branch": "main",
        "run_url": "https://api.github.com/repos/acme/vision/actions/runs/9876543210", "run_attempt": 1,
        "node_id": "CR_kwDOAA", "head_sha": "a3c5", "status": action, "conclusion": None,
        "created_at": "2026-06-01T09:59:00Z", "started_at": "2026-06-01T10:00:00Z", "completed_at": None,
        "name": "train (fold 1)", "steps": [], "labels": ["self-hosted", "gpu-h100"], **RUNNER, **others,
    }  # fmt: skip
    return {
        "action": action,
        "workflow_job": job,
        "repository": {"id": 1, "full_name": "acme/vision", "private": True},
        "organization": {"login": "acme"},
        "sender": {"login": "ada", "id": 5},
    }


def of_gitlab(status: str, **others: Any) -> dict[str, Any]:
    """A message after GitLab's page of job events."""
    return {
        "object_kind": "build", "ref": "main", "tag": False, "before_sha": "2293", "sha": "2293", "retries_count": 0,
        "build_id": 1977, "build_name": "train", "build_stage": "train", "build_status": status,
        "build_created_at": "2026-06-01 09:59:00 UTC", "build_started_at": None, "build_finished_at": None,
        "build_failure_reason": "unknown_failure", "pipeline_id": 2366, "project_id": 380,
        "project_name": "acme / vision", "user": {"id": 3, "name": "Ada", "username": "ada", "email": "x@example.com"},
        "project": {"id": 380, "name": "vision", "path_with_namespace": "acme/ml/vision"},
        "runner": {"active": True, "runner_type": "project_type", "is_shared": False, "id": 380, "description": "gpu-01", "tags": ["linux", "gpu-h100"]},
        **others,
    }  # fmt: skip


def signed(body: bytes, secret: str = SECRET) -> dict[str, str]:
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"X-GitHub-Event": "workflow_job", "X-Hub-Signature-256": f"sha256={digest}"}


async def post(client: Client, system: str, body: bytes, headers: dict[str, str]) -> tuple[int, Any]:
    url = f"{client.server.url}/api/v1/hooks/{system}"
    async with client.session.post(
        url, data=body, headers={"Content-Type": "application/json", **headers}
    ) as answer:
        return answer.status, await answer.json()


def posted(
    system: str, *messages: tuple[bytes, dict[str, str]], ci: CiSettings | None = SETTINGS
) -> tuple[list[tuple[int, Any]], Log]:
    log = Log()

    async def work(client: Client) -> list[tuple[int, Any]]:
        return [await post(client, system, body, headers) for body, headers in messages]

    return served(None, work, events=log, ci=ci, wall_ms=WALL_MS + 86_400_000), log


def values(log: Log) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in log.records]


GITHUB = [
    of_github("queued", runner_id=None, runner_name=None),
    of_github("in_progress"),
    of_github("completed", conclusion="failure", completed_at="2026-06-01T10:30:00Z"),
]
GITLAB = [
    of_gitlab("pending"),
    of_gitlab("running", build_started_at="2026-06-01 10:00:00 UTC"),
    of_gitlab(
        "success", build_started_at="2026-06-01T10:00:00Z", build_finished_at="2026-06-01T12:30:00.000+02:00"
    ),
]


def test_a_job_of_github_from_queue_to_end() -> None:
    bodies = [json.dumps(each).encode() for each in GITHUB]
    answers, log = posted("github", *((body, signed(body)) for body in bodies))
    assert answers == [(202, {"accepted": count, "refused": []}) for count in (1, 2, 3)]
    found = values(log)
    assert [(event["type"], event["time_ms"] - WALL_MS) for event in found[-3:]] == [
        ("queued", -60_000),
        ("started", 0),
        ("failed", 1_800_000),
    ]
    assert len({event["id"] for event in found}) == 3
    started, ended = found[-2:]
    assert started == found[2]  # the message of the end says the start again
    assert {name: started[name] for name in ("job_id", "attempt", "gpu_count", "gpu_type")} == {
        "job_id": f"github/acme/vision/9876543210/train (fold 1)/{GITHUB[0]['workflow_job']['id']}",
        "attempt": 1,
        "gpu_count": 8,
        "gpu_type": "H100",
    }
    assert [started[name] for name in ("owner", "team", "project", "experiment")] == [
        "ada",
        "acme",
        "acme/vision",
        "train",
    ]
    assert started["labels"] == {
        "repository": "acme/vision",
        "branch": "main",
        "ci_job": "train (fold 1)",
        "ci_run": "9876543210",
    }
    assert ended["reason"] == "unknown"


def gpu_ms(log: Log) -> int:
    tables = meter([Line("jobs", value) for value in values(log)], as_of_ms=WALL_MS + 86_400_000)
    return sum(row.quantity for row in tables.ledger.values()) // 1_000


def test_two_jobs_of_a_run_that_show_one_name_are_both_paid() -> None:
    """As a matrix has them whose `name` leaves a dimension out: 8 GPUs for half an hour, and for a whole one."""
    ends = {1: "2026-06-01T10:30:00Z", 2: "2026-06-01T11:00:00Z"}
    messages = [of_github("in_progress", id=number) for number in ends]
    messages += [
        of_github("completed", id=number, conclusion="success", completed_at=end)
        for number, end in ends.items()
    ]
    bodies = [json.dumps(each).encode() for each in messages]
    _, log = posted("github", *((body, signed(body)) for body in bodies))
    assert gpu_ms(log) == 8 * (1_800_000 + 3_600_000)


def test_jobs_of_one_name_in_a_matrix_of_a_public_report() -> None:
    folder = source_case("12-github-samename")
    bodies = [(folder / f"{number}.json").read_bytes() for number in range(4)]
    events = [
        event
        for body in bodies
        for job in [github.job_of({"X-GitHub-Event": "workflow_job"}, body)]
        if job is not None
        for event in events_of(job, {"gpu": CiGpus(8, "H100")})
    ]
    last_ms = max(event["time_ms"] for event in events)
    tables = meter([Line("jobs", event) for event in events], as_of_ms=last_ms + 3_600_000)
    assert sum(row.quantity for row in tables.ledger.values()) == 24_000 * 3_600_000


def test_a_job_hook_of_an_old_gitlab_is_no_error() -> None:
    hook = of_gitlab("canceled")
    del hook["pipeline_id"]
    headers = {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": TOKEN}
    bodies = [json.dumps(hook).encode()]
    answers, _ = posted("gitlab", *((body, headers) for body in bodies))
    assert [status for status, _ in answers] == [202]
    assert gitlab.job_of(headers, (source_case("11-gitlab-old-hook") / "hook.json").read_bytes())


@pytest.mark.parametrize("runner", [None, {"tags": None}, {"description": "gpu-01"}])
def test_a_job_of_a_runner_without_tags_is_no_error(runner: dict[str, Any] | None) -> None:
    headers = {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": TOKEN}
    answers, _ = posted("gitlab", (json.dumps(of_gitlab("success") | {"runner": runner}).encode(), headers))
    assert [status for status, _ in answers] == [202]


def test_a_job_of_gitlab_from_queue_to_end() -> None:
    headers = {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": TOKEN}
    answers, log = posted("gitlab", *((json.dumps(each).encode(), headers) for each in GITLAB))
    assert [status for status, _ in answers] == [202, 202, 202]
    found = values(log)
    assert [(event["type"], event["time_ms"] - WALL_MS) for event in found[-3:]] == [
        ("queued", -60_000),
        ("started", 0),
        ("completed", 1_800_000),
    ]
    assert found[-2]["job_id"] == "gitlab/acme/ml/vision/2366/train"
    assert [found[-2][name] for name in ("owner", "team", "project")] == ["ada", "acme/ml", "acme/ml/vision"]


@pytest.mark.parametrize("lost", [(), (0,), (1,), (0, 1)])
def test_what_is_lost_before_the_end_costs_nothing(lost: tuple[int, ...]) -> None:
    """The GPU-time is that of all messages."""
    bodies = [json.dumps(each).encode() for at, each in enumerate(GITHUB) if at not in lost]
    _, log = posted("github", *((body, signed(body)) for body in bodies))
    tables = meter([Line("jobs", value) for value in values(log)], as_of_ms=WALL_MS + 7_200_000)
    assert sum(row.quantity for row in tables.ledger.values()) == 8_000 * 1_800_000


@pytest.mark.parametrize(
    ("system", "headers"),
    [
        ("github", {}),
        ("github", {"X-Hub-Signature-256": "sha256=" + "0" * 64}),
        ("github", {"X-Hub-Signature-256": signed(b"{}", "another-secret-of-it")["X-Hub-Signature-256"]}),
        ("github", {"X-Hub-Signature-256": signed(b"{} ")["X-Hub-Signature-256"]}),
        ("github", {"X-Hub-Signature-256": signed(b"{}")["X-Hub-Signature-256"].removeprefix("sha256=")}),
        ("gitlab", {}),
        ("gitlab", {"X-Gitlab-Token": TOKEN[:-1]}),
        ("gitlab", {"X-Gitlab-Token": "é"}),
    ],
)
def test_without_the_secret_nothing_is_read(system: str, headers: dict[str, str]) -> None:
    [(status, body)], log = posted(system, (b"{}", headers))
    assert (status, log.records) == (401, [])
    assert SECRET not in json.dumps(body)
    assert TOKEN not in json.dumps(body)


def test_guesses_of_an_address_are_slowed_down() -> None:
    answers, _ = posted("gitlab", *[(b"{}", {"X-Gitlab-Token": "wrong"})] * (FREE + 1))
    assert [status for status, _ in answers] == [401] * FREE + [429]


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_without_a_setting_it_is_closed(system: str) -> None:
    [(status, body)], log = posted(system, (b"{}", signed(b"{}", "")), ci=None)
    assert (status, body["error"]["code"], log.records) == (403, "hooks_off", [])


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"{", {}, 400),
        (b"[]", {}, 400),
        (b'{"action": "queued"}', {}, 400),
        (b"[" * 100_000, {}, 400),
        (b"\xff", {}, 400),
        (b'{"zen": "Keep it logically awesome."}', {"X-GitHub-Event": "ping"}, 202),
        (b"a=b", {"Content-Type": "application/x-www-form-urlencoded"}, 415),
        (b" " * (BODY_MAX_BYTES + 1), {}, 413),
    ],
)
def test_what_is_no_message_of_a_job(body: bytes, headers: dict[str, str], status: int) -> None:
    [(found, _)], log = posted("github", (body, {**signed(body), **headers}))
    assert (found, log.records) == (status, [])


def github_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    job = github.job_of({"X-GitHub-Event": "workflow_job"}, json.dumps(message).encode())
    assert job is not None
    return list(events_of(job, GPUS))


def gitlab_events(message: dict[str, Any]) -> list[dict[str, Any]]:
    job = gitlab.job_of({"X-Gitlab-Event": "Job Hook"}, json.dumps(message).encode())
    assert job is not None
    return list(events_of(job, GPUS))


@pytest.mark.parametrize(
    ("conclusion", "kind", "reason"),
    [
        ("success", "completed", None),
        ("failure", "failed", "unknown"),
        ("timed_out", "failed", "timeout"),
        ("cancelled", "cancelled", None),
        ("something_new", "failed", "unknown"),
    ],
)
def test_ends_of_github(conclusion: str, kind: str, reason: str | None) -> None:
    ended = github_events(of_github("completed", conclusion=conclusion, completed_at="2026-06-01T10:30:00Z"))[
        -1
    ]
    assert (ended["type"], ended.get("reason")) == (kind, reason)


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("script_failure", "unknown"),
        ("job_execution_timeout", "timeout"),
        ("runner_system_failure", "node_failure"),
    ],
)
def test_ends_of_gitlab(said: str, reason: str) -> None:
    times = {"build_started_at": "2026-06-01 10:00:00 UTC", "build_finished_at": "2026-06-01 10:30:00 UTC"}
    ended = gitlab_events(of_gitlab("failed", build_failure_reason=said, **times))[-1]
    assert (ended["type"], ended["reason"]) == ("failed", reason)


def test_a_job_that_never_got_a_runner_never_started() -> None:
    message = of_github(
        "completed", conclusion="cancelled", completed_at="2026-06-01T10:30:00Z", runner_name=None
    )
    assert [event["type"] for event in github_events(message)] == ["queued", "cancelled"]


def test_a_run_again_is_the_next_attempt() -> None:
    assert [event["attempt"] for event in github_events(of_github("in_progress", run_attempt=2))] == [2, 2]
    again = gitlab_events(of_gitlab("running", retries_count=1, build_id=1978))
    assert [(event["job_id"], event["attempt"]) for event in again] == [
        ("gitlab/acme/ml/vision/2366/train", 2)
    ]
    [old] = gitlab_events(of_gitlab("running", retries_count=None))
    assert (old["job_id"], old["attempt"]) == ("gitlab/acme/ml/vision/2366/train/1977", 1)


def test_gpus_by_the_name_of_the_job_and_of_none_that_is_not_named() -> None:
    started = github_events(of_github("in_progress", labels=["ubuntu-latest"], name="eval"))[-1]
    assert (started["gpu_count"], "gpu_type" in started) == (2, False)
    assert github_events(of_github("in_progress", labels=["ubuntu-latest"])) == []


@pytest.mark.parametrize(
    ("message", "reason", "said"),
    [
        (of_github("in_progress", labels=["self-hosted", "8xA100"]), "unlisted_label", "ran on 8xA100; name its GPUs in runner_gpus"),
        (of_github("completed", conclusion="success"), "no_times", "is over, and nothing says when"),
        (of_github("completed", conclusion="success", completed_at="2026-06-01T09:00:00Z"), "no_times", "ends before it begins"),
        (of_github("completed", conclusion="cancelled", completed_at="2026-06-01T09:59:59Z"), None, ""),
        (of_github("in_progress", labels=["ubuntu-latest"]), None, ""),
        (of_github("completed", conclusion="cancelled", runner_name=None), None, ""),
    ],
)  # fmt: skip
def test_a_job_that_means_gpus_and_is_not_understood_is_refused(
    message: dict[str, Any], reason: str | None, said: str
) -> None:
    body = json.dumps(message).encode()
    [(status, answer)], log = posted("github", (body, signed(body)))
    assert status == 202
    assert [each["reason"] for each in answer["refused"]] == ([] if reason is None else [reason])
    assert all(said in each["detail"] for each in answer["refused"])
    assert not reason or log.records == []


def test_a_build_of_gitlab_without_its_end_is_refused() -> None:
    body = json.dumps(of_gitlab("success", build_started_at="2026-06-01T10:00:00Z")).encode()
    [(status, answer)], log = posted(
        "gitlab", (body, {"X-Gitlab-Event": "Job Hook", "X-Gitlab-Token": TOKEN})
    )
    assert (status, answer["refused"][0]["reason"], log.records) == (202, "no_times", [])


def test_ids_that_are_long_stay_apart() -> None:
    one, two = (job_id_of("é" * 300 + end) for end in "ab")
    assert one != two
    assert len(one.encode()) <= 200
    assert job_id_of("x" * 200) == "x" * 200


@given(
    name=st.text(), labels=st.lists(st.text(), max_size=3), branch=st.none() | st.text(), attempt=st.integers(1, 2**31 - 1),
    login=st.text(), workflow=st.none() | st.text(),
)  # fmt: skip
def test_every_event_is_one_that_the_meter_takes(
    name: str, labels: list[str], branch: str | None, attempt: int, login: str, workflow: str | None
) -> None:
    message = of_github(
        "completed", name=name, labels=[*labels, "gpu-h100"], head_branch=branch, run_attempt=attempt,
        workflow_name=workflow, conclusion="success", completed_at="2026-06-01T10:30:00Z",
    )  # fmt: skip
    message["sender"] = {"login": login}
    for event in github_events(message):
        assert isinstance(decode("jobs", json.dumps(event).encode(), (), 2**53), JobEvent)


@pytest.mark.parametrize("text", ["gpu", "gpu=", "=8", "gpu=8xH 100", "gpu=1000000", "gpu=8=9"])
def test_gpus_that_are_none_are_a_fault_of_the_settings(text: str) -> None:
    with pytest.raises(ValueError, match="expected NAME=COUNT"):
        CiSettings(runner_gpus=text)
