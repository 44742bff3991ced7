"""Reads what squeue and sacct print as JSON: one form for both commands and all versions since 22.05.

Up to 22.05 a number is a number or null, a state a text; later a number is `{"set", "infinite", "number"}` and a state
a list. Only fields named here are read: a job's script, command line and comments may hold secrets.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import orjson

from schemas.escaping import visible
from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm.tres import GpusOfNode, gpus_of_node, node_names, tres_counts

_FIRST_S: Final = 946_684_800  # 2000; events are not older
_LAST_S: Final = 10_413_792_000  # 2300


class JobRecord(NamedTuple):
    """What Slurm says of an attempt of a job, or of a part of one between two changes of its size. Times in s, 0: none."""

    raw_id: int
    array: tuple[int, int] | None  # the array's job id, the task
    het: tuple[int, int] | None  # the leader's job id, the component
    is_unsplit: bool  # stands for all tasks of an array that have not begun
    cluster: str
    user: str
    account: str
    name: str
    partition: str
    qos: str
    wckey: str
    states: frozenset[str]
    restarts: int | None
    submit_s: int
    start_s: int
    end_s: int
    resize_s: int
    suspend_s: int
    allocated: Mapping[str, int]
    requested: Mapping[str, int]
    nodes: Mapping[str, Sequence[GpusOfNode]]


class Listing(NamedTuple):
    """The jobs of one answer, and what is wrong with those that are left out."""

    jobs: list[JobRecord]
    faults: list[str]


class _Number(msgspec.Struct):
    set: bool
    infinite: bool = False
    number: int | float = 0


_Count = int | float | _Number | None
_States = str | list[str]
_Text = str | None


class _Document(msgspec.Struct):
    jobs: list[msgspec.Raw]


class _QueuedJob(msgspec.Struct):
    job_id: int
    job_state: _States
    submit_time: _Count
    start_time: _Count
    end_time: _Count
    array_job_id: _Count = None
    array_task_id: _Count = None
    het_job_id: _Count = None
    het_job_offset: _Count = None
    restart_cnt: _Count = None
    resize_time: _Count = None
    suspend_time: _Count = None
    cluster: _Text = None
    user_name: _Text = None
    account: _Text = None
    name: _Text = None
    partition: _Text = None
    qos: _Text = None
    wckey: _Text = None
    nodes: _Text = None
    tres_alloc_str: _Text = None
    tres_req_str: _Text = None
    gres_detail: list[str] | None = None


class _Times(msgspec.Struct):
    submission: _Count
    start: _Count
    end: _Count


class _State(msgspec.Struct):
    current: _States


class _Array(msgspec.Struct):
    job_id: _Count = None
    task_id: _Count = None


class _Het(msgspec.Struct):
    job_id: _Count = None
    job_offset: _Count = None


class _Wckey(msgspec.Struct):
    wckey: _Text = None


class _Tres(msgspec.Struct):
    type: str
    name: _Text = None
    count: _Count = None


class _TresLists(msgspec.Struct):
    allocated: list[_Tres] = []
    requested: list[_Tres] = []


class _AccountedJob(msgspec.Struct):
    job_id: int
    state: _State
    time: _Times
    array: _Array = msgspec.field(default_factory=_Array)
    het: _Het = msgspec.field(default_factory=_Het)
    tres: _TresLists = msgspec.field(default_factory=_TresLists)
    wckey: _Wckey = msgspec.field(default_factory=_Wckey)
    restart_cnt: _Count = None
    cluster: _Text = None
    user: _Text = None
    account: _Text = None
    name: _Text = None
    partition: _Text = None
    qos: _Text = None


def queued_jobs(answer: bytes) -> Listing:
    """Return what `squeue --json` says.

    Raises:
        SourceUnavailableError: It is not its JSON at all.
    """
    return _listing(answer, "squeue", lambda raw: _queued(msgspec.json.decode(raw, type=_QueuedJob)))


def accounted_jobs(answer: bytes) -> Listing:
    """Return what `sacct --json` says.

    Raises:
        SourceUnavailableError: It is not its JSON at all.
    """
    return _listing(answer, "sacct", lambda raw: _accounted(msgspec.json.decode(raw, type=_AccountedJob)))


def _listing(answer: bytes, command: str, read: Callable[[bytes], JobRecord]) -> Listing:
    jobs: list[JobRecord] = []
    faults: list[str] = []
    for raw in _raw_jobs(answer, command):
        try:
            jobs.append(read(raw))
        except (ValueError, RecursionError) as fault:
            faults.append(f"{command}: {visible(str(fault)[:300])}")
    return Listing(jobs, faults)


def _raw_jobs(answer: bytes, command: str) -> Sequence[bytes]:
    """Return the JSON of each job.

    Slurm's JSON may have NaN, raw control characters and bytes that are no UTF-8: then the standard library reads it.
    """
    try:
        return [bytes(raw) for raw in msgspec.json.decode(answer, type=_Document).jobs]
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        jobs = json.loads(answer.decode("utf-8", "replace"), strict=False)["jobs"]
        if not isinstance(jobs, list):
            raise TypeError("its jobs are no list")
        return [orjson.dumps(job) for job in jobs]
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        raise SourceUnavailableError(f"{command}: no JSON of Slurm ({visible(str(fault)[:200])})") from None


def _queued(job: _QueuedJob) -> JobRecord:
    array_id, task = _count(job.array_job_id), _count(job.array_task_id)
    het_id = _count(job.het_job_id)
    details = [gpus_of_node(each) for each in job.gres_detail or ()]
    names = node_names(job.nodes or "") if any(details) else []
    return JobRecord(
        raw_id=_job_id(job.job_id),
        array=(array_id, task) if array_id and task is not None else None,
        het=(het_id, _count(job.het_job_offset) or 0) if het_id else None,
        is_unsplit=bool(array_id) and task is None,
        cluster=_text(job.cluster),
        user=_text(job.user_name),
        account=_text(job.account),
        name=_text(job.name),
        partition=_text(job.partition),
        qos=_text(job.qos),
        wckey=_text(job.wckey),
        states=_states(job.job_state),
        restarts=_count(job.restart_cnt),
        submit_s=_time(job.submit_time),
        start_s=_time(job.start_time),
        end_s=_time(job.end_time),
        resize_s=_time(job.resize_time),
        suspend_s=_time(job.suspend_time),
        allocated=tres_counts(job.tres_alloc_str or ""),
        requested=tres_counts(job.tres_req_str or ""),
        nodes=dict(zip(names, details, strict=False)) if len(names) == len(details) else {},
    )


def _accounted(job: _AccountedJob) -> JobRecord:
    array_id, task = _count(job.array.job_id), _count(job.array.task_id)
    het_id = _count(job.het.job_id)
    return JobRecord(
        raw_id=_job_id(job.job_id),
        array=(array_id, task) if array_id and task is not None else None,
        het=(het_id, _count(job.het.job_offset) or 0) if het_id else None,
        is_unsplit=bool(array_id) and task is None,
        cluster=_text(job.cluster),
        user=_text(job.user),
        account=_text(job.account),
        name=_text(job.name),
        partition=_text(job.partition),
        qos=_text(job.qos),
        wckey=_text(job.wckey.wckey),
        states=_states(job.state.current),
        restarts=_count(job.restart_cnt),
        submit_s=_time(job.time.submission),
        start_s=_time(job.time.start),
        end_s=_time(job.time.end),
        resize_s=0,
        suspend_s=0,
        allocated=_tres(job.tres.allocated),
        requested=_tres(job.tres.requested),
        nodes={},
    )


def _tres(listed: Sequence[_Tres]) -> dict[str, int]:
    found = {}
    for each in listed:
        count = _count(each.count)
        if count is not None and count >= 0:  # -2: Slurm's word for none
            found[f"{each.type}/{each.name}" if each.name else each.type] = count
    return found


def _job_id(number: int) -> int:
    if not 0 < number < 2**32:
        raise ValueError(f"job_id {number} is none")
    return number


def _count(value: _Count) -> int | None:
    if isinstance(value, _Number):
        value = value.number if value.set and not value.infinite else None
    if value is None:
        return None
    if not abs(value) < 2**53 or value != int(value):
        raise ValueError(f"{value} is no count")
    return int(value)


def _time(value: _Count) -> int:
    seconds = _count(value) or 0
    if seconds <= 0:
        return 0
    if not _FIRST_S <= seconds < _LAST_S:
        raise ValueError(f"{seconds} is no time of this century")
    return seconds


def _states(value: _States) -> frozenset[str]:
    return frozenset([value] if isinstance(value, str) else value)


def _text(value: _Text) -> str:
    """Return a text that an event may hold: at most 256 bytes."""
    return (value or "").encode("utf-8", "replace")[:256].decode("utf-8", "ignore")
