"""Makes events of what Slurm says about an attempt. Pure functions: equal records give equal events, whoever reads them.

What squeue and sacct both know (times, counts, names) is in events of its own; what only squeue knows (which node, which
type of GPU, suspensions) is in others, so that one event never has two contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from streams.collect.collector import CollectedEvent
from streams.collect.slurm.options import Options
from streams.collect.slurm.records import JobRecord
from streams.collect.slurm.tres import gpu_milli, gpu_type, named_type, type_milli
from streams.collect.values import count_of
from streams.topics import Topic

#: Slurm's states that end an attempt -> the event's type and reason. FAILED is any exit code but 0.
ENDS: Final[Mapping[str, tuple[str, str]]] = {
    "COMPLETED": ("completed", ""),
    "CANCELLED": ("cancelled", ""),
    "REVOKED": ("cancelled", ""),  # another cluster of the federation has it
    "FAILED": ("failed", "unknown"),
    "TIMEOUT": ("failed", "timeout"),
    "DEADLINE": ("failed", "timeout"),
    "NODE_FAIL": ("failed", "node_failure"),
    "BOOT_FAIL": ("failed", "node_failure"),
    "OUT_OF_MEMORY": ("failed", "out_of_memory"),
    "PREEMPTED": ("preempted", "preemption"),
    "REQUEUED": (
        "failed",
        "unknown",
    ),  # by the script itself, its user, or RequeueExit; who preempts says PREEMPTED
}
#: A script that is requeued so late in its time is about to run out of it: it hands over to its next attempt, as planned.
_HANDS_OVER_FROM: Final = 0.8
END_TYPES: Final = frozenset(type_ for type_, _ in ENDS.values())
_OTHERS: Final = frozenset(
    [
        "PENDING",
        "RUNNING",
        "SUSPENDED",
        "CONFIGURING",
        "COMPLETING",
        "RESIZING",
        "REQUEUE_HOLD",
        "REQUEUE_FED",
        "RESV_DEL_HOLD",
        "SPECIAL_EXIT",
        "SIGNALING",
        "STAGE_OUT",
        "STOPPED",
        "POWER_UP_NODE",
        "LAUNCH_FAILED",
        "RECONFIG_FAIL",
        "EXPEDITING",
    ]
)
#: While one of these is on, squeue's times are those of neither attempt (22.05: they move from second to second).
_IN_BETWEEN: Final = frozenset({"COMPLETING", "REQUEUED", "RESIZING"})
_GPUS_AT_MOST: Final = 100_000
_COUNT_AT_MOST: Final = 10**9


class SeenAttempt(NamedTuple):
    """A record with its attempt."""

    record: JobRecord
    attempt: int
    is_live: bool  # of squeue, not of sacct
    follows: bool = False  # another part of the same attempt: the job has changed its size


class KeyedEvent(NamedTuple):
    """An event, and what names it within its job."""

    key: str
    event: CollectedEvent


class _Moment(NamedTuple):
    type: str
    at_s: int
    fields: Mapping[str, Any]
    what: str = ""


def job_id_of(record: JobRecord, options: Options) -> str:
    """The id as squeue shows it: 17, 17_3 (task 3 of an array), 17+1 (component 1 of a heterogeneous job)."""
    prefix = options.job_id_prefix
    if record.array is not None and not options.raw_job_ids:
        return f"{prefix}{record.array[0]}_{record.array[1]}"
    if record.het is not None and not options.raw_job_ids:
        return f"{prefix}{record.het[0]}+{record.het[1]}"
    return f"{prefix}{record.raw_id}"


def is_running(record: JobRecord) -> bool:
    """Whether squeue says that it has its nodes now."""
    held = record.states & {"RUNNING", "SUSPENDED", "CONFIGURING", "STOPPED"}
    return bool(held) and not record.states & _IN_BETWEEN


def events_of(part: SeenAttempt, options: Options, since_s: int) -> Iterator[KeyedEvent]:
    """Yield what a record tells; nothing for a job that is not to be metered. What was before `since_s` is put there.

    Raises:
        ValueError: The record contradicts itself, or is beyond what an event may hold.
    """
    record = part.record
    unknown = record.states - ENDS.keys() - _OTHERS
    if unknown:
        raise ValueError(f"job {record.raw_id}: state {' '.join(sorted(unknown))[:80]} is not known")
    if record.end_s and record.states & ENDS.keys() and record.end_s < record.start_s:
        raise ValueError(f"job {record.raw_id} ends before it starts")
    if free_rule(part, options):
        return
    if _has_uncounted(part) and not _gpus(record.allocated, options):
        raise OddRecordError(
            "uncounted_gpus",
            f"job {record.raw_id} has GPUs that are not counted; set AccountingStorageTRES=gres/gpu",
        )
    if record.states & ENDS.keys() and record.allocated and not (record.start_s and record.end_s):
        what = (
            "ended, and Slurm does not say when"
            if record.start_s
            else "held resources, and Slurm does not say since when"
        )
        raise OddRecordError("no_times", f"job {record.raw_id} {what}")
    over = is_over(record, since_s)
    for moment in _moments(part, options, since_s):
        if moment.at_s >= since_s or moment.type in END_TYPES or (moment.type != "queued" and not over):
            yield _keyed(part, moment, options, since_s)


class OddRecordError(ValueError):
    """A record that is not understood for a reason of `REMEDIES`."""

    def __init__(self, reason: str, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason


def _has_uncounted(part: SeenAttempt) -> bool:
    """Whether squeue shows GPUs of a job, however they are counted."""
    record = part.record
    return any(record.nodes.values()) or (part.is_live and record.asks_gpus and is_running(record))


def free_rule(part: SeenAttempt, options: Options) -> str:
    """The rule by which a record has no events; empty where it has."""
    record = part.record
    if record.is_unsplit:
        return "unsplit"
    if part.is_live and record.states & _IN_BETWEEN:
        return "in_between"
    holds = _has_uncounted(part) or _gpus(record.allocated or record.requested, options)
    return "" if holds or options.include_cpu_only else "no_gpu"


def end_of(job_id: str, attempt: int, type_: str, at_s: int, source: str) -> KeyedEvent:
    """The end of an attempt of which no more is known."""
    key = f"{attempt}.{type_}.{at_s}"
    value = {
        "id": f"{job_id}.{key}",
        "source": source,
        "time_ms": at_s * 1000,
        "job_id": job_id,
        "attempt": attempt,
        "type": type_,
        "reason": "unknown",
    }
    return KeyedEvent(key, CollectedEvent(Topic.JOBS, value))


def is_over(record: JobRecord, since_s: int) -> bool:
    """Whether it ended before a time; its end is of interest to those who have seen it run.

    A change of size in that very second is no end: before it the job may have been seen with its former size.
    """
    if "RESIZING" in record.states:
        return 0 < record.end_s < since_s
    return bool(record.states & ENDS.keys()) and 0 < record.end_s <= since_s


def _moments(part: SeenAttempt, options: Options, since_s: int) -> Iterator[_Moment]:
    record, states = part.record, part.record.states
    described = _description(record, options)
    has_run = bool(record.allocated) and record.start_s > 0 and states != {"PENDING"}
    held = {**_resources(record.allocated, options), **described} if has_run else {}
    resized_s = _resized_s(part)
    is_later_part = bool(resized_s) and not part.is_live
    # In the second of `since` itself, a poll may still have seen the size it began with.
    if resized_s < since_s:
        resized_s = 0  # the size it began with is of no interest
    if record.submit_s and not is_later_part:  # that has the time of the change instead
        yield _Moment("queued", record.submit_s, described)
    if has_run and "CONFIGURING" in states:
        yield _Moment("allocated", record.start_s, held | _requested(record, options))
    elif has_run and not resized_s:
        yield _Moment("started", record.start_s, held | _requested(record, options))
    elif has_run:
        yield _Moment("scaled", resized_s, held)
    if part.is_live and is_running(record) and "CONFIGURING" not in states:
        yield from _of_squeue(record, options, resized_s or record.start_s)
    for state in sorted(states & ENDS.keys()):
        if record.end_s:
            type_, reason = _end(state, record)
            yield _Moment(type_, record.end_s, {**described, **({"reason": reason} if reason else {})})


def _end(state: str, record: JobRecord) -> tuple[str, str]:
    ran_s = record.end_s - record.start_s
    if state == "REQUEUED" and record.start_s and 0 < _HANDS_OVER_FROM * record.limit_s <= ran_s:
        return "preempted", "unknown"
    return ENDS[state]


def _resized_s(part: SeenAttempt) -> int:
    """Return when the job got its present size; 0: it has had it from its start on."""
    record = part.record
    if part.is_live:
        return record.resize_s if record.resize_s > record.start_s else 0
    return record.submit_s if part.follows or record.submit_s > record.start_s > 0 else 0


def _of_squeue(record: JobRecord, options: Options, since_s: int) -> Iterator[_Moment]:
    """Yield what sacct does not know: the GPUs of each node with their type, and the present suspension."""
    milli = {
        node: sum(type_milli(each.type, each.number) for each in gpus) for node, gpus in record.nodes.items()
    }
    types = {each.type for gpus in record.nodes.values() for each in gpus}
    if milli and sum(milli.values()) == gpu_milli(record.allocated, options):
        nodes = {node: count_of(n) for node, n in milli.items() if n}
        fields: dict[str, Any] = {"gpu_count": _gpus(record.allocated, options), "nodes": nodes}
        if len(types) == 1 and (type_ := named_type(types.pop(), options.gpu_types)):
            fields["gpu_type"] = type_
        yield _Moment("scaled", since_s, fields, ".nodes")
    if record.suspend_s > record.start_s:
        if "SUSPENDED" in record.states:
            yield _Moment("suspended", record.suspend_s, {"holds_gpus": options.suspended_hold_gpus})
        else:
            yield _Moment("resumed", record.suspend_s, {})


def _keyed(part: SeenAttempt, moment: _Moment, options: Options, since_s: int) -> KeyedEvent:
    job_id = job_id_of(part.record, options)
    key = f"{part.attempt}.{moment.type}.{moment.at_s}{moment.what}"
    value = {
        **moment.fields,
        "id": f"{job_id}.{key}",
        "source": options.source,
        "time_ms": max(moment.at_s, since_s) * 1000,
        "job_id": job_id,
        "attempt": part.attempt,
        "type": moment.type,
    }
    return KeyedEvent(key, CollectedEvent(Topic.JOBS, value))


def _description(record: JobRecord, options: Options) -> dict[str, Any]:
    labels = {
        "slurm_job_id": str(record.raw_id),
        "slurm_array_job_id": str(record.array[0]) if record.array else "",
        "slurm_het_job_id": str(record.het[0]) if record.het else "",
        "partition": record.partition,
        "qos": record.qos,
    }
    named = {
        "cluster": record.cluster,
        "owner": record.user,
        "team": options.teams.get(record.account, record.account),
        "project": record.wckey.lstrip("*"),  # * marks the default
        "experiment": record.name,
        "work_dir": record.work_dir,
    }
    return {
        **{name: text for name, text in named.items() if text},
        **options.price_fields,
        **options.partition_price_fields.get(record.partition, {}),
        "labels": {name: text for name, text in labels.items() if text},
    }


def _requested(record: JobRecord, options: Options) -> dict[str, int]:
    """How many GPUs are requested; nothing where it is none, or a part of one. A job that was resized says something else here."""
    gpus = _gpus(record.requested, options)
    return {"gpus_requested": gpus} if gpus and isinstance(gpus, int) else {}


def _resources(tres: Mapping[str, int], options: Options) -> dict[str, Any]:
    found: dict[str, Any] = {"gpu_count": _gpus(tres, options)}
    if type_ := named_type(gpu_type(tres, options), options.gpu_types):
        found["gpu_type"] = type_
    for field, name in (("cpu_count", "cpu"), ("instance_count", "node")):
        if 0 < tres.get(name, 0) <= _COUNT_AT_MOST:
            found[field] = tres[name]
    if 0 < tres.get("mem", 0) <= _COUNT_AT_MOST:
        found["memory_gib"] = round(tres["mem"] / 1024, 2)  # squeue prints no more decimals
    return found


def _gpus(tres: Mapping[str, int], options: Options) -> int | float:
    milli = gpu_milli(tres, options)
    if milli > _GPUS_AT_MOST * 1000:
        raise ValueError(f"{milli / 1000:g} GPUs are more than a job may have")
    return count_of(milli)
