"""The rows of jobs, attempts, usage and dead letters as Arrow tables.

Builds columns from state that is handed in; decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from schemas.columns import count, instants
from schemas.tables import ATTEMPTS, DEAD_LETTERS, JOBS, SCHEMAS
from streams.pipeline.job import Job
from streams.timeline.attempts import Timeline, wall_clock_ms


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
    """Why an event is too late for its partition, in words."""
    return f"field `time_ms`: {time_ms} is {newest_ms - time_ms} ms before the newest event of its partition"


def late_gpus(late_horizon_ms: int) -> str:
    """Why a sample is too late, in words."""
    return f"every GPU of the sample begins more than {late_horizon_ms} ms before its newest second"


def dead_letter_table(letters: Sequence[DeadLetter], version: int) -> pa.Table:
    """Rows of `dead_letters`; the key (topic, partition, offset) makes writing them twice harmless."""
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


def job_tables(jobs: Iterable[Job], as_of_ms: int, shard: int, version: int) -> dict[str, pa.Table]:
    """Rows of `jobs` and `attempts` as they stand at the meter's clock."""
    job_rows: list[dict[str, object]] = []
    attempt_rows: list[dict[str, object]] = []
    for job in jobs:
        lines = job.timelines()
        clocks_ms = wall_clock_ms(lines, as_of_ms)
        for number, line in lines.items():
            attempt_rows.append(_attempt_row(job, number, line, clocks_ms[number]))
        job_rows.append(_job_row(job, lines, sum(clocks_ms.values())))
    return {
        name: _table(name, rows, shard, version)
        for name, rows in ((JOBS, job_rows), (ATTEMPTS, attempt_rows))
        if rows
    }


def _job_row(job: Job, lines: Mapping[int, Timeline], clock_ms: int) -> dict[str, object]:
    dimensions = job.dimensions()
    last = max(lines)
    fields = job.fields_of(last)
    starts = [line.started_ms for line in lines.values() if line.started_ms is not None]
    return {
        "job_id": job.id,
        "owner": dimensions.owner or "",
        "team": dimensions.team or "",
        "project": dimensions.project or "",
        "experiment": dimensions.experiment or "",
        "labels": list(dimensions.labels or ()),
        "state": job.state_of(last),
        "attempts": len(lines),
        "first_event": job.first_ms,
        "last_event": job.last_ms,
        "started": min(starts, default=None),
        "ended": lines[last].ended_ms,
        **{
            name: fields[name]
            for name in ("cluster", "region", "cloud", "purchase", "gpu_type", "instance_type")
        },
        "gpu_count": lines[last].values.gpu_milli,
        "wall_clock_ms": clock_ms,
    }


def _attempt_row(job: Job, number: int, line: Timeline, clock_ms: int) -> dict[str, object]:
    return {
        "job_id": job.id,
        "attempt": number,
        "state": job.state_of(number),
        "reason": line.reason,
        "started": line.started_ms,
        "ended": line.ended_ms,
        **job.fields_of(number),
        "gpu_count": line.values.gpu_milli,
        "wall_clock_ms": clock_ms,
    }


_INSTANTS = ("first_event", "last_event", "started", "ended")


def _table(name: str, rows: list[dict[str, object]], shard: int, version: int) -> pa.Table:
    columns: dict[str, object] = {}
    for field in SCHEMAS[name]:
        if field.name == "shard":
            columns[field.name] = pa.array([shard] * len(rows), field.type)
        elif field.name == "version":
            columns[field.name] = pa.array([version] * len(rows), field.type)
        elif field.name in _INSTANTS:
            columns[field.name] = instants([row[field.name] for row in rows])  # type: ignore[misc]  # ints or None
        elif field.name == "gpu_count":
            columns[field.name] = count(np.array([row[field.name] for row in rows], np.int64))
        else:
            columns[field.name] = pa.array([row[field.name] for row in rows], field.type)
    return pa.Table.from_pydict(columns, schema=SCHEMAS[name])
