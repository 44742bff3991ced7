"""A batch on its way into a shard: which of its records are new, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.events import Event
from schemas.invalid import Invalid
from streams.pipeline.batch import LogBatch, Record
from streams.pipeline.sampled import Columns


@dataclass(slots=True)
class Decoded:
    """A batch's records from `next` on, decoded, each with its log time."""

    batch: LogBatch
    expected: int
    trimmed: int
    records: Sequence[Record]
    events: list[Event | Invalid]
    columns: Columns | None = None  # of GPU samples that came as bytes; then `events` is empty
