"""A checkpoint: everything that must be stored so that the log before `next` need never be read again.

Built without waiting for anything. It is stored outside the engine, in this order:
1. the tables (after a crash the rows are written again, with the same values and a higher version);
2. the snapshot (after a crash reading starts at the snapshot's `next`, whatever was committed);
3. the commit to Kafka (for monitoring, and as a lower bound).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from schemas.durations import MINUTE_MS
from schemas.tables import ARCHIVE, JOB_HOURS, JOB_MINUTES, NODE_HOURS, NODE_MINUTES, SCHEMAS
from streams.engine.alerts.alert import Alert
from streams.engine.coverage.usage_table import usage_tables
from streams.engine.ledger.changed_hours import write_put_off_hours
from streams.engine.ledger.derive import accrue_job, derive_job, derive_node
from streams.engine.ledger.hour_rows import HourRows
from streams.engine.ledger.node_hours import NodeHourRows
from streams.engine.ledger.rows import LedgerRows
from streams.engine.ledger.sampled_minutes import SampledMinutes
from streams.engine.repricing.price_changes import index_job, node_lookups
from streams.engine.shard import snapshot_writer
from streams.engine.shard.books import book_tables
from streams.engine.shard.job_tables import job_tables, shows_more
from streams.engine.shard.parts import set_member
from streams.engine.shard.sequencer import TICK_MS
from streams.engine.shard.state import ShardState
from streams.engine.state.changes import OwedHour
from streams.engine.state.job import JobState

#: A sample covers an hour at most (docs/events.md, gpu).
LONGEST_SAMPLE_MS: Final = 3_600_000
#: How far samples may go ahead of the newest event of `jobs` while their minutes wait for a late one of it.
_LONGEST_SILENCE_MS: Final = 7 * 24 * 3_600_000


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What to store.

    `more`: rows are left over, so build another checkpoint before resting. `parent`: the version of the snapshot that
    this one increments. `root`: the oldest snapshot that a restore needs from now on. `frees`: `root` has changed, so
    that older snapshots may be deleted. `snapshot`: empty if these are rows only, which a later one includes.
    """

    shard: int
    version: int
    parent: int
    root: int
    frees: bool
    tables: dict[str, pa.Table]
    snapshot: bytes
    next: dict[str, int]
    rows: int
    more: bool
    alerts: list[Alert]  # whose status changed, in order; to be sent once the tables are stored


def build_checkpoint(
    shard: ShardState, as_of_ms: int, version: int, *, open_attempts: bool, rows_only: bool = False
) -> Checkpoint:
    """Build the checkpoint of a shard; its rows count as booked from now on.

    `rows_only`: leave to a later checkpoint the snapshot, unless there is none yet, jobs that leave memory, rows of usage
    that are stored as they were a little earlier, and the checkpoints that jobs reported.

    Raises:
        ValueError: `version` is not above the shard's last version.
    """
    if version <= shard.snapshots.version:
        raise ValueError(
            f"version {version} of shard {shard.number} is not above its last, {shard.snapshots.version}"
        )
    rows_only = rows_only and shard.snapshots.compaction.root != 0
    usage = _drain_usage(shard, version, rows_only=rows_only)  # before the hours that it changes
    tables: dict[str, pa.Table] = {}
    changed, room, more = _derive_jobs(shard, as_of_ms, version, tables, open_attempts=open_attempts)
    more |= _derive_nodes(shard, as_of_ms, version, tables, room, open_nodes=open_attempts)
    tables.update(usage)
    tables.update(shard.refused.drain(version))
    tables.update(shard.ahead.drain(shard.number, version))
    if not _waits_for_snapshot(shard, rows_only=rows_only):
        tables.update(shard.checkpoints.drain(shard.number, version))
    tables.update(shard.tracker.tables(shard.number, version))
    unwritten = shard.due.dirty_jobs | shard.due.hours_put_off
    finished = [] if rows_only else _finished(shard)
    leaving = [job for job in finished if job.id not in unwritten and not _unjudged(shard, job)]
    changed += [
        job for job in leaving if job.id in shard.due.sampled_jobs
    ]  # their last rows are not written yet
    tables.update(job_tables(changed, as_of_ms, shard.number, version))
    if leaving:
        tables[ARCHIVE] = _archive(shard, leaving, version)
    if open_attempts and not more:
        tick_ms = shard.position.tick_ms
        shard.due.accrued_to_ms = as_of_ms
        # Before the first tick nothing was read yet.
        shard.due.accrued_read_to_ms = 0 if tick_ms is None else max(tick_ms - TICK_MS, 0)
    # After the dead letters and replays that these rows count: a reader of the counts finds them.
    if not more and (open_attempts or (shard.due.books_owed and shard.position.next != shard.due.books_next)):
        tables.update(shard.sums.drain_changed(shard.number, version))
        # Both as of the accrual: of a job that began after it nothing is booked yet.
        accrued_ms, read_to_ms = shard.due.accrued_to_ms, shard.due.accrued_read_to_ms
        tables.update(
            book_tables(shard.tallies, shard.position.next, accrued_ms, read_to_ms, shard.number, version)
        )
        shard.due.books_next, shard.due.books_owed = dict(shard.position.next), False
    parent, root = shard.snapshots.parent, shard.snapshots.compaction.root
    shard.snapshots.version = version
    shard.snapshots.is_behind_rows = rows_only
    blob = b"" if rows_only else _snapshot(shard)
    shard.samples.checkpointed()
    rows = sum(table.num_rows for table in tables.values())
    alerts = shard.tracker.alerts.drain_changes()
    return Checkpoint(
        shard=shard.number,
        version=version,
        parent=parent,
        root=shard.snapshots.compaction.root,
        frees=shard.snapshots.compaction.root != root,
        tables=tables,
        snapshot=blob,
        next=dict(shard.position.next),
        rows=rows,
        more=more,
        alerts=alerts,
    )


def _snapshot(shard: ShardState) -> bytes:
    """The snapshot under the version of the rows, from which the next one goes on."""
    shard.snapshots.parent, shard.snapshots.next = shard.snapshots.version, dict(shard.position.next)
    return snapshot_writer.build_snapshot(shard)


def _drain_usage(shard: ShardState, version: int, *, rows_only: bool) -> dict[str, pa.Table]:
    """The changed rows of usage; their hours are due, and a snapshot says so until they are written.

    A snapshot counts all of them as stored. Without one, those of a running minute would be stored each second again: of jobs
    that nothing else is derived of, they wait for the next snapshot.
    """
    waits = _waits_for_snapshot(shard, rows_only=rows_only)
    rows = shard.coverage.drain_urgent(shard.due.dirty_jobs) if waits else shard.coverage.drain_dirty()
    for job_id, attempt, hour in shard.coverage.changed_hours(rows):
        owed = shard.jobs[job_id].attempts[attempt].owed_hours
        if hour not in owed:  # else a snapshot has it, or this one will: samples change it each second
            owed.add(hour)
            shard.snapshots.changes.owed.add(OwedHour(job_id, attempt, hour))
    return usage_tables(shard.coverage, rows, shard.number, version)


def _waits_for_snapshot(shard: ShardState, *, rows_only: bool) -> bool:
    """Whether rows that nobody misses for some seconds are left to the next snapshot; books say that the tables are complete."""
    return rows_only and not shard.due.books_owed


def _derive_jobs(
    shard: ShardState, as_of_ms: int, version: int, tables: dict[str, pa.Table], *, open_attempts: bool
) -> tuple[list[JobState], int, bool]:
    """Derive changed jobs (and with `open_attempts` the open ones) until the checkpoint is large enough.

    Returns:
        The jobs whose rows of `jobs` and `attempts` are due, the number of nodes that still fit, and whether any job is
        left.
    """
    rows, hours = LedgerRows(), HourRows(shard.coverage)
    changed: list[JobState] = []
    if open_attempts:
        _begin_accrual(
            shard, as_of_ms
        )  # before changed jobs fill the checkpoint, or open ones would be skipped
    due = _due(shard, as_of_ms, open_attempts=open_attempts)
    prices = shard.prices.minutes
    prices.book = shard.prices.book
    sampled = SampledMinutes(shard.coverage, (shard.jobs[job_id] for job_id in sorted(shard.due.dirty_jobs)))
    room = shard.settings.things_per_checkpoint
    while room > 0 and rows.estimate <= shard.settings.rows_per_checkpoint:
        job_id = next(due, None)
        if job_id is None:
            break
        room -= 1
        job = shard.jobs[job_id]
        if job_id not in shard.due.dirty_jobs and accrue_job(job, rows, hours, prices, sampled, as_of_ms):
            shard.due.sampled_jobs.discard(job_id)
            shard.due.hours_put_off.discard(job_id)
            shard.snapshots.changes.jobs.add(job_id)
            changed.append(job)
            continue
        derive_job(job, rows, hours, prices, sampled, as_of_ms, open_attempts=open_attempts)
        index_job(shard.prices.jobs, job)
        shard.due.dirty_jobs.discard(job_id)
        shard.due.sampled_jobs.discard(job_id)
        # An open job is due again with the next accrual: until then its time columns can wait.
        if open_attempts or job.has_ended or shows_more(job):
            changed.append(job)
        elif not job.is_open:
            shard.due.sampled_jobs.add(job_id)
        shard.snapshots.changes.jobs.add(job_id)
        set_member(shard.due.open_jobs, job_id, is_member=job.is_open)
        set_member(shard.due.hours_put_off, job_id, is_member=job.owes_hours)
    if shard.due.books_owed and not (open_attempts or shard.due.dirty_jobs):
        _write_put_off_hours(shard, hours)
    if rows.estimate:
        table, capped = rows.job_minutes(shard.number, version)
        shard.sums.add(JOB_MINUTES, rows.sums)
        shard.books.capped_costs += capped
        if table.num_rows:
            tables[JOB_MINUTES] = table
    if hours:
        table = hours.table(shard.number, version)
        if table.num_rows:
            tables[JOB_HOURS] = table
    return changed, room, bool(shard.due.dirty_jobs or (open_attempts and _owes_more(shard, as_of_ms)))


def _write_put_off_hours(shard: ShardState, hours: HourRows) -> None:
    """Write the hours that minutes are ahead of: the record accounting says that the tables are complete up to here.

    The last checkpoint of an owner has no accrual after it, and the next owner may come much later.
    """
    jobs = [shard.jobs[job_id] for job_id in sorted(shard.due.hours_put_off)]
    sampled = SampledMinutes(shard.coverage, ())
    for job in jobs:
        write_put_off_hours(job, hours, sampled, shard.prices.minutes, shard.due.accrued_to_ms)
        shard.snapshots.changes.jobs.add(job.id)


def _begin_accrual(shard: ShardState, as_of_ms: int) -> None:
    """Record the open jobs to accrue, unless some of an unfinished accrual to this instant are left."""
    up_to_ms, left = shard.due.accruing
    if not left or up_to_ms != as_of_ms:
        shard.due.accruing = (as_of_ms, sorted(shard.due.accruable(), reverse=True))


def _due(shard: ShardState, as_of_ms: int, *, open_attempts: bool) -> Iterator[str]:
    """Yield jobs to derive: changed ones, then, if requested, open ones not accrued up to this instant."""
    yield from sorted(shard.due.dirty_jobs)
    while open_attempts and _owes_more(shard, as_of_ms):
        yield shard.due.accruing[1].pop()


def _owes_more(shard: ShardState, as_of_ms: int) -> bool:
    """Whether any open job is left to accrue; that job is then the last of the list."""
    left = shard.due.accruing[1]
    while left:
        job = shard.jobs.get(left[-1])
        is_due = job is not None and job.id in shard.due.open_jobs and job.booked_as_of_ms != as_of_ms
        if is_due or left[-1] in shard.due.sampled_jobs or left[-1] in shard.due.hours_put_off:
            return True
        left.pop()
    return False


def _derive_nodes(
    shard: ShardState,
    as_of_ms: int,
    version: int,
    tables: dict[str, pa.Table],
    room: int,
    *,
    open_nodes: bool,
) -> bool:
    """Derive up to `room` nodes; return whether any is left over."""
    rows, hours = LedgerRows(), NodeHourRows()
    waiting = shard.due.waiting_nodes if open_nodes else shard.due.dirty_nodes
    due = [
        node
        for node in map(shard.nodes.__getitem__, sorted(waiting))
        if ((node.dirty or node.booked_as_of_ms != as_of_ms) if open_nodes else not node.is_open)
    ]
    for node in due[:room]:
        derive_node(node, rows, hours, shard.prices.book, as_of_ms, open_nodes=open_nodes)
        if node.may_price_lookups_differ():
            shard.prices.nodes.set_lookups(node.name, node_lookups(node))
        shard.snapshots.changes.nodes.add(node.name)
        shard.due.dirty_nodes.discard(node.name)
        set_member(shard.due.open_nodes, node.name, is_member=node.is_open)
    if rows.estimate:
        table, capped = rows.node_minutes(shard.number, version)
        shard.sums.add(NODE_MINUTES, rows.sums)
        shard.books.capped_costs += capped
        if table.num_rows:
            tables[NODE_MINUTES] = table
    if hours:
        tables[NODE_HOURS] = hours.table(shard.number, version)
    return len(due) > room


def _finished(shard: ShardState) -> list[JobState]:
    """Jobs that ended longer than the job horizon ago, by the shard's newest event time."""
    newest_ms = max(shard.position.newest_ms.values(), default=0)
    limit_ms = newest_ms - shard.settings.job_horizon_ms
    if limit_ms < shard.due.archive_due_ms:
        return []
    shard.due.archive_due_ms = limit_ms + shard.settings.job_horizon_ms // 24
    _forget_old(shard)
    shard.archived.forget_before(newest_ms - shard.settings.archived_for_ms)
    return [job for job in shard.jobs.values() if job.is_finished and _last_ms(job) < limit_ms]


def _unjudged(shard: ShardState, job: JobState) -> bool:
    """Whether a tick must still judge the job's latest change; never where no ticks are judged."""
    return shard.position.tick_ms is not None and shard.tracker.awaits(job.id, shard.prices.book)


def _forget_old(shard: ShardState) -> None:
    """Drop parts of live jobs that can never change again, as every acceptable event is newer.

    They stay dropped if the horizon is raised later: an event from behind it then finds nothing to add to.
    """
    limit_ms = {topic: ms - shard.settings.job_horizon_ms for topic, ms in shard.position.newest_ms.items()}
    forgot: set[str] = set()
    if "gpu" in limit_ms:
        gpu_ms = limit_ms["gpu"]
        oldest_minute = _oldest_minute(gpu_ms)
        if shard.coverage.forget_idle(oldest_minute) + shard.coverage.evict(oldest_minute, idle=True):
            forgot.add("gpu")
        # An event that names price fields divides an hour's usage; but of silent jobs it must not pile up for ever.
        if _evict_usage(shard, max(min(gpu_ms, limit_ms.get("jobs", 0)), gpu_ms - _LONGEST_SILENCE_MS)):
            forgot |= {"gpu", "jobs"} & limit_ms.keys()
    for job in shard.jobs.values():
        if job.forget_checkpoints(limit_ms.get("jobs", 0)):
            shard.snapshots.changes.jobs.add(job.id)
            forgot.add("jobs")
    for topic in forgot:
        shard.position.forgotten_ms[topic] = max(limit_ms[topic], shard.position.forgotten_ms.get(topic, 0))


def _oldest_minute(before_ms: int) -> int:
    """The first minute that a sample of this instant or later may cover."""
    return (before_ms - LONGEST_SAMPLE_MS) // MINUTE_MS


def _evict_usage(shard: ShardState, before_ms: int) -> bool:
    """Drop rows of usage that no acceptable sample can change; their attempts keep the sums by hour.

    Rows that are read here are unpacked, and go with the next pass.
    """
    before_minute = _oldest_minute(before_ms)
    owners = shard.coverage.evictable(before_minute)
    for job_id, number in owners:
        attempt = shard.jobs[job_id].attempts[number]
        holders = shard.coverage.holders_of(job_id, number)
        attempt.keep_usage(
            shard.coverage.minute_usage(holders, attempt.evicted_to, before_minute), before_minute
        )
        shard.snapshots.changes.jobs.add(job_id)
    shard.coverage.evict(before_minute)
    return bool(owners)


def _last_ms(job: JobState) -> int:
    """The last instant that anything of the job refers to."""
    ends = [line.ended_ms for line in job.timelines().values() if line.ended_ms is not None]
    return max([job.last_ms, *ends])


def _archive(shard: ShardState, leaving: list[JobState], version: int) -> pa.Table:
    """Build rows of `archive`; the jobs leave memory."""
    columns: dict[str, object] = {
        "shard": [shard.number] * len(leaving),
        "job_id": [job.id for job in leaving],
        "blob": list(snapshot_writer.job_blobs(shard, leaving, version)),
        "first_ms": [job.first_ms for job in leaving],
        "last_ms": [_last_ms(job) for job in leaving],
        "version": [version] * len(leaving),
    }
    for job in leaving:
        shard.tracker.leave(job.id)
        shard.samples.forget(job)
        shard.archived.add(job.id, version, _last_ms(job))
        del shard.jobs[job.id]
        shard.prices.jobs.drop(job.id)
        shard.due.sampled_jobs.discard(job.id)
        shard.snapshots.changes.jobs.discard(job.id)
        shard.snapshots.changes.gone[job.id] = version
    shard.coverage.forget([job.id for job in leaving])
    return pa.Table.from_pydict(columns, schema=SCHEMAS[ARCHIVE])
