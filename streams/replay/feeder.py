"""Produces a log's records into the embedded broker, never further ahead of the meter than the broker retains."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from streams.engine.shard.sequencer import TICK_MS
from streams.errors import TrainfareError
from streams.replay.broker import RETAINED_BYTES
from streams.replay.lines import Sendable
from streams.topics import RECORD_MAX_BYTES, full_name

Place = tuple[str, int]  # topic without prefix, partition

#: How far a partition may be ahead of its shard: the broker drops whole batches, so stay well below its retention.
WINDOW_BYTES: Final = RETAINED_BYTES // 3
_RECORD_OVERHEAD_BYTES: Final = 100
_MARK_BYTES: Final = 32 * 1024
_PAUSE_S: Final = 0.002
_POLL_EVERY: Final = 500


class FeedStopped(Exception):  # noqa: N818 - not an error: the meter has ended before the log
    """The feeder was asked to stop."""


@dataclass
class _Window:
    """Records of a partition in flight: marks of (offset, bytes up to it), oldest first."""

    offset: int = 0
    sent_bytes: int = 0
    taken_bytes: int = 0
    marks: deque[tuple[int, int]] = field(default_factory=deque)

    def sent(self, size_bytes: int) -> None:
        self.offset += 1
        self.sent_bytes += size_bytes
        if not self.marks or self.sent_bytes - self.marks[-1][1] >= _MARK_BYTES:
            self.marks.append((self.offset, self.sent_bytes))

    def taken(self, offset: int) -> None:
        """Record that the meter has folded everything below `offset`."""
        if offset >= self.offset:
            self.taken_bytes = self.sent_bytes
            self.marks.clear()
        while self.marks and self.marks[0][0] <= offset:
            self.taken_bytes = self.marks.popleft()[1]


class LogFeeder:
    """Feeds a log; `skip` records of each partition are already in the shards and are not sent again."""

    def __init__(
        self,
        bootstrap_servers: str,
        topic_prefix: str,
        skip: Mapping[Place, int],
        positions: Callable[[Place], int],
        stop: threading.Event,
        on_mark: Callable[[int, Mapping[Place, int]], None] | None = None,
    ) -> None:
        self._prefix = topic_prefix
        self._skip = dict(skip)
        self._positions = positions
        self._stop = stop
        self._on_mark = on_mark
        self._marked_ms = -1
        self._windows: dict[Place, _Window] = {}
        self._refused: KafkaError | None = None
        # Place -> records of the log so far, skipped ones included.
        self.counts: dict[Place, int] = {}
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "log_level": 0,
                "enable.idempotence": True,  # preserves order when a request is retried
                "linger.ms": 50,  # batches of a few hundred records; `flush` does not wait for it
                "batch.size": 256 * 1024,
                "message.max.bytes": RECORD_MAX_BYTES + 64 * 1024,
                "queue.buffering.max.messages": 200_000,
                "delivery.report.only.error": True,
                "on_delivery": self._delivered,
            }
        )

    def feed(self, records: Iterable[Sendable]) -> None:
        """Send everything; return once the broker has acknowledged the last record.

        Raises:
            TrainfareError: The broker lost a record.
            FeedStopped: The feeder was asked to stop.
        """
        for number, record in enumerate(records):
            if record.log_ms // TICK_MS > self._marked_ms // TICK_MS:
                self._mark(record.log_ms)
            self._send(record)
            if number % _POLL_EVERY == 0:
                self._poll()
        while self._producer.flush(0.2):
            self._poll()
        self._poll()

    def _mark(self, log_ms: int) -> None:
        """Report that all records with an earlier log time were sent: ticks up to then may be judged once they are read."""
        self._marked_ms = log_ms
        if self._on_mark is not None:
            self._on_mark(log_ms - 1, self.counts)

    def _send(self, record: Sendable) -> None:
        place = (record.topic, record.partition)
        count = self.counts[place] = self.counts.get(place, 0) + 1
        if count <= self._skip.get(place, 0):
            return
        window = self._windows.get(place)
        if window is None:
            window = self._windows[place] = _Window()
        if window.sent_bytes - window.taken_bytes > WINDOW_BYTES:
            self._wait_for_room(place, window)
        while True:
            try:
                self._producer.produce(
                    full_name(record.topic, self._prefix),
                    value=record.value,
                    key=record.key or None,
                    partition=record.partition,
                    timestamp=record.log_ms,
                    headers=record.headers or None,
                )
            except BufferError:
                self._producer.poll(_PAUSE_S)
                self._poll()
            except KafkaException as fault:
                raise TrainfareError(
                    f"the embedded broker refused a record: {fault.args[0].str()}"
                ) from fault
            else:
                break
        window.sent(len(record.value or b"") + len(record.key) + _RECORD_OVERHEAD_BYTES)

    def _wait_for_room(self, place: Place, window: _Window) -> None:
        while True:
            window.taken(self._positions(place))
            if window.sent_bytes - window.taken_bytes <= WINDOW_BYTES:
                return
            self._producer.poll(_PAUSE_S)
            self._poll()

    def _poll(self) -> None:
        """Serve the producer's events; raise if asked to stop, or if a record was lost."""
        self._producer.poll(0)
        if self._refused is not None:
            raise TrainfareError(f"the embedded broker lost a record: {self._refused.str()}")
        if self._stop.is_set():
            self._producer.purge()
            raise FeedStopped

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None and not self._stop.is_set():
            self._refused = error
