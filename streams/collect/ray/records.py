"""Reads what Ray's dashboard answers: jobs, actors, placement groups, tasks and nodes.

Only fields named here are read: entry points, environments and messages may hold secrets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from schemas.escaping import visible
from streams.accounts.accelerators import is_accelerator
from streams.accounts.account import Account
from streams.collect.collector import SourceUnavailableError

_FIRST_MS: Final = 946_684_800_000  # 2000; events are not older
_LAST_MS: Final = 10_413_792_000_000  # 2300
_GPUS_AT_MOST: Final = 100_000
_TYPE: Final = "accelerator_type:"
#: What has the name of an accelerator, and is none: its type, a head of a slice of TPUs, what a placement group sets aside.
_NO_RESOURCES: Final = (_TYPE, "GPU", "bundle_group", "node:")
_NAMES_SHOWN: Final = 8
#: No other resource than `GPU` is one.
ONLY_GPUS: Final[Mapping[str, float]] = {}
#: The actor in which a submitted job's entry point runs has this name, and the job's id.
_SUPERVISOR: Final = "_ray_internal_job_actor_"
_PLACED: Final = frozenset({"CREATED", "RESCHEDULING", "REMOVED"})
_WAITING: Final = frozenset({"PENDING", "PREPARED"})
ENDS: Final[Mapping[str, str]] = {"SUCCEEDED": "completed", "FAILED": "failed", "STOPPED": "cancelled"}


class RayJob(NamedTuple):
    """A job that was submitted, or a driver that was not (`submission` is empty then). Times in ms, 0: none."""

    submission: str
    driver: str  # the id that its actors and groups have; empty until its driver has connected
    status: str
    error: str
    start_ms: int
    end_ms: int
    metadata: Mapping[str, Any]

    @property
    def key(self) -> str:
        """What no other job has: Ray counts drivers from 1 again in each new cluster."""
        return self.submission or f"{self.driver}-{self.start_ms}"

    @property
    def is_driver(self) -> bool:
        """Whether it was not submitted as a job."""
        return not self.submission


class RayNode(NamedTuple):
    """A node of the cluster; `end_ms` is 0 while it is alive."""

    node: str
    name: str
    gpu_milli: int
    gpu_type: str
    start_ms: int
    end_ms: int


class RayActor(NamedTuple):
    """An actor that holds GPUs, or a job's supervisor. Times in ms, 0: it does not run yet, or still does."""

    driver: str
    supervises: str  # the submission whose entry point runs in it
    node: str
    gpu_milli: int
    in_group: bool
    start_ms: int
    end_ms: int


class RayGroup(NamedTuple):
    """A placement group with GPUs; `gpu_milli` is node -> thousandths of a GPU, of one that waits it is empty.

    `wanted_milli` is what all of it asks for, since `asked_ms`.
    """

    group: str
    driver: str
    gpu_milli: Mapping[str, int]
    start_ms: int
    is_removed: bool
    wanted_milli: int
    asked_ms: int


class RayTask(NamedTuple):
    """A task with GPUs that began outside of placement groups."""

    driver: str
    node: str
    gpu_milli: int
    start_ms: int
    end_ms: int


Resources = dict[str, float]
Millis = int | float | None


class _WireJob(msgspec.Struct):
    status: str
    start_time: Millis = None
    end_time: Millis = None
    type: str = ""
    job_id: str | None = None
    submission_id: str | None = None
    error_type: str | None = None
    metadata: dict[str, Any] | None = None


class _ActorAddress(msgspec.Struct, frozen=True):
    nodeId: str = ""  # noqa: N815 - as Ray writes it


class _WireActor(msgspec.Struct, rename="camel"):
    job_id: str
    state: str
    start_time: Millis = None
    end_time: Millis = None
    name: str | None = None
    address: _ActorAddress = _ActorAddress()
    placement_group_id: str | None = None
    required_resources: Resources = {}


class _GroupBundle(msgspec.Struct):
    unit_resources: Resources = {}
    node_id: str | None = None


class _GroupStats(msgspec.Struct):
    creation_request_received_ns: str | int = 0
    end_to_end_creation_latency_us: str | int = 0


class _WireGroup(msgspec.Struct):
    placement_group_id: str
    creator_job_id: str
    state: str
    bundles: list[_GroupBundle] | None = None
    stats: _GroupStats | None = None


class _WireTask(msgspec.Struct):
    job_id: str
    type: str
    node_id: str | None = None
    placement_group_id: str | None = None
    required_resources: Resources | None = None
    start_time_ms: Millis = None
    end_time_ms: Millis = None


class _WireNode(msgspec.Struct):
    node_id: str
    node_name: str
    state: str
    resources_total: Resources = {}
    start_time_ms: Millis = None
    end_time_ms: Millis = None


class _ListedEntries(msgspec.Struct):
    total: int
    num_after_truncation: int
    result: list[msgspec.Raw]


class _ListingData(msgspec.Struct):
    result: _ListedEntries


class _ListingAnswer(msgspec.Struct):
    data: _ListingData


class _ActorsData(msgspec.Struct):
    actors: dict[str, msgspec.Raw]


class _ActorsAnswer(msgspec.Struct):
    data: _ActorsData


Read = TypeVar("Read")


def jobs_of(answer: bytes, account: Account) -> list[RayJob]:
    """The jobs; what cannot be read is said in `account`.

    Raises:
        SourceUnavailableError: It is not Ray's JSON at all.
    """
    return list(_each("jobs", _decoded("jobs", answer, list[msgspec.Raw]), _job, account))


def actors_of(answer: bytes, account: Account, gpus: Mapping[str, float] = ONLY_GPUS) -> list[RayActor]:
    """The supervisors, and the actors with GPUs; what cannot be read is said in `account`.

    Raises:
        SourceUnavailableError: It is not Ray's JSON at all.
    """
    raws = _decoded("actors", answer, _ActorsAnswer).data.actors.values()
    found = _each("actors", raws, partial(_actor, gpus=gpus), account)
    return _held((each if each.supervises or each.gpu_milli else None for each in found), account)


def groups_of(answer: bytes, account: Account, gpus: Mapping[str, float] = ONLY_GPUS) -> list[RayGroup]:
    """The placement groups with GPUs, created or waiting; what cannot be read is said in `account`.

    Raises:
        SourceUnavailableError: It is not Ray's JSON at all.
    """
    found = _each(
        "placement groups", _listed("placement groups", answer, account), partial(_group, gpus=gpus), account
    )
    return _held(found, account)


def tasks_of(answer: bytes, account: Account, gpus: Mapping[str, float] = ONLY_GPUS) -> list[RayTask]:
    """The tasks with GPUs outside of placement groups; what cannot be read is said in `account`.

    Raises:
        SourceUnavailableError: It is not Ray's JSON at all.
    """
    found = _each("tasks", _listed("tasks", answer, account), partial(_task, gpus=gpus), account)
    return _held(found, account)


def nodes_of(answer: bytes, account: Account, gpus: Mapping[str, float] = ONLY_GPUS) -> list[RayNode]:
    """The nodes; what cannot be read is said in `account`.

    Raises:
        SourceUnavailableError: It is not Ray's JSON at all.
    """
    return list(_each("nodes", _listed("nodes", answer, account), partial(_node, gpus=gpus), account))


def _held(found: Iterable[Read | None], account: Account) -> list[Read]:
    """What holds GPUs, or says who does."""
    held = []
    for each in found:
        if each is None:
            account.free("of_no_job")
        else:
            held.append(each)
    return held


def _decoded(what: str, answer: bytes, form: type[Read]) -> Read:
    try:
        return msgspec.json.decode(answer, type=form)
    except (ValueError, RecursionError) as fault:
        raise SourceUnavailableError(f"{what}: no JSON of Ray ({visible(str(fault)[:200])})") from None


def _listed(what: str, answer: bytes, account: Account) -> list[msgspec.Raw]:
    listed = _decoded(what, answer, _ListingAnswer).data.result
    if listed.num_after_truncation < listed.total:
        missing = listed.total - listed.num_after_truncation
        account.not_understood(
            "truncated", f"{what}: Ray lists only {listed.num_after_truncation} of {listed.total}", missing
        )
    return listed.result


def _each(
    what: str, raws: Iterator[msgspec.Raw] | Any, read: Callable[[msgspec.Raw], Read], account: Account
) -> Iterator[Read]:
    for raw in raws:
        try:
            yield read(raw)
        except UnknownResourceError as fault:
            account.not_understood("unknown_resource", f"{what}: one has {fault}")
        except (ValueError, RecursionError) as fault:
            account.not_understood("malformed", f"{what}: {str(fault)[:300]}")


def _job(raw: msgspec.Raw) -> RayJob:
    job = msgspec.json.decode(raw, type=_WireJob)
    found = RayJob(
        job.submission_id or "",
        job.job_id or "",
        job.status,
        job.error_type or "",
        _time(job.start_time),
        _time(job.end_time),
        job.metadata or {},
    )
    name = visible(found.key[:80])
    if not found.start_ms or not (found.submission or found.driver):
        raise ValueError(f"job {name} has no id or no start")
    if found.end_ms and found.end_ms < found.start_ms:
        raise ValueError(f"job {name} ends before it starts")
    if found.status not in {"PENDING", "RUNNING", *ENDS}:
        raise ValueError(f"job {name}: status {job.status[:40]} is not known")
    if found.status in ENDS and not found.end_ms:
        raise ValueError(f"job {name} has ended, and Ray does not say when")
    return found


def _actor(raw: msgspec.Raw, gpus: Mapping[str, float]) -> RayActor:
    actor = msgspec.json.decode(raw, type=_WireActor)
    name = actor.name or ""
    found = RayActor(
        driver=actor.job_id,
        supervises=name.removeprefix(_SUPERVISOR) if name.startswith(_SUPERVISOR) else "",
        node=actor.address.nodeId,
        gpu_milli=_gpu_milli(actor.required_resources, gpus, in_group=bool(actor.placement_group_id)),
        in_group=bool(actor.placement_group_id),
        start_ms=_time(actor.start_time),
        end_ms=_time(actor.end_time) if actor.state == "DEAD" else 0,
    )
    if actor.state == "DEAD" and found.start_ms and found.gpu_milli and not found.end_ms:
        raise ValueError(
            f"an actor of job {visible(found.driver[:80])} is dead, and Ray does not say since when"
        )
    return found


def _group(raw: msgspec.Raw, gpus: Mapping[str, float]) -> RayGroup | None:
    group = msgspec.json.decode(raw, type=_WireGroup)
    stats = group.stats or _GroupStats()
    received_ns = int(stats.creation_request_received_ns)
    held: dict[str, int] = {}
    wanted_milli = 0
    for bundle in group.bundles or ():
        milli = _gpu_milli(bundle.unit_resources, gpus)
        wanted_milli += milli
        if milli and bundle.node_id and group.state in _PLACED:
            held[bundle.node_id] = held.get(bundle.node_id, 0) + milli
    if not received_ns or not (held or (wanted_milli and group.state in _WAITING)):
        return None
    return RayGroup(
        group=group.placement_group_id,
        driver=group.creator_job_id,
        gpu_milli=held,
        start_ms=_time((received_ns + int(stats.end_to_end_creation_latency_us) * 1000) // 10**6),
        is_removed=group.state == "REMOVED",
        wanted_milli=wanted_milli,
        asked_ms=_time(received_ns // 10**6),
    )


def _task(raw: msgspec.Raw, gpus: Mapping[str, float]) -> RayTask | None:
    task = msgspec.json.decode(raw, type=_WireTask)
    milli = _gpu_milli(task.required_resources or {}, gpus, in_group=bool(task.placement_group_id))
    start_ms = _time(task.start_time_ms)
    if task.type != "NORMAL_TASK" or task.placement_group_id or not milli or not start_ms:
        return None
    return RayTask(task.job_id, task.node_id or "", milli, start_ms, _time(task.end_time_ms))


def _node(raw: msgspec.Raw, gpus: Mapping[str, float]) -> RayNode:
    node = msgspec.json.decode(raw, type=_WireNode)
    types = [name.removeprefix(_TYPE) for name in node.resources_total if name.startswith(_TYPE)]
    start_ms, end_ms = _time(node.start_time_ms), _time(node.end_time_ms)
    if not 0 < len(node.node_name.encode()) <= 256 or not start_ms:
        raise ValueError("a node without a name or a start, or with a name of more than 256 bytes")
    return RayNode(
        node=node.node_id,
        name=node.node_name,
        gpu_milli=_gpu_milli(node.resources_total, gpus),
        gpu_type=types[0] if len(types) == 1 else "",
        start_ms=start_ms,
        end_ms=max(end_ms, start_ms) if node.state == "DEAD" and end_ms else 0,
    )


def _gpu_milli(resources: Resources, gpus: Mapping[str, float], *, in_group: bool = False) -> int:
    """Thousandths of GPUs: of those that Ray calls so, and of other resources that are named.

    Raises:
        UnknownResourceError: They are another accelerator, and nothing says how many GPUs one is.
    """
    held = resources.get("GPU", 0.0) + sum(resources.get(name, 0.0) * each for name, each in gpus.items())
    if not 0 <= held <= _GPUS_AT_MOST:
        raise ValueError(f"{held:g} GPUs are not possible")
    others = [
        f"{number:g} {name[:100]}"
        for name, number in sorted(resources.items())
        if number > 0 and name not in gpus and not name.startswith(_NO_RESOURCES) and is_accelerator(name)
    ]
    if others and not (held or in_group):  # what runs in a group uses what the group holds
        raise UnknownResourceError(f"{', '.join(others[:_NAMES_SHOWN])}, which is read as no GPU")
    return round(held * 1000)


class UnknownResourceError(ValueError):
    """Another accelerator than those that are read."""


def _time(value: Millis) -> int:
    if value is None or value <= 0:
        return 0
    if not _FIRST_MS <= value < _LAST_MS:
        raise ValueError(f"{value:g} is no time of this century in ms")
    return int(value)
