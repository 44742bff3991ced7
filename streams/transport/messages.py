"""Converts fetches to what Faust sees: few messages, each a list of batches, and no offset bookkeeping."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from streams.engine.batch import LogBatch
from streams.engine.raw_records import RawRecords
from streams.transport.faust_types import TP

#: Up to this many records all shards share one message: a buffer counts messages, and each full one blocks a partition.
LITTLE_RECORDS: Final = 2_000
LITTLE_BYTES: Final = 4 * 2**20


class NoReadOffsets(dict[TP, "int | None"]):
    """Faust drops messages below the offset it last saw, but records that offset only after the message was handled.

    A partition that is read again in between would lose records repeatedly; shards skip duplicates by themselves.
    """

    def __missing__(self, _tp: TP) -> None:
        return None

    def __setitem__(self, _tp: TP, _offset: int | None) -> None:
        """Store nothing."""

    def update(self, *_: Any, **__: Any) -> None:
        """Store nothing."""


def messages_of(fetched: Iterable[tuple[TP, LogBatch]]) -> Mapping[TP, list[list[LogBatch]]]:
    """Combine all topics of a shard to one message, under the first of them; of small fetches, all shards.

    The topics of a shard are always assigned together, and Faust creates several tasks per message.
    """
    shards: dict[int, tuple[TP, list[LogBatch]]] = {}
    for tp, batch in fetched:
        shards.setdefault(tp.partition, (tp, []))[1].append(batch)
    together = [batch for _, batches in shards.values() for batch in batches]
    if len(shards) > 1 and _is_little(together):
        return {next(tp for tp, _ in shards.values()): [together]}
    return {tp: [batches] for tp, batches in shards.values()}


def _is_little(batches: Iterable[LogBatch]) -> bool:
    records = size_bytes = 0
    for batch in batches:
        records += len(batch.records)
        if records > LITTLE_RECORDS:
            return False
        if isinstance(batch.records, RawRecords):
            size_bytes += batch.records.size_bytes
        else:
            size_bytes += sum(len(each.value or b"") for each in batch.records)
    return size_bytes <= LITTLE_BYTES
