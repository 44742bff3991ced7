"""Sends the events of a soak at the pace of the clock, second by second.

It must not make events, nor leave out a second: what a broker that is away held up is made up for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import count

from loadtest.soak_load import Event, Load
from streams.cli.producer import LogProducer
from streams.config import KafkaSettings


class Feed(threading.Thread):
    """Sends every second's events when it is over; seconds that a broker was away for are made up for."""

    def __init__(self, kafka: KafkaSettings, load: Load, begin_s: int) -> None:
        super().__init__(name="feed", daemon=True)
        self._kafka, self._load, self._begin_s = kafka, load, begin_s
        self._ending = threading.Event()
        self.sent = 0
        self.fault: Exception | None = None

    def run(self) -> None:
        """Until `end`; then everything ends and is acknowledged."""
        try:
            with LogProducer(self._kafka) as producer:
                self._send(producer, self._load.opening())
                for now_s in count(self._begin_s + 1):
                    self._ending.wait(max(now_s - time.time(), 0))
                    if self._ending.is_set():
                        self._send(producer, self._load.closing(now_s - 1))
                        return
                    self._send(producer, self._load.second(now_s))
        except Exception as fault:  # noqa: BLE001 - told by whoever waits for the thread
            self.fault = fault

    def end(self) -> None:
        """Return when all is acknowledged."""
        self._ending.set()
        self.join()
        if self.fault is not None:
            raise self.fault

    def _send(self, producer: LogProducer, events: Iterator[Event]) -> None:
        for event in events:
            producer.send(event.topic, event.key, event.value)
            self.sent += 1
