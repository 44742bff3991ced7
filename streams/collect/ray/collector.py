"""`trainfare collect ray`: asks the dashboard of a Ray cluster, and makes the lifecycle events of its jobs.

All times are Ray's own, but one: that a placement group is gone is seen at a poll. What came and went between
two polls is made of what Ray still lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, TypeVar

from msgspec.structs import replace

from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent, EventBatch, PolledByOptions, Position, full_batches
from streams.collect.http_source import OutsideApi, token_of
from streams.collect.ray.api import RayAnswers, ask
from streams.collect.ray.events import JOB_ID, attempt_of, job_id_of, lost_end, new_events, node_events
from streams.collect.ray.holdings import RayCluster
from streams.collect.ray.options import Options
from streams.collect.ray.progress import UNSEEN, OpenJob, RayProgress
from streams.collect.ray.records import (
    RayActor,
    RayGroup,
    RayJob,
    RayTask,
    actors_of,
    groups_of,
    jobs_of,
    nodes_of,
    tasks_of,
)

#: A job that Ray does not list is given up after this, or after two polls.
_LOST_MS: Final = 60_000

HasDriver = TypeVar("HasDriver", RayActor, RayGroup, RayTask)


class RayCollector(PolledByOptions):
    """The jobs of one cluster."""

    name = "ray"

    def __init__(self, options: Options, source: OutsideApi) -> None:
        self._options: Options = options
        self._source = source

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what is new, the oldest first.

        Raises:
            SourceUnavailableError: The dashboard does not answer.
        """
        progress = RayProgress.of(position, self._options.begin_ms(now_ms))
        before = progress.position()
        now_ms = now_ms // 1000 * 1000
        # Workers report their tasks each second, and the dashboard shows an actor some seconds later.
        until_ms = now_ms - round(self._options.dashboard_delay_s * 1000)
        if until_ms < max(progress.since_ms, progress.read_ms):
            return
        account = Account()
        options = self._options
        cluster = _cluster(
            ask(self._source, reserved=options.gpu_scope == "job", tasks=options.include_tasks),
            options,
            account,
        )
        events = [
            *self._of_jobs(cluster, progress, now_ms, until_ms, account),
            *self._lost(progress, now_ms),
        ]
        if options.include_nodes:
            events += node_events(
                cluster.nodes.values(), progress.read_ms, until_ms, progress.since_ms, options, account
            )
        else:
            account.free("nodes_off", len(cluster.nodes))
        events.sort(key=lambda event: event.value["time_ms"])
        rest = yield from full_batches(events, before)
        progress.read_ms = until_ms
        yield EventBatch(rest, progress.position(), account)

    def _of_jobs(
        self, cluster: RayCluster, progress: RayProgress, now_ms: int, until_ms: int, account: Account
    ) -> Iterator[CollectedEvent]:
        """Yield the new events of all jobs, and remember them."""
        for job in sorted(cluster.jobs, key=lambda job: (job.start_ms, job.key)):
            if job.is_driver and not self._options.include_drivers:
                account.free("drivers")
                continue
            try:
                known = self._known(job, progress)
            except ValueError as fault:
                account.not_understood("malformed", f"jobs: {fault}")
                continue
            if known is None:
                account.free("before_since")
                continue
            known = replace(known, seen_ms=now_ms, removed_ms=_removed(job, known, cluster, now_ms))
            news = new_events(
                job, known, cluster, progress.read_ms, until_ms, progress.since_ms, self._options
            )
            yield from news.events
            if news.fault:
                account.not_understood("late_holdings", news.fault)
            elif not news.events and (news.job or known).stage == UNSEEN:
                account.free("no_gpu")
            else:
                account.metered()
            progress.jobs.pop(job.key, None)
            if news.job is not None:
                progress.jobs[job.key] = news.job
        self._of_holders(cluster, account)

    def _of_holders(self, cluster: RayCluster, account: Account) -> None:
        """Account for what holds GPUs: it is metered with its job."""
        account.metered(len(cluster.supervisors))
        jobs = {job.driver for job in cluster.jobs if self._options.include_drivers or not job.is_driver}
        for held in (cluster.actors, cluster.groups, cluster.tasks):
            for driver, each in held.items():
                if driver in jobs:
                    account.metered(len(each))
                else:
                    account.free("of_no_job", len(each))

    def _known(self, job: RayJob, progress: RayProgress) -> OpenJob | None:
        """What is known of a job; None of one that is over, with its end reported.

        Raises:
            ValueError: It has no id, or none that an event may have.
        """
        known = progress.jobs.get(job.key)
        was_over = 0 < job.end_ms <= progress.read_ms
        if known is not None or was_over:
            return known
        job_id, attempt = job_id_of(job, self._options), attempt_of(job)
        if job.metadata.get(JOB_ID):
            attempt = progress.number(job_id, attempt)
        return None if 0 < job.end_ms <= progress.since_ms else OpenJob(job_id, attempt or 1)

    def _lost(self, progress: RayProgress, now_ms: int) -> Iterator[CollectedEvent]:
        """Yield the ends of jobs that Ray has not listed for a while, and forget them."""
        patience_ms = max(_LOST_MS, 2 * self.interval_ms)
        for key, known in list(progress.jobs.items()):
            if now_ms - known.seen_ms > patience_ms:
                del progress.jobs[key]
                if known.stage:
                    yield lost_end(known, self._options)


def _cluster(answers: RayAnswers, options: Options, account: Account) -> RayCluster:
    gpus = options.resources
    actors = actors_of(answers.actors, account, gpus)
    return RayCluster(
        jobs_of(answers.jobs, account),
        {node.node: node for node in nodes_of(answers.nodes, account, gpus)},
        {actor.supervises: actor for actor in actors if actor.supervises},
        _by_driver((actor for actor in actors if not actor.supervises), account),
        _by_driver([] if answers.groups is None else groups_of(answers.groups, account, gpus), account),
        _by_driver([] if answers.tasks is None else tasks_of(answers.tasks, account, gpus), account),
    )


def _by_driver(entries: Iterable[HasDriver], account: Account) -> dict[str, list[HasDriver]]:
    found: dict[str, list[HasDriver]] = {}
    for each in entries:
        if each.driver:
            found.setdefault(each.driver, []).append(each)
        else:
            account.free("of_no_job")
    return found


def _removed(job: RayJob, known: OpenJob, cluster: RayCluster, now_ms: int) -> dict[str, int]:
    """Return since when placement groups of a job are gone: as seen first, unless the job has ended by then."""
    if job.end_ms:
        return known.removed_ms
    return {
        group.group: known.removed_ms.get(group.group, max(now_ms, group.start_ms))
        for group in cluster.groups.get(job.driver, ())
        if group.is_removed
    }


def open_collector(options: Options) -> RayCollector:
    """The collector.

    Raises:
        WrongUseError: The file with the token cannot be read.
    """
    source = OutsideApi(
        options.url,
        token=token_of(options.token_file),
        timeout_s=options.timeout_s,
        bytes_at_most=options.max_response_mib * 2**20,
    )
    return RayCollector(options, source)
