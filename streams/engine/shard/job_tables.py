"""Builds the Arrow tables of jobs, attempts, usage and dead letters.

It builds columns from state that is handed in, and decides nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa

from schemas.columns import count, instants, money, table_of
from schemas.durations import MINUTE_MS
from schemas.events import PRICE_FIELDS
from schemas.tables import ATTEMPTS, DEAD_LETTERS, JOBS, SCHEMAS
from streams.engine.state.job import JobState, ShownRows
from streams.engine.timeline.attempts import Timeline, wall_clock_ms


class DeadLetter(NamedTuple):
    """A refused record; `raw` is cut at 64 KiB."""

    topic: str
    partition: int
    offset: int
    reason: str
    detail: str
    raw: bytes
    log_ms: int


def late_by(time_ms: int, newest_ms: int) -> str:
    """Explain why an event is too late for its partition."""
    return f"field `time_ms`: {time_ms} is {newest_ms - time_ms} ms before the newest event of its partition"


def late_gpus(late_horizon_ms: int) -> str:
    """Explain why a sample is too late."""
    return f"every GPU of the sample begins more than {late_horizon_ms} ms before its newest second"


def dead_letter_table(letters: Sequence[DeadLetter], version: int) -> pa.Table:
    """Build rows of `dead_letters`; the key (topic, partition, offset) makes writing them twice harmless."""
    return pa.Table.from_pydict(
        {
            "topic": [letter.topic for letter in letters],
            "partition": [letter.partition for letter in letters],
            "offset": [letter.offset for letter in letters],
            "reason": [letter.reason for letter in letters],
            "detail": [letter.detail for letter in letters],
            "raw": [letter.raw for letter in letters],
            "time": instants([letter.log_ms for letter in letters]),
            "version": pa.array([version] * len(letters), pa.uint64()),
        },
        schema=SCHEMAS[DEAD_LETTERS],
    )


def job_tables(jobs: Sequence[JobState], as_of_ms: int, shard: int, version: int) -> dict[str, pa.Table]:
    """Build rows of `jobs` and `attempts` as of the accrual instant."""
    if not jobs:
        return {}
    said = [_row_inputs(job) for job in jobs]
    clocks_ms = [wall_clock_ms(job.timelines(), as_of_ms) for job in jobs]
    of_jobs = {
        "first_event": [job.first_ms for job in jobs],
        "last_event": [job.last_ms for job in jobs],
        "wall_clock_ms": [sum(of_attempts.values()) for of_attempts in clocks_ms],
    }
    of_attempts = {"wall_clock_ms": [ms for of_attempts in clocks_ms for ms in of_attempts.values()]}
    return {
        JOBS: _table(JOBS, _JOB_COLUMNS, [rows.job for rows in said], of_jobs, shard, version),
        ATTEMPTS: _table(
            ATTEMPTS,
            _ATTEMPT_COLUMNS,
            [row for rows in said for row in rows.attempts],
            of_attempts,
            shard,
            version,
        ),
    }


def shows_more(job: JobState) -> bool:
    """Whether more than time columns of the job's rows differ from those written last; they count as written from now on."""
    written = job.said_rows
    return written is None or _row_inputs(job) != written[1]


def _row_inputs(job: JobState) -> ShownRows:
    """The job's rows without time columns; most jobs are written again only because these change."""
    said = job.row_inputs()
    if job.said_rows is not None and job.said_rows[0] == said:
        return job.said_rows[1]
    lines = job.timelines()
    attempts = tuple(_attempt_row(job, number, line) for number, line in lines.items())
    rows = ShownRows(_job_row(job, lines), attempts)
    job.said_rows = None if job.has_ended else (said, rows)  # a finished job is rarely written again
    return rows


def _job_row(job: JobState, lines: Mapping[int, Timeline]) -> tuple[object, ...]:
    dimensions = job.dimensions()
    last = max(lines)
    fields = job.fields_of(last)
    starts = [line.started_ms for line in lines.values() if line.started_ms is not None]
    return (
        job.id,
        dimensions.owner or "",
        dimensions.team or "",
        dimensions.project or "",
        dimensions.experiment or "",
        dimensions.run_id or "",
        dimensions.work_dir or "",
        list(dimensions.labels or ()),
        *map(list, job.measures.shown()),
        job.state_of(last),
        len(lines),
        min(starts, default=None),
        lines[last].ended_ms,
        *(fields[name] for name in _JOB_FIELDS),
        lines[last].values.gpu_milli,
        list(job.limits().budget),
        job.limits().deadline_ms,
        _declared_nano(job, min(starts, default=None)),
    )


def _declared_nano(job: JobState, started_ms: int | None) -> int:
    """The rate that was declared for its first five whole minutes; 0: none was by their end."""
    if started_ms is None:
        return 0
    over_ms = started_ms // MINUTE_MS * MINUTE_MS + 6 * MINUTE_MS
    return next((rate for time_ms, rate in reversed(job.limits().declared) if time_ms <= over_ms), 0)


def _attempt_row(job: JobState, number: int, line: Timeline) -> tuple[object, ...]:
    fields = job.fields_of(number)
    return (
        job.id,
        number,
        job.state_of(number),
        line.reason,
        job.start_sources().get(number, ()),
        line.started_ms,
        line.ended_ms,
        *(fields[name] for name in PRICE_FIELDS),
        line.values.gpu_milli,
    )


_JOB_FIELDS: Final = ("cluster", "region", "cloud", "purchase", "gpu_type", "instance_type")
#: Columns in the order of the rows above.
_JOB_COLUMNS: Final = (
    "job_id", "owner", "team", "project", "experiment", "run_id", "work_dir", "labels", "quality", "progress", "state",
    "attempts", "started", "ended",
    *_JOB_FIELDS, "gpu_count", "budget", "deadline", "declared_usd_per_hour",
)  # fmt: skip
_ATTEMPT_COLUMNS: Final = (
    "job_id", "attempt", "state", "reason", "sources", "started", "ended", *PRICE_FIELDS, "gpu_count",
)  # fmt: skip
_INSTANTS: Final = ("first_event", "last_event", "started", "ended", "deadline")
_KINDS: Final = {name: {field.name: field.type for field in SCHEMAS[name]} for name in (JOBS, ATTEMPTS)}


def _table(
    name: str,
    columns: Sequence[str],
    rows: Sequence[tuple[object, ...]],
    clocks: Mapping[str, Sequence[int]],
    shard: int,
    version: int,
) -> pa.Table:
    """Build a table from row tuples and additional columns."""
    by_name: dict[str, Sequence[Any]] = {**dict(zip(columns, zip(*rows, strict=True), strict=True)), **clocks}
    size, kinds = len(rows), _KINDS[name]
    arrays: dict[str, pa.Array] = {
        "shard": pa.array(np.full(size, shard, np.uint16)),
        "version": pa.array(np.full(size, version, np.uint64)),
    }
    for column, values in by_name.items():
        if column in _INSTANTS:
            arrays[column] = instants(values)
        elif column == "declared_usd_per_hour":
            arrays[column] = money(np.array(values, np.int64))
        elif column == "gpu_count":
            arrays[column] = count(np.array(values, np.int64))
        else:
            arrays[column] = pa.array(values, kinds[column])
    return table_of(SCHEMAS[name], arrays)
