"""Parses GPU records of a fetch before their shard sees them, in the thread that fetches.

What it finds depends on the records alone, not on the state of the shard, so that a fetch that is dropped does no harm.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from streams.engine.coverage.shapes import Shapes
from streams.engine.kernels.arrays import INT64_MAX
from streams.engine.raw_records import RawRecords
from streams.engine.shard.partitioning import PartitionCheck


class ColumnsAhead:
    """The parsers of one worker's partitions; one thread alone may use them."""

    def __init__(self, partitions: int | None) -> None:
        """`partitions`: as in the settings of the shards."""
        self._partitions = partitions
        self._shapes: dict[int, Shapes] = {}

    def read(self, topic: str, number: int, records: RawRecords) -> None:
        """Parse records of a partition, if they are of GPUs; how far one may be ahead of the log is left to the shard."""
        if topic != "gpu":
            return
        shapes = self._shapes.get(number)
        if shapes is None:
            place = PartitionCheck(number, self._partitions, ())
            shapes = self._shapes[number] = Shapes(is_ours=place.is_of)
        any_ms = np.full(len(records), INT64_MAX, np.int64)
        records.ahead = shapes.parse(records.data, records.value_at, records.value_size, any_ms).kept()

    def keep_only(self, numbers: Collection[int]) -> None:
        """Free what is known of partitions that others read from now on."""
        self._shapes = {number: shapes for number, shapes in self._shapes.items() if number in numbers}
