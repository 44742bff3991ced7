"""Sends events on a schedule that waits for nobody: each second's events evenly over the second after it.

A broker that was away, or a meter that is slow, moves no due time, and what is late is sent at once and
counted.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Protocol

from loadtest.soak_load import Event
from streams.config.settings import KafkaSettings
from streams.transport.producer import LogProducer

#: Sent later than this after its due time, a slice counts as late.
LATE_S = 0.1


class Source(Protocol):
    """Events by the second; each method is called in order, `second` for every one."""

    def opening(self) -> Iterator[Event]:
        """Before the first second."""
        ...

    def second(self, now_s: int) -> Iterator[Event]:
        """What happened in the second that ends at `now_s`."""
        ...

    def closing(self, now_s: int) -> Iterator[Event]:
        """After the last second, `now_s`."""
        ...


class Drive(threading.Thread):
    """Runs until `end`; with one slice, everything of a second is sent at its end."""

    def __init__(self, kafka: KafkaSettings, source: Source, begin_s: int, slices: int = 50) -> None:
        super().__init__(name="drive", daemon=True)
        self._kafka, self._source, self._begin_s, self._slices = kafka, source, begin_s, slices
        self._ending = threading.Event()
        self.opened = threading.Event()
        self.sent = 0
        self.late_slices = 0
        self.latest_s = 0.0  # the longest that a slice was sent after its due time
        self.fault: Exception | None = None

    def run(self) -> None:
        """Send; a fault is kept for `end`."""
        try:
            with LogProducer(self._kafka) as producer:

                def send(events: Sequence[Event]) -> None:
                    for event in events:
                        producer.send(event.topic, event.key, event.value)
                        self.sent += 1

                send(list(self._source.opening()))
                self.opened.set()
                for now_s in count(self._begin_s + 1):
                    self._ending.wait(max(now_s - time.time(), 0))
                    if self._ending.is_set():
                        send(list(self._source.closing(now_s - 1)))
                        return
                    self._spread(list(self._source.second(now_s)), now_s, send)
        except Exception as fault:  # noqa: BLE001 - told by whoever waits for the thread
            self.fault = fault
            self.opened.set()

    def _spread(self, events: list[Event], now_s: int, send: Callable[[Sequence[Event]], None]) -> None:
        """A second that was begun is sent whole: its events are accounted for."""
        for due_s, part in schedule(events, now_s, self._slices):
            wait_s = due_s - time.time()
            if wait_s > 0:
                time.sleep(wait_s)
            elif -wait_s > LATE_S:
                self.late_slices += 1
            self.latest_s = max(self.latest_s, -wait_s)
            send(part)

    def end(self) -> None:
        """Return when all is acknowledged; raises what ended it early."""
        self._ending.set()
        self.join()
        if self.fault is not None:
            raise self.fault


def schedule(events: list[Event], now_s: int, slices: int) -> Iterator[tuple[float, Sequence[Event]]]:
    """When each part of a second's events is due, in order; every event is in one part."""
    for number in range(slices):
        begin, end = len(events) * number // slices, len(events) * (number + 1) // slices
        yield now_s + number / slices, events[begin:end]
