"""Sorts more events than fit into memory by time: sorted runs in temporary files, merged as they are read.

Events of one time keep the order in which they were added.
"""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from typing import IO, Final, Self

import msgspec
import zstandard

from streams.backfill.histories import Owner
from streams.topics import Topic

#: Events in memory before a run is written: about three times as much with Python's objects.
_RUN_BYTES: Final = 64 * 2**20
_EVENT_BYTES: Final = 200  # beside its value
_LENGTH_BYTES: Final = 4
_READ_BYTES: Final = 2**17
_LEVEL: Final = 1


class TimedEvent(msgspec.Struct, array_like=True, gc=False, frozen=True):
    """An event to be metered, of a job or of a node."""

    time_ms: int
    order: int  # in which it was added
    topic: Topic
    owner: Owner
    value: bytes
    headers: list[tuple[str, bytes]]


class EventSorter:
    """Add all events, then read them once or more. Use it as a context manager: it owns files."""

    def __init__(self, run_bytes: int = _RUN_BYTES) -> None:
        self._run_bytes = run_bytes
        self._fresh: list[TimedEvent] = []
        self._fresh_bytes = 0
        self._runs: list[IO[bytes]] = []
        self._files = ExitStack()
        self._encoder = msgspec.msgpack.Encoder()
        self.events = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(
        self, time_ms: int, topic: Topic, owner: Owner, value: bytes, headers: list[tuple[str, bytes]]
    ) -> None:
        """Add an event.

        Raises:
            OSError: The temporary directory is full.
        """
        self._fresh.append(TimedEvent(time_ms, self.events, topic, owner, value, headers))
        self.events += 1
        self._fresh_bytes += len(value) + _EVENT_BYTES
        if self._fresh_bytes >= self._run_bytes:
            self._write_run()

    def sorted(self) -> Iterator[TimedEvent]:
        """Yield all events by time."""
        self._fresh.sort(key=_place)
        return heapq.merge(*(_read_run(run) for run in self._runs), self._fresh, key=_place)

    def _write_run(self) -> None:
        self._fresh.sort(key=_place)
        run = tempfile.TemporaryFile(prefix="trainfare-backfill-")  # noqa: SIM115 - closed with the others
        self._files.callback(run.close)
        with zstandard.ZstdCompressor(_LEVEL).stream_writer(run, closefd=False) as writer:
            for event in self._fresh:
                data = self._encoder.encode(event)
                writer.write(len(data).to_bytes(_LENGTH_BYTES, "little") + data)
        self._runs.append(run)
        self._fresh, self._fresh_bytes = [], 0


def _place(event: TimedEvent) -> tuple[int, int]:
    return event.time_ms, event.order


def _read_run(run: IO[bytes]) -> Iterator[TimedEvent]:
    decoder = msgspec.msgpack.Decoder(TimedEvent)
    run.seek(0)
    with zstandard.ZstdDecompressor().stream_reader(run, read_size=_READ_BYTES, closefd=False) as reader:
        while head := _exactly(reader, _LENGTH_BYTES):
            yield decoder.decode(_exactly(reader, int.from_bytes(head, "little")))


def _exactly(reader: zstandard.ZstdDecompressionReader, size_bytes: int) -> bytes:
    """Return so many bytes, or none at the end; a read may return fewer than there are."""
    data = reader.read(size_bytes)
    while data and len(data) < size_bytes:
        data += reader.read(size_bytes - len(data))
    return data
