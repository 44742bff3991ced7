"""`trainfare collect gitlab`: the jobs of projects, by the API: those of which a webhook was lost, too."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Final, TypeVar
from urllib.parse import quote

import msgspec

from schemas.escaping import visible
from streams.accounts.account import Account
from streams.ci.gitlab import Build, job_of
from streams.clock import Clock, SystemClock
from streams.collect.ci_api import CiApi, JobEvents
from streams.collect.collector import (
    EventBatch,
    PolledByOptions,
    Position,
    SourceUnavailableError,
    full_batches,
)
from streams.collect.gitlab.options import Options
from streams.collect.http_source import BadStatusError, OutsideApi, token_of

T = TypeVar("T")
_NOT_SHOWN: Final = (403, 404)


class _Named(msgspec.Struct):
    id: int


class _JobUser(msgspec.Struct):
    name: str = ""
    username: str = ""


class _ApiJob(msgspec.Struct):
    id: int
    name: str
    status: str
    pipeline: _Named
    created_at: str
    stage: str = ""
    ref: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    failure_reason: str | None = None
    tag_list: list[str] = []
    runner: _Named | None = None
    user: _JobUser | None = None


class _Project(msgspec.Struct):
    path_with_namespace: str


class _RunnerDetails(msgspec.Struct):
    tag_list: list[str] = []


class _Builds(msgspec.Struct):
    id: int
    name: str


class GitlabCollector(PolledByOptions):
    """The jobs of some projects."""

    name = "gitlab"

    def __init__(self, options: Options, api: CiApi) -> None:
        self._options: Options = options
        self._api = api
        self._gpus = options.gpus

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield the events of the jobs of a span.

        Raises:
            SourceUnavailableError: GitLab does not answer, or asks to wait.
        """
        begin_ms, end_ms, since_ms = self._options.span_ms(position, now_ms)
        jobs = JobEvents(self._gpus)
        runners: dict[int, list[str]] = {}
        for named in self._options.projects:
            at = f"/projects/{quote(named, safe='')}"
            path = _decoded(self._api.get(at).body, _Project).path_with_namespace
            pipelines: dict[int, list[_Builds]] = {}
            for job in self._jobs(at, begin_ms, jobs.account):
                if _ms(job.created_at) > end_ms:
                    jobs.account.free("after_until")
                    continue
                tags = self._tags(job, runners)
                if not self._gpus.keys() & {*tags, job.name}:
                    jobs.leave_out(f"job {job.id} of {path}", [*tags, *job.tag_list, job.name])
                    continue
                if job.pipeline.id not in pipelines:
                    pipelines[job.pipeline.id] = self._builds(at, job.pipeline.id)
                jobs.add(job_of(_build(job, path, tags, pipelines[job.pipeline.id])))
        kept = {"since_ms": since_ms, "read_ms": now_ms}
        rest = yield from full_batches(jobs.oldest_first(), position or {"since_ms": since_ms})
        yield EventBatch(rest, kept, jobs.account)

    def _jobs(self, at: str, begin_ms: int, account: Account) -> Iterator[_ApiJob]:
        """Yield the jobs that were created since; the API has the newest first."""
        path = f"{at}/jobs?per_page=100&pagination=keyset&order_by=id&sort=desc"
        for body in self._api.pages(path):
            is_older = False
            for raw in _decoded(body, list[msgspec.Raw]):
                try:
                    job = msgspec.json.decode(raw, type=_ApiJob)
                    is_older = _ms(job.created_at) < begin_ms
                    for text in (job.started_at, job.finished_at):
                        _ms(text or job.created_at)
                except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                    account.not_understood("malformed", f"{at}: a job: {str(fault)[:200]}")
                    continue
                if is_older:
                    account.free("before_since")
                else:
                    yield job
            if is_older:
                return

    def _tags(self, job: _ApiJob, runners: dict[int, list[str]]) -> list[str]:
        """The tags by which a job's GPUs are known: its own, else those of its runner, if the token may read it."""
        if job.runner is None or self._gpus.keys() & {*job.tag_list, job.name}:
            return job.tag_list
        if job.runner.id not in runners:
            try:
                found = _decoded(self._api.get(f"/runners/{job.runner.id}").body, _RunnerDetails)
            except BadStatusError as fault:
                if fault.status not in _NOT_SHOWN:
                    raise
                found = _RunnerDetails()
            runners[job.runner.id] = found.tag_list
        return runners[job.runner.id]

    def _builds(self, at: str, pipeline: int) -> list[_Builds]:
        """All builds of a pipeline, also those that were tried again."""
        path = f"{at}/pipelines/{pipeline}/jobs?include_retried=true&per_page=100"
        return [build for body in self._api.pages(path) for build in _decoded(body, list[_Builds])]


def _build(job: _ApiJob, path: str, tags: list[str], builds: list[_Builds]) -> Build:
    return Build(
        id=job.id,
        name=job.name,
        status=job.status,
        pipeline_id=job.pipeline.id,
        path=path,
        ref=job.ref,
        stage=job.stage,
        failure_reason=job.failure_reason or "",
        created_at=job.created_at,
        started_at=job.started_at,
        finished_at=job.finished_at,
        retries=sum(other.name == job.name and other.id < job.id for other in builds),
        tags=tags,
        user=(job.user.username or job.user.name) if job.user else "",
    )


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def _decoded(body: bytes, form: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"GitLab: no such answer ({visible(str(fault)[:200])})") from None


def open_collector(options: Options, clock: Clock | None = None) -> GitlabCollector:
    """The collector.

    Raises:
        WrongUseError: The file with the token cannot be read.
    """
    token = token_of(options.token_file)
    api = OutsideApi(
        options.url,
        timeout_s=options.timeout_s,
        bytes_at_most=options.max_response_mib * 2**20,
        headers={"User-Agent": "trainfare", **({"PRIVATE-TOKEN": token} if token else {})},
    )
    return GitlabCollector(
        options, CiApi(api, clock or SystemClock(), ("ratelimit-remaining", "ratelimit-reset"))
    )
