"""A batch on its way into a shard: which of its records are new, and what they say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.events import Event
from schemas.invalid import Invalid
from streams.engine.batch import LogBatch, Record
from streams.engine.shard.samples import SampleBatch


@dataclass(slots=True)
class DecodedBatch:
    """A batch's records from `next` on, decoded, each with its log time."""

    batch: LogBatch
    expected: int
    trimmed: int
    records: Sequence[Record]
    events: list[Event | Invalid]
    columns: SampleBatch | None = None  # of GPU samples that came as bytes; then `events` is empty
