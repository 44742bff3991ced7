"""Collects the checkpoints that jobs report, as rows of `job_checkpoints`: how often the work is saved, and how long that takes.

A row is made of one event alone, so a shard that reads the event again after a restart writes the same row.
"""

from __future__ import annotations

import pyarrow as pa

from schemas.columns import instants, table_of
from schemas.events import JobEvent
from schemas.tables import JOB_CHECKPOINTS, SCHEMAS


class JobCheckpoints:
    """The events `checkpointed` that count and are not stored yet."""

    def __init__(self) -> None:
        self._waiting: list[JobEvent] = []

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, event: JobEvent) -> None:
        """Add an event that was applied."""
        self._waiting.append(event)

    def drain(self, shard: int, version: int) -> dict[str, pa.Table]:
        """The rows of what was added since the last call."""
        events, self._waiting = self._waiting, []
        if not events:
            return {}
        schema = SCHEMAS[JOB_CHECKPOINTS]
        columns = {
            "time": instants([event.time_ms for event in events]),
            "job_id": pa.array([event.job_id for event in events]),
            "attempt": pa.array([event.attempt for event in events], pa.uint32()),
            "duration_ms": pa.array([event.duration_ms for event in events], pa.int64()),
            "source": pa.array([event.source for event in events]),
            "id": pa.array([event.id for event in events]),
            "shard": pa.array([shard] * len(events), pa.uint16()),
            "version": pa.array([version] * len(events), pa.uint64()),
        }
        return {JOB_CHECKPOINTS: table_of(schema, columns)}
