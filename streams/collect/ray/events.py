"""Makes events of what Ray says about a job and about nodes. Pure functions: equal answers give equal events.

Each call makes those of an interval: after the instant up to which they were made before, up to the one up to which Ray's
answers are complete.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from streams.accounts.account import Account
from streams.collect.collector import CollectedEvent
from streams.collect.ray.holdings import Holding, RayCluster, asked_for, held_over, holdings_of
from streams.collect.ray.options import DESCRIBES, Options
from streams.collect.ray.progress import QUEUED, STARTED, UNSEEN, OpenJob
from streams.collect.ray.records import ENDS, RayJob, RayNode
from streams.collect.values import count_of, event_text
from streams.topics import Topic

JOB_ID: Final = "trainfare.job_id"
ATTEMPT: Final = "trainfare.attempt"
#: Ray's types of errors -> reasons. An entry point that exits with another code than 0 may have had any.
_REASONS: Final[Mapping[str, str]] = {
    "RUNTIME_ENV_SETUP_FAILURE": "user_error",
    "JOB_ENTRYPOINT_COMMAND_START_ERROR": "user_error",
    "JOB_SUPERVISOR_ACTOR_START_TIMEOUT": "timeout",
    "JOB_SUPERVISOR_ACTOR_DIED": "node_failure",
}
#: The meter may refuse what is a day old; that a job has waited is not worth it.
_WAITED_AT_MOST_MS: Final = 12 * 3_600_000
#: A group that is seen to be gone so shortly before its job's end went with it.
_ENDS_TOGETHER_MS: Final = 5_000
#: By so long after its start a job has asked for what it starts with; what it asks for later is more.
_ASKED_BY_MS: Final = 60_000


class JobNews(NamedTuple):
    """The new events of a job, and what is known of it now; None: it is over.

    `fault` says where Ray showed too late which GPUs the job held: they count from then on.
    """

    events: list[CollectedEvent]
    job: OpenJob | None
    fault: str = ""


class _JobMoment(NamedTuple):
    type: str
    at_ms: int
    fields: Mapping[str, Any]
    what: str = ""


def job_id_of(job: RayJob, options: Options) -> str:
    """The meter's id of a job.

    Raises:
        ValueError: It is too long.
    """
    named = job.metadata.get(JOB_ID)
    found = options.job_id_prefix + (named if isinstance(named, str) and named else job.key)
    if len(found.encode("utf-8", "replace")) > 200:
        raise ValueError(f"job {job.key[:80]}: its id has more than 200 bytes")
    return found


def attempt_of(job: RayJob) -> int | None:
    """Which attempt its metadata say that it is; None where they do not.

    Raises:
        ValueError: They say no number.
    """
    text = job.metadata.get(ATTEMPT)
    if text is None:
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit() and 0 < int(text[:11]) < 2**31):
        raise ValueError(f"job {job.key[:80]}: {ATTEMPT} is no number from 1")
    return int(text)


def new_events(
    job: RayJob,
    known: OpenJob,
    cluster: RayCluster,
    after_ms: int,
    until_ms: int,
    since_ms: int,
    options: Options,
) -> JobNews:
    """What is new of a job after `after_ms`, up to `until_ms`; what was before `since_ms` is put there.

    A job that holds no GPUs gives no events, unless the options say so.
    """
    end_ms = job.end_ms if 0 < job.end_ms <= until_ms else 0
    over_ms = end_ms or until_ms + 1  # the end of the interval, exclusive
    holdings = holdings_of(job, cluster, _removed_ms(known, job.end_ms), options)
    moments: list[_JobMoment] = []
    stage, held = known.stage, known.held
    is_metered = options.include_cpu_only or _wants_gpus(job, cluster, holdings)
    if stage == UNSEEN and is_metered and job.start_ms <= until_ms:
        stage = QUEUED
        waited_ms = until_ms - job.start_ms
        if not job.is_driver and job.start_ms >= since_ms and waited_ms < _WAITED_AT_MOST_MS:
            moments.append(_JobMoment("queued", job.start_ms, {}))
    runs_ms = _start_ms(job, cluster, holdings, end_ms, options)
    start_ms = max(runs_ms, since_ms)
    if stage == QUEUED and runs_ms and start_ms < over_ms:
        _, now = next(held_over(holdings, start_ms, start_ms))
        moments.append(_JobMoment("started", start_ms, now.fields(cluster.nodes, options)))
        stage, held, after_ms = STARTED, now.digest, start_ms
    fault = ""
    if stage == STARTED and after_ms + 1 < over_ms:
        _, before = next(held_over(holdings, after_ms, after_ms))
        if before.digest != held:
            fault = f"job {known.job_id}: Ray showed late which GPUs it held; see dashboard_delay_s"
        asked_ms = start_ms + _ASKED_BY_MS
        if runs_ms and after_ms < asked_ms < over_ms and (gpus := asked_for(job, cluster, asked_ms, options)):
            moments.append(_JobMoment("updated", asked_ms, {"gpus_requested": gpus}, ".requested"))
        for at_ms, now in held_over(holdings, after_ms + 1, over_ms - 1):
            if now.digest != held:
                fields = now.fields(cluster.nodes, options)
                moments.append(_JobMoment("scaled", at_ms, fields, f".{now.digest or 'none'}"))
                held = now.digest
    if end_ms and stage != UNSEEN:
        type_ = ENDS[job.status]
        reason = {"reason": _REASONS.get(job.error, "unknown")} if type_ == "failed" else {}
        moments.append(_JobMoment(type_, end_ms, reason))
    described = _description(job, options)
    events = [_event(known, moment, described, options) for moment in moments]
    return JobNews(events, None if end_ms else replace(known, stage=stage, held=held), fault)


def lost_end(known: OpenJob, options: Options) -> CollectedEvent:
    """The end of a job that Ray has forgotten, as it does when its head is started anew: where it was last seen."""
    return _event(
        known, _JobMoment("failed", known.seen_ms, {"reason": "node_failure"}, ".lost"), {}, options
    )


def node_events(
    nodes: Iterable[RayNode], after_ms: int, until_ms: int, since_ms: int, options: Options, account: Account
) -> Iterator[CollectedEvent]:
    """Yield what is new of the nodes after `after_ms` (0: all), up to `until_ms`.

    Two nodes that have one name at the same time are not understood: their GPUs would be mixed up.
    """
    by_name: dict[str, list[RayNode]] = {}
    for node in sorted(nodes, key=lambda node: node.start_ms):
        if not (node.gpu_milli or options.include_cpu_only):
            account.free("no_gpu")
        else:
            by_name.setdefault(node.name, []).append(node)
    for name, series in by_name.items():
        if sum(not node.end_ms for node in series) > 1:
            said = f"nodes: several are named {name[:80]}; name each with ray start --node-name"
            account.not_understood("same_name", said, len(series))
            continue
        account.metered(len(series))
        for node, later in zip(series, [*series[1:], None], strict=True):
            # Ray notices late that a node is dead; by then another one may have its name.
            end_ms = min(node.end_ms, later.start_ms) if later else node.end_ms
            start_ms = max(node.start_ms, since_ms)
            if end_ms and end_ms <= start_ms:
                continue
            if (node.start_ms > after_ms or not after_ms) and start_ms <= until_ms:
                yield _node_event(node, "provisioned", start_ms, options)
            if after_ms < end_ms <= until_ms:
                yield _node_event(node, "terminated", end_ms, options)


def _removed_ms(known: OpenJob, end_ms: int) -> Mapping[str, int]:
    if not end_ms:
        return known.removed_ms
    return {group: at_ms for group, at_ms in known.removed_ms.items() if at_ms < end_ms - _ENDS_TOGETHER_MS}


def _wants_gpus(job: RayJob, cluster: RayCluster, holdings: Sequence[Holding]) -> bool:
    supervisor = cluster.supervisors.get(job.submission)
    return bool(holdings) or (supervisor is not None and supervisor.gpu_milli > 0)


def _start_ms(
    job: RayJob, cluster: RayCluster, holdings: Iterable[Holding], end_ms: int, options: Options
) -> int:
    """Return since when it runs and, as far as that counts, holds GPUs; 0 where it does not yet, or never did."""
    if job.is_driver:
        runs_ms = job.start_ms
    else:
        supervisor = cluster.supervisors.get(job.submission)
        runs_ms = supervisor.start_ms if supervisor is not None else 0
        if not runs_ms and end_ms and (job.driver or job.status == "SUCCEEDED"):
            runs_ms = job.start_ms  # it ran, but Ray has forgotten in which actor
    first_ms = min((each.from_ms for each in holdings), default=0)
    if not runs_ms or (not first_ms and not options.include_cpu_only):
        return 0
    return runs_ms if options.include_cpu_only else max(runs_ms, first_ms)


def _description(job: RayJob, options: Options) -> dict[str, Any]:
    named = {name: job.metadata.get(options.metadata.get(name, name)) for name in DESCRIBES}
    return {
        **{name: event_text(text) for name, text in named.items() if isinstance(text, str) and text},
        **options.price_fields,
        "labels": {"ray_job": event_text(job.key)},
    }


def _event(
    known: OpenJob, moment: _JobMoment, described: Mapping[str, Any], options: Options
) -> CollectedEvent:
    value = {
        **(described if moment.type not in ("scaled", "updated") else {}),
        **moment.fields,
        "id": f"{known.job_id}.{known.attempt}.{moment.type}.{moment.at_ms}{moment.what}",
        "source": options.source,
        "time_ms": moment.at_ms,
        "job_id": known.job_id,
        "attempt": known.attempt,
        "type": moment.type,
    }
    return CollectedEvent(Topic.JOBS, value)


def _node_event(node: RayNode, type_: str, at_ms: int, options: Options) -> CollectedEvent:
    value: dict[str, Any] = {"id": f"{type_}.{at_ms}", "source": options.source, "time_ms": at_ms}
    value |= {"node": node.name, "type": type_}
    if type_ == "provisioned":
        value |= {**options.price_fields, "gpu_count": count_of(node.gpu_milli)}
        if node.gpu_type:
            value["gpu_type"] = options.gpu_types.get(node.gpu_type, node.gpu_type)
    return CollectedEvent(Topic.NODES, value)
