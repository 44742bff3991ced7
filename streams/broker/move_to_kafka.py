"""Moves a log on disk to Kafka, from where an earlier run stopped: `trainfare publish DIR`.

What an interrupted run sent again counts once.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from aiokafka.record.default_records import DefaultRecordBatch

from sinks.private_files import read_private, write_private
from streams.errors import TrainfareError, WrongUseError
from streams.segmented_log.directory import DIRECTORY, EVENTS, REFERENCE
from streams.segmented_log.reader import read_log, size_from
from streams.topics import Topic
from streams.transport.producer import LogProducer

FILE_NAME: Final = "published.json"
_FILE_MAX_BYTES: Final = 2**16
#: Records between two waits for Kafka's acknowledgements, after which a run would begin anew.
_FLUSH_EVERY: Final = 50_000
_TOPICS: Final = frozenset(Topic)


class _Published(msgspec.Struct):
    """By cluster: the position in each of the two logs up to which Kafka has everything."""

    clusters: dict[str, dict[str, int]] = {}


class MoveToKafka:
    """Moves one log to one cluster.

    Args:
        data: The data directory of `trainfare serve`.
        cluster: What the log is moved to.

    Raises:
        WrongUseError: There is no log.
        TrainfareError: The file of positions cannot be read.
    """

    def __init__(self, data: Path, cluster: str) -> None:
        self._log = data / DIRECTORY
        self._path = self._log / FILE_NAME
        if not all((self._log / name).is_dir() for name in (EVENTS, REFERENCE)):
            raise WrongUseError(
                f"{data}: no log of `trainfare serve`; name its data directory, or a file of events"
            )
        stored = read_private(self._path, _FILE_MAX_BYTES)
        try:
            self._published = _Published() if stored is None else msgspec.json.decode(stored, type=_Published)
        except msgspec.MsgspecError as fault:
            raise TrainfareError(
                f"{self._path} cannot be read ({fault}); remove it: everything is sent again, and counts once"
            ) from None
        self._positions = self._published.clusters.setdefault(cluster, {})

    @property
    def left_bytes(self) -> int:
        """The bytes of the log that were not moved yet."""
        return sum(size_from(self._log / name, self._positions.get(name, 0)) for name in (REFERENCE, EVENTS))

    def run(self, producer: LogProducer, advance: Callable[[int], None]) -> int:
        """Send what is left; return how many records; `advance` gets the bytes of the log.

        Raises:
            LogError: The log cannot be read.
            TrainfareError: Kafka does not take a record.
        """
        sent = 0
        for name in (REFERENCE, EVENTS):
            since_flush, position = 0, self._positions.get(name, 0)
            for batch in read_log(self._log / name, position):
                advance(max(batch.position - position, 0))
                position = batch.position
                if batch.place[0] not in _TOPICS:
                    continue  # dead letters: the new meter refuses them anew
                for record in DefaultRecordBatch(batch.data):
                    producer.send(Topic(batch.place[0]), record.key, record.value, list(record.headers))
                    since_flush, sent = since_flush + 1, sent + 1
                if since_flush >= _FLUSH_EVERY:
                    self._moved(producer, name, position)
                    since_flush = 0
            self._moved(producer, name, position)
        return sent

    def _moved(self, producer: LogProducer, name: str, position: int) -> None:
        producer.flush()
        self._positions[name] = position
        write_private(self._path, msgspec.json.encode(self._published))
