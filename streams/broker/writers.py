"""Appends events and controls of HTTP requests to the log of this process, durable before a call returns.

A record whose acknowledgement is late may be in the log all the same: write it again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from typing import Final

from aiokafka.record.default_records import DefaultRecordBatchBuilder

from sinks.errors import LogFull, SinkBusy
from streams.keys import OutgoingRecord
from streams.segmented_log.directory import LogDirectory
from streams.segmented_log.errors import LogError, LogFullError
from streams.segmented_log.frames import Place
from streams.threads import Threads
from streams.topics import SHARD_TOPICS
from streams.transport.partitions import partition_of

_MAGIC: Final = 2
_ZSTD: Final = 4
_NO_PRODUCER: Final = -1
_ANY_SIZE: Final = 2**31 - 1
_TIMEOUT_S: Final = 5.0
#: Requests whose batches are made at a time.
_AT_ONCE: Final = 2


class LocalRecordLog:
    """Takes records of all topics, in threads of its own that are named after it."""

    def __init__(self, log: LogDirectory, partitions: int, name: str) -> None:
        self._log = log
        self._partitions = partitions
        self._threads = Threads(f"{name}-write", _AT_ONCE)

    async def append(self, records: Sequence[OutgoingRecord]) -> None:
        """Return once every record is durable.

        Raises:
            SinkBusy: They were not written in time, or the disk failed.
            LogFull: The disk has no room.
        """
        batches = await self._threads.run(batches_of, records, self._partitions)
        await _durable(self._log.append(batches))


def batches_of(records: Iterable[OutgoingRecord], partitions: int) -> list[tuple[Place, bytes]]:
    """One batch for each partition, its records in their order."""
    builders: dict[Place, tuple[DefaultRecordBatchBuilder, int]] = {}
    for topic, key, value, headers in records:
        partition = partition_of(key, partitions) if topic in SHARD_TOPICS else 0
        place = (str(topic), partition)
        builder, count = builders.get(place) or (_builder(), 0)
        encoded = [(name, each.encode() if isinstance(each, str) else each) for name, each in headers]
        builder.append(count, 0, key, value, encoded)
        builders[place] = builder, count + 1
    return [(place, bytes(builder.build())) for place, (builder, _) in builders.items()]


def _builder() -> DefaultRecordBatchBuilder:
    return DefaultRecordBatchBuilder(_MAGIC, _ZSTD, 0, _NO_PRODUCER, -1, -1, _ANY_SIZE)


async def _durable(futures: Iterable[Future[list[int]]]) -> None:
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            for future in futures:
                await asyncio.wrap_future(future)
    except TimeoutError:
        raise SinkBusy(f"the disk has not taken the records in {_TIMEOUT_S:g} s") from None
    except LogFullError as fault:
        raise LogFull(str(fault)) from None
    except LogError as fault:
        raise SinkBusy(str(fault)) from None
