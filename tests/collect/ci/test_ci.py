"""Jobs of CI by API: the very events of the webhooks, over pages, limits and faults, and what has no GPUs is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from streams.accounts.account import EntryClass
from streams.ci.jobs import CiGpus, events_of
from streams.clock import ManualClock
from streams.collect.ci_api import CiApi
from streams.collect.collector import Collector, EventBatch, SourceUnavailableError
from streams.collect.github.collector import open_collector as open_github
from streams.collect.github.options import Options as GithubOptions
from streams.collect.gitlab.collector import open_collector as open_gitlab
from streams.collect.gitlab.options import Options as GitlabOptions
from streams.collect.http_source import OutsideApi
from streams.web.hooks import github, gitlab
from tests.collect.ci.server import TOKEN, CiServer
from tests.collect.ci.world import MINUTE_MS, RUNNER_GPUS, T0_MS, github_job, github_run, gitlab_job, text

GPUS = {"gpu-h100": CiGpus(8, "H100"), "eval": CiGpus(2, "")}
NOW_MS = T0_MS + 3_600_000


@pytest.fixture
def server() -> Iterator[CiServer]:
    found = CiServer()
    yield found
    found.close()


def collector(
    system: str, server: CiServer, directory: Path, clock: ManualClock | None = None, **options: Any
) -> Collector:
    token = directory / "token"
    token.write_text(TOKEN)
    given = {"url": server.address, "token_file": token, "runner_gpus": RUNNER_GPUS, **options}
    if system == "github":
        return open_github(GithubOptions.model_validate({"repositories": ["acme/vision"], **given}), clock)
    return open_gitlab(GitlabOptions.model_validate({"projects": ["acme/ml/vision"], **given}), clock)


def polled(
    found: Collector, position: Any = None, now_ms: int = NOW_MS
) -> tuple[list[dict[str, Any]], EventBatch]:
    batches = list(found.poll(position, now_ms))
    return [dict(event.value) for batch in batches for event in batch.events], batches[-1]


def by_id(events: Any) -> dict[str, dict[str, Any]]:
    return {each["id"]: each for each in events}


def told_by_github(job: dict[str, Any], sender: str) -> list[dict[str, Any]]:
    """The events of all webhooks of a job, as GitHub sends them until it has come so far."""
    steps = ["queued", "in_progress", "completed"]
    found = []
    for action in steps[: steps.index(job["status"]) + 1]:
        if action == "in_progress" and job["runner_name"] is None:
            continue
        body = {
            "action": action,
            "workflow_job": job,
            "repository": {"full_name": "acme/vision"},
            "sender": {"login": sender},
        }
        told = github.job_of({"X-GitHub-Event": "workflow_job"}, json.dumps(body).encode())
        assert told is not None
        found += list(events_of(told, GPUS))
    return found


def test_jobs_of_github_make_the_events_of_its_webhooks(server: CiServer, tmp_path: Path) -> None:
    jobs = [
        github_job(1, 7, "completed", T0_MS),
        github_job(2, 7, "completed", T0_MS, conclusion="failure", run_attempt=2),
        github_job(3, 7, "completed", T0_MS, conclusion="cancelled", runner_name=None),
        github_job(4, 7, "in_progress", T0_MS, labels=["eval"]),
        github_job(5, 7, "queued", T0_MS),
        github_job(6, 7, "completed", T0_MS, labels=["ubuntu-latest"]),
    ]
    server.runs = [github_run(7, jobs, T0_MS, T0_MS + 5 * MINUTE_MS)]
    events, last = polled(collector("github", server, tmp_path))
    told = [each for job in jobs for each in told_by_github(job, "bob" if job["run_attempt"] == 2 else "ada")]
    assert by_id(events) == by_id(told)
    assert len(events) == 3 + 3 + 2 + 2 + 1
    assert last.account.reasons == {"without_gpus": 1}
    assert sum("page=" in path and "/jobs" in path and "&page=" in path for path in server.asked) == 2


def test_jobs_of_gitlab_make_the_events_of_its_webhooks(server: CiServer, tmp_path: Path) -> None:
    jobs = [
        gitlab_job(11, "failed", T0_MS, failure_reason="runner_system_failure"),
        gitlab_job(12, "success", T0_MS + MINUTE_MS),
        gitlab_job(13, "running", T0_MS, name="eval"),
        gitlab_job(14, "canceled", T0_MS, name="other", tag_list=[]),
        gitlab_job(15, "success", T0_MS, name="cpu", tag_list=["linux"], runner={"id": 381}),
        gitlab_job(16, "success", T0_MS, name="cpu", tag_list=[], runner=None),
    ]
    server.jobs, server.runners = jobs, {380: ["gpu-h100"]}
    events, last = polled(collector("gitlab", server, tmp_path))
    told = []
    for job in jobs[:4]:
        body = {
            "build_id": job["id"], "build_name": job["name"], "build_status": job["status"], "pipeline_id": 2366,
            "ref": "main", "build_stage": "train", "build_failure_reason": job["failure_reason"],
            **{
                f"build_{key}": None if job[key] is None else job[key].replace("T", " ").replace(".123Z", " UTC")
                for key in ("created_at", "started_at", "finished_at")
            },
            "retries_count": 1 if job["id"] == 12 else 0, "project": {"path_with_namespace": "acme/ml/vision"},
            "runner": {"tags": ["linux", "gpu-h100"]}, "user": {"username": "ada", "name": "Ada"},
        }  # fmt: skip
        found = gitlab.job_of({"X-Gitlab-Event": "Job Hook"}, json.dumps(body).encode())
        assert found is not None
        told += list(events_of(found, GPUS))
    assert by_id(events) == by_id(told)
    assert {each["attempt"] for each in events if each["id"].startswith("12.")} == {2}
    assert last.account.reasons == {"without_gpus": 2}


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_only_jobs_of_the_span_are_read(system: str, server: CiServer, tmp_path: Path) -> None:
    server.runs = [
        github_run(number, [github_job(number, number, "completed", at_ms)], at_ms, at_ms)
        for number, at_ms in enumerate(range(T0_MS, T0_MS + 10 * MINUTE_MS, MINUTE_MS), 1)
    ]
    server.jobs = [
        gitlab_job(number, "success", T0_MS + (number - 1) * MINUTE_MS, name=f"train {number}")
        for number in range(1, 11)
    ]
    span: dict[str, Any] = {
        "since": text(T0_MS + 3 * MINUTE_MS),
        "until": text(T0_MS + 6 * MINUTE_MS + 1_000),
    }
    events, _ = polled(collector(system, server, tmp_path, **span))
    assert {each["id"].partition(".")[0] for each in events} == {"4", "5", "6", "7"}


def test_a_span_with_more_runs_than_github_shows_is_read_in_parts(server: CiServer, tmp_path: Path) -> None:
    server.runs = [
        github_run(
            number,
            [github_job(number, number, "completed", T0_MS + number * 1_000)],
            T0_MS + number * 1_000,
            T0_MS,
        )
        for number in range(1, 1_202)
    ]
    server.page_size = 100
    events, _ = polled(collector("github", server, tmp_path))
    assert {each["id"].partition(".")[0] for each in events} == {str(number) for number in range(1, 1_202)}


@pytest.mark.parametrize("system", ["github", "gitlab"])
@pytest.mark.parametrize(
    ("status", "headers", "wait_s"),
    [
        (429, {"Retry-After": "120"}, 120),
        (403, {"X-RateLimit-Remaining": "0", "RateLimit-Remaining": "0", "X-RateLimit-Reset": "RESET", "RateLimit-Reset": "RESET"}, 300),
        (429, {}, 60),
        (429, {"Retry-After": "9" * 9}, 3_600),
    ],
)  # fmt: skip
def test_a_limit_is_kept(
    system: str, status: int, headers: dict[str, str], wait_s: int, server: CiServer, tmp_path: Path
) -> None:
    clock = ManualClock()
    reset = str(clock.now_ms() // 1000 + 300)
    server.faults = [(status, {key: value.replace("RESET", reset) for key, value in headers.items()})]
    found = collector(system, server, tmp_path, clock)
    with pytest.raises(SourceUnavailableError, match=f"asked again in {wait_s} s"):
        polled(found)
    with pytest.raises(SourceUnavailableError, match="rate limit is used up"):
        polled(found)
    assert len(server.asked) == 1
    clock.advance(wait_s * 1000)
    polled(found)
    assert len(server.asked) > 1


@pytest.mark.parametrize("system", ["github", "gitlab"])
@pytest.mark.parametrize(
    "fault", [(500, {}), (403, {}), (401, {}), (301, {"Location": "http://127.0.0.1:1/"})]
)
def test_another_fault_is_said(
    system: str, fault: tuple[int, dict[str, str]], server: CiServer, tmp_path: Path
) -> None:
    server.faults = [fault]
    with pytest.raises(SourceUnavailableError, match=f"answered {fault[0]}") as said:
        polled(collector(system, server, tmp_path))
    assert TOKEN not in str(said.value)


def test_the_token_goes_to_no_other_address(server: CiServer) -> None:
    server.next_address = "http://127.0.0.1:1/api"
    server.jobs = [gitlab_job(number, "success", T0_MS) for number in range(5)]
    api = CiApi(OutsideApi(server.address, headers={"PRIVATE-TOKEN": TOKEN}), ManualClock(), ("a", "b"))
    with pytest.raises(SourceUnavailableError, match="make that the url"):
        list(api.pages("/projects/380/jobs?per_page=100"))
    assert len(server.asked) == 1


@pytest.mark.parametrize("system", ["github", "gitlab"])
def test_a_job_that_cannot_be_read_costs_no_other(system: str, server: CiServer, tmp_path: Path) -> None:
    bad = {"id": "x"}
    server.runs = [github_run(7, [bad, github_job(1, 7, "completed", T0_MS)], T0_MS, T0_MS)]
    server.jobs = [
        {**gitlab_job(9, "success", T0_MS), "name": 5},
        gitlab_job(8, "success", T0_MS, started_at="soon"),
    ]
    server.jobs += [gitlab_job(1, "success", T0_MS, pipeline={"id": 1})]
    events, last = polled(collector(system, server, tmp_path))
    assert [each["id"] for each in events] == ["1.queued", "1.started", "1.completed"]
    assert len(last.account.said) == (1 if system == "github" else 2)


def test_runs_that_did_not_change_are_not_asked_for_again(server: CiServer, tmp_path: Path) -> None:
    server.runs = [github_run(7, [github_job(1, 7, "completed", T0_MS)], T0_MS, T0_MS + 5 * MINUTE_MS)]
    found = collector("github", server, tmp_path)
    _, last = polled(found, None, NOW_MS + 3_600_000)
    server.asked.clear()
    events, _ = polled(found, last.position, NOW_MS + 2 * 3_600_000)
    assert (events, len(server.asked)) == ([], 1)
    server.runs[0]["updated_at"] = text(NOW_MS)
    events, _ = polled(found, last.position, NOW_MS + 2 * 3_600_000)
    assert len(events) == 3


def test_a_run_of_weeks_ago_that_is_run_again_is_found(server: CiServer, tmp_path: Path) -> None:
    """It keeps its time of creation, for 30 days (Team-Commonly/commonly#1216, tenstorrent/tt-metal#31693)."""
    day_ms = 86_400_000
    old_ms = T0_MS - 19 * day_ms
    again = github_job(2, 7, "completed", T0_MS + 10 * day_ms, run_attempt=2)
    server.runs = [
        github_run(7, [github_job(1, 7, "completed", old_ms)], old_ms, old_ms),
        github_run(8, [github_job(9, 8, "completed", old_ms)], old_ms, old_ms),
    ]
    found = collector("github", server, tmp_path, since=text(T0_MS))
    events, last = polled(found)
    assert (events, last.account.counts) == ([], {})
    server.runs[0]["jobs"].append(again)
    server.runs[0]["updated_at"] = again["completed_at"]
    events, last = polled(found, last.position, T0_MS + 10 * day_ms + 6 * MINUTE_MS)
    assert {each["id"].split(".")[0] for each in events} == {"2"}
    assert last.account.reasons == {"before_since": 1}
    asked = len(server.asked)
    events, last = polled(found, last.position, T0_MS + 10 * day_ms + 30 * MINUTE_MS)
    assert (events, len(server.asked) - asked) == ([], 1), "the next look back is hours later"
    span = collector("github", server, tmp_path, since=text(T0_MS), until=text(T0_MS + 11 * day_ms))
    assert polled(span, None, T0_MS + 12 * day_ms)[0] == []


def test_a_job_that_a_later_attempt_lists_again_counts_once(server: CiServer, tmp_path: Path) -> None:
    """Of a run whose failed jobs are run again (r-universe-org/help#607)."""
    done, failed = (github_job(number, 7, "completed", T0_MS, name=f"m ({number})") for number in (1, 2))
    failed |= {"conclusion": "failure", "runner_name": "gpu-02"}
    copied = done | {"id": 3, "run_attempt": 2}
    again = github_job(4, 7, "completed", T0_MS + 10 * MINUTE_MS, name="m (2)", run_attempt=2)
    server.runs = [github_run(7, [copied, again, done, failed], T0_MS, T0_MS + 20 * MINUTE_MS)]
    events, last = polled(collector("github", server, tmp_path, since=text(T0_MS)))
    assert {each["id"].split(".")[0] for each in events} == {"1", "2", "4"}
    assert last.account.counts == {(EntryClass.METERED, ""): 3, (EntryClass.FREE, "copied"): 1}
