"""Loads an archived job into a shard, and corrects rows that a crash left behind.

Bytes and rows are handed in; nothing is fetched here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from schemas.column_types import MILLI, SECOND
from schemas.columns import rows_of, times_as_integers, values_of
from schemas.events import FLOW_FIELDS, PRICE_FIELDS
from schemas.tables import (
    ALERTS,
    ATTEMPTS,
    BOOKS,
    JOB_HOURS,
    JOB_MINUTES,
    JOB_USAGE_MINUTES,
    JOBS,
    NODE_HOURS,
    NODE_MINUTES,
    UNATTRIBUTED_MINUTES,
)
from streams.engine.coverage.usage_table import unattributed_rows, usage_rows
from streams.engine.ledger.hour_rows import emptied_hours
from streams.engine.ledger.node_hours import emptied_node_hours
from streams.engine.ledger.rows import LedgerRows, quantity_in
from streams.engine.pricing.kinds import PriceRef
from streams.engine.shard import snapshot_writer
from streams.engine.shard.books import Tally, book_rows_again, book_tables
from streams.engine.shard.state import ShardState
from streams.engine.snapshot.job_blobs import load_job
from streams.engine.state.hour_measures import UNKNOWN_TIME
from streams.engine.state.job import JobState
from streams.engine.state.traffic import MinuteRows
from streams.engine.timeline.lines import Line, Lines

if TYPE_CHECKING:
    from streams.engine.repricing.price_changes import PriceChanges

_NANO = 10**9
_NOT_COMPARED: Final = frozenset({"cost_usd", "lost_cost_usd", "shard", "version"})
#: Rows of nodes do not name what they pay for.
COMPONENT_OF_NODE: Final = {"gpu_milli_ms": "gpu", "instance_milli_ms": "compute"}


def drop_counts(shard: ShardState, job: JobState) -> None:
    """Drop second counts of attempts with a billed timeline, and of those whose first sample has not arrived."""
    for number, attempt in job.attempts.items():
        if attempt.has_start:
            shard.coverage.drop_counts(job.id, number)


def adopt_job(shard: ShardState, job_id: str, data: bytes, news: PriceChanges | None = None) -> None:
    """Load an archived job (if `news` affects it); all of it is derived again."""
    archived = snapshot_writer.unpack_job(data)
    if archived.version != shard.archived.version_of(job_id):
        return  # it was loaded and archived again meanwhile: the caller asks again
    job = load_job(archived.job)
    if news is not None and not news.touches_job(job):
        return
    job.redo_all()
    if job.booked_time is UNKNOWN_TIME:
        job.owe_booked_hours()
    shard.jobs[job_id] = job
    shard.coverage.adopt(archived.coverage)
    drop_counts(shard, job)
    shard.due.dirty_jobs.add(job_id)
    shard.snapshots.changes.jobs.add(job_id)
    shard.tracker.touch(job_id)
    if job.is_open:
        shard.due.open_jobs.add(job_id)


def read_back(shard: ShardState, table: str, rows: pa.Table, version: int) -> pa.Table:
    """Corrections for rows stored by a former owner that differ from the snapshot.

    A key includes derived facts (phase, sku), so such a row may have no successor with the same key: it must be set to
    what was booked, or to 0, before the log is folded further. Its job must be in memory; if its state is lost, its
    booked rows are unknown, and its rows stay.

    Usage (with and without a job), jobs and attempts have keys that the replay writes again; but rows of an owner that began with an older
    snapshot than this one, and replayed less, replace rows that this one counts as written.

    Alerts are judged again with the same result; of those ahead of the snapshot only the ticks are recorded.
    """
    if table == ALERTS:
        _mark_stored_alerts(shard, rows)
        return rows.slice(0, 0)
    if table in (JOBS, ATTEMPTS):
        for job_id in set(values_of(rows["job_id"])) & shard.jobs.keys():
            shard.due.dirty_jobs.add(job_id)
            shard.snapshots.changes.jobs.add(job_id)
        return rows.slice(0, 0)
    if table in _READ_BACK:
        return _READ_BACK[table](shard, rows, version)
    values = LedgerRows()
    for row in _minutes_of(rows):
        price = PriceRef(
            component=row.get("component") or COMPONENT_OF_NODE[row["unit"]],
            unit=row["unit"],
            sku=row["sku"],
            effective_ms=row["price_effective"],
            usd_nano=int(row["price_usd"] * _NANO),
            divisor=1,
        )
        minute = row["minute"] // 60
        if table == NODE_MINUTES:
            line = Line("", "", price)
            node = shard.nodes.get(row["node"])
            found = _in_lines(node.booked_lines if node else {}, line, minute)
            if not _is_booked(row, line, found):
                values.add_row(row["node"], 0, found[0], minute, found[1], found[2])
        elif row["job_id"] not in shard.archived.lost:
            flow = tuple(row[name] for name in FLOW_FIELDS)
            line = Line(row["node"], row["phase"], price, flow if any(flow) else ())
            found = _booked(shard, row["job_id"], row["attempt"], line, minute)
            if not _is_booked(row, line, found):
                values.add_row(row["job_id"], row["attempt"], found[0], minute, found[1], found[2])
    shard.snapshots.version = max(shard.snapshots.version, version)
    build = {NODE_MINUTES: values.node_minutes, JOB_MINUTES: values.job_minutes}[table]
    return build(shard.number, version)[0]


def put_back_books(
    shard: ShardState, books: pa.Table, dead_letter_counts: pa.Table, version: int
) -> dict[str, pa.Table]:
    """Rows of `books` and `dead_letter_counts` that say no more than the snapshot and its rows both hold.

    What others say is stored beyond the snapshot, is not any more. An owner that began with an older snapshot replayed
    less: until its rows are written again with the next accrual, the tables are complete as far as it said.

    There is always a row, so that books that a former owner is still storing are seen to be older.

    Args:
        shard: As restored.
        books: Rows of a former owner, or none.
        dead_letter_counts: The same of that table.
        version: The version of the corrections.
    """
    topics = [*values_of(books["topic"])]
    is_behind = [
        offset < shard.position.next.get(topic, 0)
        for topic, offset in zip(topics, values_of(books["next_offset"]), strict=True)
    ]
    behind = {topic for topic, is_so in zip(topics, is_behind, strict=True) if is_so}
    tallies = {topic: Tally() for topic in topics} | shard.tallies
    for topic, reason in zip(*(values_of(dead_letter_counts[n]) for n in ("topic", "reason")), strict=True):
        tally = tallies.get(topic, Tally())
        if reason not in tally.reasons:
            tallies[topic] = msgspec.structs.replace(tally, reasons={**tally.reasons, reason: 0})
    tallies = {topic: tally for topic, tally in tallies.items() if topic not in behind}
    if not tallies and not behind:
        tallies = {"jobs": Tally()}  # its version says that a new owner is here
    shard.snapshots.version = max(shard.snapshots.version, version)
    time_ms, read_to_ms = (
        min([of_snapshot_ms, *values_of(books[name].cast(pa.int64()))])
        for name, of_snapshot_ms in (
            ("time", shard.due.accrued_to_ms),
            ("read_to", shard.due.accrued_read_to_ms),
        )
    )
    tables = book_tables(tallies, shard.position.next, time_ms, read_to_ms, shard.number, version)
    if behind:
        kept = book_rows_again(books.filter(pa.array(is_behind)), time_ms, read_to_ms, version)
        tables[BOOKS] = pa.concat_tables([tables[BOOKS], kept]) if BOOKS in tables else kept
    return tables


def _usage_back(shard: ShardState, rows: pa.Table, version: int) -> pa.Table:
    """The coverage of these rows' minutes, as far as the snapshot includes it."""
    minutes = values_of(rows["minute"].cast(pa.int64()))
    keys = set(zip(values_of(rows["job_id"]), values_of(rows["attempt"]), minutes, strict=True))
    found = [
        shard.coverage.minute_rows(job_id, attempt, minute_s // 60)
        for job_id, attempt, minute_s in sorted(keys)
        if shard.coverage.holders_of(job_id, attempt)
    ]
    places = np.concatenate(found) if found else np.empty(0, np.int64)
    shard.snapshots.version = max(shard.snapshots.version, version)
    return usage_rows(shard.coverage, places, shard.number, version)


def _unattributed_back(shard: ShardState, rows: pa.Table, version: int) -> pa.Table:
    """The same of GPUs without a job."""
    minutes = (rows["minute"].cast(pa.int64()).to_numpy() // 60).tolist()
    keys = sorted(set(zip(values_of(rows["node"]), values_of(rows["gpu"]), minutes, strict=True)))
    found = [
        shard.coverage.rows_of(holders, minute, minute + 1)
        for node, gpu, minute in keys
        if (holders := shard.coverage.places_of(node, [gpu]))
    ]
    places = np.concatenate(found) if found else np.empty(0, np.int64)
    shard.snapshots.version = max(shard.snapshots.version, version)
    return unattributed_rows(shard.coverage, places, shard.number, version)


def _hours_back(shard: ShardState, rows: pa.Table, version: int) -> pa.Table:
    """Empty rows for the hours of unknown attempts; those of known ones are written again."""
    gone: list[int] = []
    keys = (values_of(rows[name]) for name in ("job_id", "attempt"))
    hours = (rows["hour"].cast(pa.int64()).to_numpy() // 3600).tolist()
    fields = list(zip(*(values_of(rows[name]) for name in PRICE_FIELDS), strict=True))
    for place, (job_id, number, hour) in enumerate(zip(*keys, hours, strict=True)):
        job = shard.jobs.get(job_id)
        attempt = job.attempts.get(number) if job is not None else None
        if job is None or attempt is None:
            if job_id not in shard.archived.lost:
                gone.append(place)
            continue
        attempt.owed_hours.add(hour)
        first, last = attempt.written.get(fields[place], (hour, hour))
        attempt.written[fields[place]] = min(first, hour), max(last, hour)
        shard.due.dirty_jobs.add(job_id)
        shard.snapshots.changes.jobs.add(job_id)
    shard.snapshots.version = max(shard.snapshots.version, version)
    return emptied_hours(rows.take(pa.array(gone, pa.int64())), shard.number, version)


def _node_hours_back(shard: ShardState, rows: pa.Table, version: int) -> pa.Table:
    """Empty rows for the hours of unknown nodes; those of known ones are written again."""
    gone: list[int] = []
    hours = (rows["hour"].cast(pa.int64()).to_numpy() // 3600).tolist()
    for place, (name, hour) in enumerate(zip(values_of(rows["node"]), hours, strict=True)):
        node = shard.nodes.get(name)
        if node is None:
            gone.append(place)
            continue
        node.owed_hours.add(hour)
        node.dirty = True
        shard.mark_node(name)
    shard.snapshots.version = max(shard.snapshots.version, version)
    return emptied_node_hours(rows.take(pa.array(gone, pa.int64())), shard.number, version)


_READ_BACK: Final = {
    JOB_USAGE_MINUTES: _usage_back,
    UNATTRIBUTED_MINUTES: _unattributed_back,
    JOB_HOURS: _hours_back,
    NODE_HOURS: _node_hours_back,
}


def _mark_stored_alerts(shard: ShardState, rows: pa.Table) -> None:
    """Record up to which ticks former owners have stored these alerts."""
    ticks = pc.max_element_wise(*(rows[name].cast(pa.int64()) for name in ("held", "changed")))
    shard.tracker.alerts.mark_stored(dict(zip(values_of(rows["alert_id"]), values_of(ticks), strict=True)))


def _minutes_of(rows: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows of minutes with times as integers (`minute` in s, `price_effective` in ms), without what nobody compares.

    There are a hundred thousand of them after a minute of a busy shard.
    """
    kept = rows.select([name for name in rows.column_names if name not in _NOT_COMPARED])
    return rows_of(times_as_integers(kept, {"minute": SECOND, "price_effective": MILLI}))


def _is_booked(row: dict[str, Any], line: Line, found: tuple[Line, int, int]) -> bool:
    """Whether the row equals what is booked, as most rows stored before the snapshot do."""
    booked, quantity, lost = found
    same_price = booked.price.usd_nano == line.price.usd_nano
    return same_price and (quantity, lost) == (row["quantity"], row.get("lost_quantity", 0))


def _booked(shard: ShardState, job_id: str, attempt: int, line: Line, minute: int) -> tuple[Line, int, int]:
    job = shard.jobs.get(job_id)
    if job is None and shard.archived.version_of(job_id) is not None:
        raise LookupError(f"job {job_id} is archived: adopt it before its rows are read back")
    state = job.attempts.get(attempt) if job is not None else None
    if state is None:
        return line, 0, 0
    for found in (
        _in_lines(state.booked_lines, line, minute),
        _in_rows(state.booked_metered, line, minute),
        _in_rows(state.booked_traffic, line, minute),
    ):
        if found[1]:
            return found
    return line, 0, 0


def _in_lines(lines: Lines, line: Line, minute: int) -> tuple[Line, int, int]:
    for booked, intervals in lines.items():
        if booked.row_key == line.row_key:
            return (booked, *quantity_in(intervals, minute))
    return line, 0, 0


def _in_rows(rows: MinuteRows, line: Line, minute: int) -> tuple[Line, int, int]:
    for booked, (quantity, lost) in rows.get(minute, {}).items():
        if booked.row_key == line.row_key:
            return booked, quantity, lost
    return line, 0, 0
