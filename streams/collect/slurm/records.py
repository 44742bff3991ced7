"""Reads what squeue and sacct print as JSON: one form for both commands and all versions since 22.05.

Up to 22.05 a number is a number or null, a state a text; later a number is `{"set", "infinite", "number"}` and a state
a list. Only fields named here are read: a job's script, command line and comments may hold secrets.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
import orjson

from schemas.durations import MINUTE_S
from schemas.escaping import visible
from streams.collect.collector import SourceUnavailableError
from streams.collect.slurm.tres import GpusOfNode, gpus_of_node, is_read, node_names, tres_counts
from streams.collect.values import event_text

#: "gres/gpu:2", "gres:gpu:h100:2", "gpu:1"
_GPUS_ASKED: Final = re.compile(r"(?:^|[,/:])gpu(?:[:=,]|$)")
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
    work_dir: str
    limit_s: int  # how long it may run; 0: not known, or for ever
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
    asks_gpus: bool = False  # by what was submitted, whether or not Slurm counts them
    suspended_s: int = 0  # how long it was suspended in all, of which sacct does not say when


#: A command, and a digest of an entry in its answer: equal entries of several answers are one.
EntryKey = tuple[str, bytes]


class Listing(NamedTuple):
    """The jobs of one answer, and what is wrong with those that are left out."""

    jobs: list[JobRecord]
    faults: dict[EntryKey, str]


class _Number(msgspec.Struct):
    set: bool
    infinite: bool = False
    number: int | float = 0


Count = int | float | _Number | None
States = str | list[str]
Text = str | None


class _Numbered(msgspec.Struct):
    job_id: int


class _QueuedJob(msgspec.Struct):
    job_id: int
    job_state: States
    submit_time: Count
    start_time: Count
    end_time: Count
    array_job_id: Count = None
    array_task_id: Count = None
    het_job_id: Count = None
    het_job_offset: Count = None
    restart_cnt: Count = None
    resize_time: Count = None
    suspend_time: Count = None
    cluster: Text = None
    user_name: Text = None
    account: Text = None
    name: Text = None
    partition: Text = None
    qos: Text = None
    wckey: Text = None
    nodes: Text = None
    tres_alloc_str: Text = None
    tres_req_str: Text = None
    current_working_directory: Text = None
    time_limit: Count = None
    gres_detail: list[str] | None = None
    tres_per_job: Text = None
    tres_per_node: Text = None
    tres_per_socket: Text = None
    tres_per_task: Text = None


class _Times(msgspec.Struct):
    submission: Count
    start: Count
    end: Count
    limit: Count = None
    suspended: Count = None


class _State(msgspec.Struct):
    current: States


class _Array(msgspec.Struct):
    job_id: Count = None
    task_id: Count = None


class _Het(msgspec.Struct):
    job_id: Count = None
    job_offset: Count = None


class _Wckey(msgspec.Struct):
    wckey: Text = None


class _Tres(msgspec.Struct):
    type: str
    name: Text = None
    count: Count = None


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
    restart_cnt: Count = None
    cluster: Text = None
    user: Text = None
    account: Text = None
    name: Text = None
    partition: Text = None
    qos: Text = None
    working_directory: Text = None


def queued_jobs(answer: bytes) -> Listing:
    """What `squeue --json` says.

    Raises:
        SourceUnavailableError: It is not its JSON at all.
    """
    return _listing(answer, "squeue", lambda raw: _queued(msgspec.json.decode(raw, type=_QueuedJob)))


def accounted_jobs(answer: bytes) -> Listing:
    """What `sacct --json` says.

    Raises:
        SourceUnavailableError: It is not its JSON at all.
    """
    return _listing(answer, "sacct", lambda raw: _accounted(msgspec.json.decode(raw, type=_AccountedJob)))


def _listing(answer: bytes, command: str, read: Callable[[bytes], JobRecord]) -> Listing:
    jobs: list[JobRecord] = []
    faults: dict[EntryKey, str] = {}
    for raw in raw_entries(answer, "jobs", command):
        try:
            jobs.append(read(raw))
        except (ValueError, RecursionError) as fault:
            said = f"{command}: {_named(raw)}{visible(str(fault)[:300])}"
            faults[command, hashlib.sha256(raw).digest()] = said
    return Listing(jobs, faults)


def _named(raw: bytes) -> str:
    """Which job an entry is of that cannot be read; empty if it does not say even that."""
    try:
        return f"job {msgspec.json.decode(raw, type=_Numbered).job_id}: "
    except (ValueError, RecursionError):
        return ""


def raw_entries(answer: bytes, list_name: str, command: str) -> Sequence[bytes]:
    """The JSON of each entry of a list in an answer, not looked into.

    Slurm's JSON may have NaN, raw control characters and bytes that are no UTF-8: then the standard library reads it.

    Raises:
        SourceUnavailableError: There is no such list.
    """
    try:
        document = msgspec.json.decode(answer, type=dict[str, msgspec.Raw])
        return [bytes(raw) for raw in msgspec.json.decode(document[list_name], type=list[msgspec.Raw])]
    except (msgspec.MsgspecError, ValueError, KeyError, RecursionError):
        pass
    try:
        text = answer.decode("utf-8", "replace")
        entries = json.loads(text, strict=False, parse_int=_number)[list_name]
        if not isinstance(entries, list):
            raise TypeError(f"{list_name} is no list")
        return [orjson.dumps(entry) for entry in entries]
    except (ValueError, TypeError, KeyError, RecursionError) as fault:
        said = f"{command}: no JSON of Slurm ({visible(str(fault)[:200])})"
        raise SourceUnavailableError(f"{said}{_mend_of(answer, command)}") from None


def _mend_of(answer: bytes, command: str) -> str:
    """What mends an answer that is a table of text, or nothing at all."""
    if answer.lstrip().startswith((b"{", b"[")):
        return ""
    return f"; {command} is to answer JSON, as Slurm's commands do with --json: docs/sources/slurm.md, What Slurm is asked"


def _number(digits: str) -> int | float:
    """An integer, as a float where it has more than 64 bits: it spoils the field that has it, not the whole answer."""
    return int(digits) if len(digits) < 19 else float(digits)


def _queued(job: _QueuedJob) -> JobRecord:
    array_id, task = count_of(job.array_job_id), count_of(job.array_task_id)
    het_id = count_of(job.het_job_id)
    details = [gpus_of_node(each) for each in job.gres_detail or ()]
    names = node_names(job.nodes or "") if any(details) else []
    return JobRecord(
        raw_id=_job_id(job.job_id),
        array=(array_id, task) if array_id and task is not None else None,
        het=(het_id, count_of(job.het_job_offset) or 0) if het_id else None,
        is_unsplit=bool(array_id) and task is None,
        cluster=event_text(job.cluster),
        user=event_text(job.user_name),
        account=event_text(job.account),
        name=event_text(job.name),
        partition=event_text(job.partition),
        qos=event_text(job.qos),
        wckey=event_text(job.wckey),
        work_dir=event_text(job.current_working_directory),
        limit_s=(count_of(job.time_limit) or 0) * MINUTE_S,
        states=states_of(job.job_state),
        restarts=count_of(job.restart_cnt),
        submit_s=time_of(job.submit_time),
        start_s=time_of(job.start_time),
        end_s=time_of(job.end_time),
        resize_s=time_of(job.resize_time),
        suspend_s=time_of(job.suspend_time),
        allocated=tres_counts(job.tres_alloc_str or ""),
        requested=tres_counts(job.tres_req_str or ""),
        nodes=dict(zip(names, details, strict=False)) if len(names) == len(details) else {},
        asks_gpus=any(
            text and _GPUS_ASKED.search(text)
            for text in (job.tres_per_job, job.tres_per_node, job.tres_per_socket, job.tres_per_task)
        ),
    )


def _accounted(job: _AccountedJob) -> JobRecord:
    array_id, task = count_of(job.array.job_id), count_of(job.array.task_id)
    het_id = count_of(job.het.job_id)
    return JobRecord(
        raw_id=_job_id(job.job_id),
        array=(array_id, task) if array_id and task is not None else None,
        het=(het_id, count_of(job.het.job_offset) or 0) if het_id else None,
        is_unsplit=bool(array_id) and task is None,
        cluster=event_text(job.cluster),
        user=event_text(job.user),
        account=event_text(job.account),
        name=event_text(job.name),
        partition=event_text(job.partition),
        qos=event_text(job.qos),
        wckey=event_text(job.wckey.wckey),
        work_dir=event_text(job.working_directory),
        limit_s=(count_of(job.time.limit) or 0) * MINUTE_S,
        states=states_of(job.state.current),
        restarts=count_of(job.restart_cnt),
        submit_s=time_of(job.time.submission),
        start_s=time_of(job.time.start),
        end_s=time_of(job.time.end),
        resize_s=0,
        suspend_s=0,
        allocated=_tres(job.tres.allocated),
        requested=_tres(job.tres.requested),
        nodes={},
        suspended_s=count_of(job.time.suspended) or 0,
    )


def _tres(listed: Sequence[_Tres]) -> dict[str, int]:
    found = {}
    for each in listed:
        name = f"{each.type}/{each.name}" if each.name else each.type
        if not is_read(name):
            continue
        count = count_of(each.count)
        if count is not None and count >= 0:  # -2: Slurm's word for none
            found[name] = count
    return found


def _job_id(number: int) -> int:
    if not 0 < number < 2**32:
        raise ValueError(f"job_id {number} is none")
    return number


def count_of(value: Count) -> int | None:
    """A number in any form; None where it is not set.

    Raises:
        ValueError: It is no whole number.
    """
    if isinstance(value, _Number):
        value = value.number if value.set and not value.infinite else None
    if value is None:
        return None
    if not abs(value) < 2**53 or value != int(value):
        raise ValueError(f"{value} is no count")
    return int(value)


def time_of(value: Count) -> int:
    """Seconds since 1970; 0 where there are none.

    Raises:
        ValueError: It is before 2000 or after 2299.
    """
    seconds = count_of(value) or 0
    if seconds <= 0:
        return 0
    if not _FIRST_S <= seconds < _LAST_S:
        raise ValueError(f"{seconds} is no time of this century")
    return seconds


def states_of(value: States) -> frozenset[str]:
    """One state or several; of `CANCELLED by 1000`, as tables of sacct have it, without by whom."""
    return frozenset(state.split(" by ")[0] for state in ([value] if isinstance(value, str) else value))
