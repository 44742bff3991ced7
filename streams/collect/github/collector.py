"""`trainfare collect github`: the jobs of workflow runs, by the API: those of which a webhook was lost, too.

A run keeps its time of creation when it is run again, for 30 days. Therefore all runs of so long are looked at now and then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Annotated, Final, TypeVar
from urllib.parse import quote

import msgspec

from schemas.durations import DAY_MS, HOUR_MS
from schemas.escaping import visible
from streams.accounts.account import Account
from streams.ci.github import WorkflowJob, job_of
from streams.clock import Clock, SystemClock
from streams.collect.ci_api import CiApi, JobEvents, iso
from streams.collect.collector import (
    EventBatch,
    PolledByOptions,
    Position,
    SourceUnavailableError,
    full_batches,
)
from streams.collect.github.options import Options
from streams.collect.http_source import OutsideApi, token_of

#: GitHub shows no more results than these of one search; a span with more is asked for in halves.
_RESULTS_AT_MOST: Final = 1_000
#: A run that changed so long before the last poll, or later, is looked at again: the clocks may differ.
_OVERLAP_MS: Final = 3_600_000
#: For so long a run may be run again.
_RUN_AGAIN_MS: Final = 30 * DAY_MS
_LOOKED_BACK_EACH_MS: Final = 6 * HOUR_MS
_HEADERS: Final = {
    "Accept": "application/vnd.github+json",
    "X-GitHub-Api-Version": "2022-11-28",
    "User-Agent": "trainfare",
}


class _RunActor(msgspec.Struct):
    login: str = ""


class _Run(msgspec.Struct):
    id: int
    updated_at: Annotated[datetime, msgspec.Meta(tz=True)] | None = None
    actor: _RunActor | None = None
    triggering_actor: _RunActor | None = None


class _Runs(msgspec.Struct):
    total_count: int
    workflow_runs: list[msgspec.Raw]


class _JobList(msgspec.Struct):
    jobs: list[msgspec.Raw]


Page = TypeVar("Page", _Runs, _JobList)


class GithubCollector(PolledByOptions):
    """The jobs of some repositories."""

    name = "github"

    def __init__(self, options: Options, api: CiApi) -> None:
        self._options: Options = options
        self._api = api
        self._gpus = options.gpus

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield the events of the jobs of a span.

        Raises:
            SourceUnavailableError: GitHub does not answer, or asks to wait.
        """
        begin_ms, end_ms, since_ms = self._options.span_ms(position, now_ms)
        read_ms = (position or {}).get("read_ms")
        changed_ms = read_ms - _OVERLAP_MS if isinstance(read_ms, int) else 0
        before = {"since_ms": since_ms, **({"read_ms": read_ms} if isinstance(read_ms, int) else {})}
        looked_ms = (position or {}).get("looked_back_ms")
        if not isinstance(looked_ms, int):
            looked_ms = since_ms
        before["looked_back_ms"] = looked_ms
        if self._options.until is None and now_ms - looked_ms >= _LOOKED_BACK_EACH_MS:
            begin_ms = min(begin_ms, now_ms - _RUN_AGAIN_MS)
            changed_ms = looked_ms - _OVERLAP_MS
            looked_ms = now_ms
        jobs = JobEvents(self._gpus)
        for repository in self._options.repositories:
            # A run that is created meanwhile moves others to the next page, which has them again.
            seen: set[int] = set()
            for run in self._runs(repository, begin_ms, end_ms, jobs.account):
                if run.id in seen:
                    continue
                seen.add(run.id)
                if run.updated_at is None or run.updated_at.timestamp() * 1000 >= changed_ms:
                    self._read(repository, run, since_ms, jobs)
        rest = yield from full_batches(jobs.oldest_first(), before)
        kept = {"since_ms": since_ms, "read_ms": now_ms, "looked_back_ms": looked_ms}
        yield EventBatch(rest, kept, jobs.account)

    def _runs(self, repository: str, begin_ms: int, end_ms: int, account: Account) -> Iterator[_Run]:
        """Yield the runs that were created in a span, whose ends are whole seconds and belong to it."""
        if begin_ms > end_ms:
            return
        span = quote(f"{iso(begin_ms)}..{iso(end_ms)}")
        path = f"/repos/{quote(repository)}/actions/runs?per_page=100&created={span}"
        for number, body in enumerate(self._api.pages(path)):
            page = _decoded(body, _Runs)
            half_ms = (end_ms - begin_ms) // 2000 * 1000
            if number == 0 and page.total_count > _RESULTS_AT_MOST and half_ms >= 1000:
                yield from self._runs(repository, begin_ms, begin_ms + half_ms - 1000, account)
                yield from self._runs(repository, begin_ms + half_ms, end_ms, account)
                return
            for raw in page.workflow_runs:
                try:
                    yield msgspec.json.decode(raw, type=_Run)
                except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                    account.not_understood("malformed", f"{repository}: a run: {str(fault)[:200]}")

    def _read(self, repository: str, run: _Run, since_ms: int, jobs: JobEvents) -> None:
        found: list[WorkflowJob] = []
        path = f"/repos/{quote(repository)}/actions/runs/{run.id}/jobs?filter=all&per_page=100"
        for body in self._api.pages(path):
            for raw in _decoded(body, _JobList).jobs:
                try:
                    job = msgspec.json.decode(raw, type=WorkflowJob)
                except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
                    said = f"{repository}: a job of run {run.id}: {str(fault)[:200]}"
                    jobs.account.not_understood("malformed", said)
                    continue
                found.append(job)
        copies = _copies(found)
        for job in found:
            if job.id in copies:
                jobs.account.free("copied")
            elif job.created_at is not None and job.created_at.timestamp() * 1000 < since_ms:
                jobs.account.free("before_since")
            else:
                # Webhooks name who caused the attempt; the run, who caused the first one and the last.
                owner = run.actor if job.run_attempt == 1 else run.triggering_actor or run.actor
                jobs.add(job_of(job, repository, owner.login if owner else "", job.status))


def _copies(jobs: Sequence[WorkflowJob]) -> set[int]:
    """The ids under which a later attempt lists what an earlier one ran: nothing but failed jobs is run again."""
    first: dict[tuple[object, ...], int] = {}
    copies = set()
    for job in sorted(jobs, key=lambda job: (job.run_attempt, job.id)):
        if job.runner_name and job.started_at and job.completed_at:
            what = job.name, job.runner_name, job.started_at, job.completed_at
            if first.setdefault(what, job.run_attempt) < job.run_attempt:
                copies.add(job.id)
    return copies


def _decoded(body: bytes, form: type[Page]) -> Page:
    try:
        return msgspec.json.decode(body, type=form)
    except (msgspec.MsgspecError, ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"GitHub: no such list ({visible(str(fault)[:200])})") from None


def open_collector(options: Options, clock: Clock | None = None) -> GithubCollector:
    """The collector.

    Raises:
        WrongUseError: The file with the token cannot be read.
    """
    api = OutsideApi(
        options.url,
        token=token_of(options.token_file),
        timeout_s=options.timeout_s,
        bytes_at_most=options.max_response_mib * 2**20,
        headers=_HEADERS,
    )
    limits = ("x-ratelimit-remaining", "x-ratelimit-reset")
    return GithubCollector(options, CiApi(api, clock or SystemClock(), limits))
