"""`trainfare collect slurm`: asks squeue and sacct, and makes the lifecycle events of jobs.

squeue shows what is held now, sacct what has ended; both make the same events of what both know. A job that
came and went between two polls is made of what sacct says.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from schemas.durations import DAY_S
from schemas.escaping import visible
from streams.accounts.account import Account, KeyedAccount
from streams.collect.allocations import ALL_GPUS, Allocation, JobHolder, with_past, write_allocations
from streams.collect.collector import EventBatch, PolledByOptions, Position, SourceUnavailableError
from streams.collect.slurm.accounting import Accounting, Ask, RecordKey, key_of
from streams.collect.slurm.command import asking
from streams.collect.slurm.events import (
    ENDS,
    OddRecordError,
    SeenAttempt,
    end_of,
    events_of,
    free_rule,
    is_over,
    is_running,
    job_id_of,
)
from streams.collect.slurm.job_numbers import JobNumbers
from streams.collect.slurm.node_fields import FieldsOfNodes, default_partition
from streams.collect.slurm.nodes import listed_nodes, node_events
from streams.collect.slurm.options import Options
from streams.collect.slurm.progress import NewEvent, Progress
from streams.collect.slurm.records import EntryKey, JobRecord, queued_jobs
from streams.collect.slurm.tres import GpusOfNode, node_gpu_milli, type_milli, unknown_accelerators

#: slurmctld tells slurmdbd seconds later; after a start, more is asked for again.
_ASKED_AGAIN_S: Final = 600
_ASKED_AGAIN_AT_START_S: Final = 3_600
#: What ended just now, and squeue does not list, may still be incomplete in sacct.
_SETTLED_S: Final = 30
_EVENTS_PER_BATCH: Final = 1_000
_PARTITIONS_SHOWN: Final = 20


class SlurmCollector(PolledByOptions):
    """The jobs of one cluster."""

    name = "slurm"

    def __init__(self, options: Options, ask: Ask) -> None:
        self._options: Options = options
        self._ask = ask
        self._accounting = Accounting(options.sacct_command, ask) if options.use_sacct else None
        self._asked_again_s = _ASKED_AGAIN_AT_START_S
        self._gpu_milli_of_node: dict[str, int] = {}
        self._partitions: set[str] = set()  # of what the last poll read
        self._without_end: set[int] = set()  # gone from squeue at the last poll, and no end in sacct either

    def poll(self, position: Position | None, now_ms: int) -> Iterator[EventBatch]:
        """Yield what is new, the oldest first.

        Raises:
            SourceUnavailableError: squeue or sacct cannot be read; what squeue says is yielded before.
        """
        now_s = now_ms // 1000
        progress = Progress.of(position, self._options.begin_ms(now_ms) // 1000)
        if now_s < progress.since_s:
            return
        listing = queued_jobs(self._ask([*self._options.squeue_command, "--json", "--states=all"]))
        account, faults = KeyedAccount(), dict(listing.faults)
        parts = [SeenAttempt(job, (job.restarts or 0) + 1, is_live=True) for job in listing.jobs]
        listed = {job.raw_id: job for job in listing.jobs}
        away: SourceUnavailableError | None = None
        try:
            ended = self._ended(progress, listed, now_s, faults, account)
        except SourceUnavailableError as fault:
            ended, away = [], fault
        new = self._new_events([*parts, *ended], progress, listed, account)
        self._partitions = {part.record.partition for part in (*parts, *ended)} - {""}
        for first in range(0, len(new), _EVENTS_PER_BATCH):
            batch = new[first : first + _EVENTS_PER_BATCH]
            for each in batch:
                progress.add(each)
            yield EventBatch([each.keyed.event for each in batch], progress.position())
        if self._options.nodes_command:
            yield self._node_batch(progress, now_s)
        if self._options.allocations_output_file is not None:
            self._write_allocations(self._options.allocations_output_file, parts, ended, now_ms)
        if away is not None:
            raise away
        progress.read_s = now_s
        progress.forget(listed, now_s)
        self._asked_again_s = _ASKED_AGAIN_S
        for key, said in faults.items():
            account.not_understood(key, "malformed", said)
        yield EventBatch([], progress.position(), account.total())

    def unused_options(self) -> Iterator[str]:
        """Yield the partitions of `partition_price_fields` that no job or node of the last poll is in."""
        has = ", ".join(visible(each) for each in sorted(self._partitions)[:_PARTITIONS_SHOWN]) or "none"
        for name in self._options.partition_price_fields:
            if name not in self._partitions:
                yield f"partition_price_fields.{visible(name)}: no job or node is in that partition; partitions: {has}"

    def _ended(
        self,
        progress: Progress,
        listed: Mapping[int, JobRecord],
        now_s: int,
        faults: dict[EntryKey, str],
        account: KeyedAccount,
    ) -> list[SeenAttempt]:
        if self._accounting is None:
            return []
        restarts = {raw_id: job.restarts for raw_id, job in listed.items() if job.restarts is not None}
        from_s = max(progress.since_s, progress.read_s - self._asked_again_s)
        lost = [job.raw_id for job in progress.lost(listed)]
        parts = self._accounting.ended(from_s, now_s, restarts, lost, faults)
        without_end = set(lost) - {part.record.raw_id for part in parts if part.record.states & ENDS.keys()}
        for raw_id in sorted(without_end & self._without_end):  # slurmdbd may hear of it in a moment
            said = f"job {raw_id} is not in squeue, and sacct has no end of it: it is paid on; see sacctmgr show runawayjobs"
            account.not_understood(("end", raw_id), "no_end", said)
        self._without_end = without_end
        for key in self._accounting.answered:
            account.free((False, key), "unasked")
        for part in parts:
            account.free(_key(part), "not_settled")  # unless more is said of it
        return [
            _settled(part, listed[part.record.raw_id]) for part in parts if part.record.raw_id in listed
        ] + [
            part
            for part in parts
            if part.record.raw_id not in listed and part.record.end_s <= now_s - _SETTLED_S
        ]

    def _write_allocations(
        self, path: Path, parts: Collection[SeenAttempt], ended: Collection[SeenAttempt], now_ms: int
    ) -> None:
        ends_ms = {
            JobHolder(job_id_of(part.record, self._options), part.attempt): part.record.end_s * 1000
            for part in (*parts, *ended)
            if part.record.end_s and not is_running(part.record)
        }
        present = _allocations(parts, self._options, self._gpu_milli_of_node)
        write_allocations(path, with_past(path, present, ends_ms, now_ms))

    def _node_batch(self, progress: Progress, now_s: int) -> EventBatch:
        """The events of nodes, remembered as published."""
        listing = listed_nodes(self._ask(self._options.nodes_command))
        self._partitions.update(*(node.partitions for node in listing.nodes))
        account = Account()
        for fault in listing.faults:
            account.not_understood("malformed", fault)
        at_s = max(now_s - now_s % max(self.interval_ms // 1000, 1), progress.since_s)
        first_s = max(progress.since_s, now_s // DAY_S * DAY_S)  # what is older than a day would be too late
        fields_of = FieldsOfNodes(self._options, partial(self._default_partition, account))
        self._gpu_milli_of_node = {
            node.name: node_gpu_milli(node.tres, self._options) for node in listing.nodes
        }
        found = node_events(listing.nodes, progress.nodes, at_s, first_s, self._options, fields_of, account)
        progress.nodes = found.known
        return EventBatch(found.events, progress.position(), account)

    def _default_partition(self, account: Account) -> str:
        try:
            return default_partition(self._ask(self._options.partitions_command))
        except SourceUnavailableError as fault:
            account.not_understood(
                "partitions_disagree", f"{fault}; set default_partition, or partitions_command"
            )
            return ""

    def _account(self, part: SeenAttempt, numbers: JobNumbers, account: KeyedAccount) -> None:
        """Account for a record whose events are made."""
        record = part.record
        reused = numbers.reused(record)
        if odd := unknown_accelerators(record.allocated or record.requested, self._options):
            said = f"job {record.raw_id} holds {odd}, and nothing says how many GPUs one is"
            account.not_understood(_key(part), "unknown_gres", said)
        elif rule := free_rule(part, self._options):
            account.free(_key(part), rule)
        elif reused:
            account.not_understood(_key(part), "numbers_reused", reused)
        else:
            account.metered(_key(part))

    def _new_events(
        self,
        parts: Collection[SeenAttempt],
        progress: Progress,
        listed: Collection[int],
        account: KeyedAccount,
    ) -> list[NewEvent]:
        """The events that were not published yet, in the order of time."""
        found: dict[str, NewEvent] = {}
        for part in parts:
            key = _key(part)
            if _is_past(part, progress):
                account.free(key, "before_since")
                continue
            try:
                events = list(events_of(part, self._options, progress.since_s))
            except OddRecordError as fault:
                account.not_understood(key, fault.reason, str(fault))
                continue
            except ValueError as fault:
                account.not_understood(key, "malformed", str(fault))
                continue
            self._account(part, progress.numbers, account)
            for keyed in events:
                if not progress.is_sent(part.record.raw_id, keyed.key):
                    found.setdefault(keyed.event.value["id"], NewEvent(part.record.raw_id, keyed))
        if self._accounting is None:
            for new in _ends_without_accounting(parts, progress, listed, self._options):
                found.setdefault(new.keyed.event.value["id"], new)
        return sorted(found.values(), key=lambda new: (new.keyed.event.value["time_ms"], new.keyed.key))


def _key(part: SeenAttempt) -> tuple[bool, RecordKey]:
    return part.is_live, key_of(part.record)


def _is_past(part: SeenAttempt, progress: Progress) -> bool:
    """Whether it was over before metering began, and nobody can have seen it run.

    In the second of `since` a collector may have, published that, and been killed before it stored its position.
    """
    record = part.record
    return (
        is_over(record, progress.since_s)
        and record.end_s < progress.since_s
        and not progress.is_open(record.raw_id, part.attempt)
    )


def _settled(part: SeenAttempt, job: JobRecord) -> SeenAttempt:
    """Return it under the job's name in squeue: slurmdbd may hear of an end before it hears which array it is of."""
    record = part.record
    return part._replace(record=record._replace(array=job.array or record.array, het=job.het or record.het))


def _ends_without_accounting(
    parts: Collection[SeenAttempt], progress: Progress, listed: Collection[int], options: Options
) -> Iterator[NewEvent]:
    """Yield the ends that squeue does not show.

    A requeued attempt ends when its job is queued again; one that is gone, at the last poll that had it.
    """
    for record, attempt, *_ in parts:
        if attempt > 1 and "COMPLETING" not in record.states and progress.is_open(record.raw_id, attempt - 1):
            job_id = job_id_of(record, options)
            ended = end_of(job_id, attempt - 1, "preempted", record.submit_s, options.source)
            yield NewEvent(record.raw_id, ended)
    for lost in progress.lost(listed):
        ended = end_of(lost.job_id, lost.attempt, "completed", progress.read_s, options.source)
        yield NewEvent(lost.raw_id, ended)


def _allocations(
    parts: Collection[SeenAttempt], options: Options, gpu_milli_of_node: Mapping[str, int]
) -> list[Allocation]:
    """Which GPUs are held now, where Slurm tells them apart, or where a job has all of a node."""
    return [
        Allocation(
            node,
            job_id_of(part.record, options),
            part.attempt,
            indices,
            from_ms=part.record.start_s * 1000,
        )
        for part in parts
        if is_running(part.record)
        for node, gpus in part.record.nodes.items()
        if (indices := [index for each in gpus for index in each.indices])
        or (indices := _whole_node(gpus, gpu_milli_of_node.get(node, 0)))
    ]


def _whole_node(gpus: Sequence[GpusOfNode], gpu_milli_of_node: int) -> list[str]:
    held_milli = sum(type_milli(each.type, each.number) for each in gpus)
    return [ALL_GPUS] if 0 < held_milli == gpu_milli_of_node else []


def open_collector(options: Options) -> SlurmCollector:
    """The collector."""
    return SlurmCollector(options, asking(options))
