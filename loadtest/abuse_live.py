"""How long events take to be readable, whoever else asks: new jobs are sent, and looked for in the store's own files.

Users' SQL is a few queries at a time, and what is measured here is the meter, not their queue.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

import orjson

from loadtest.latency_load import Probes
from loadtest.measure import now_ms
from sinks.errors import SinkError
from sinks.query.limits import QueryLimits
from sinks.query.process import QueryProcess
from sinks.query.wire import ServerAddress, StoreFiles
from sinks.target import Embedded, query_source
from streams.config.settings import KafkaSettings
from streams.transport.producer import LogProducer

PER_S: Final = 5.0
_POLL_S: Final = 0.2
_NICE: Final = 0
_READABLE: Final = """
SELECT job_id FROM jobs WHERE job_id IN {jobs:Array(String)}
AND job_id IN (SELECT job_id FROM job_usage_minutes WHERE job_id IN {jobs:Array(String)})
"""


class Store:
    """The rows of an embedded store that a worker has open, read by a process as those of users' SQL."""

    def __init__(self, data_dir: Path) -> None:
        self._source = query_source(Embedded(data_dir=data_dir))
        self._process = _started(self._source)

    def names(self, sql: str, jobs: Iterable[str]) -> list[str]:
        """The first column of an answer; raises SinkError."""
        # One process for good: a pool's would be replaced after some queries, and what is asked then waits for its start.
        if not self._process.reusable:
            self._process.close()
            self._process = _started(self._source)
        answer = self._process.ask(sql, {"jobs": list(jobs)}, "json")
        try:
            rows = orjson.loads(os.pread(answer.descriptor, answer.size_bytes, 0))["rows"]
        finally:
            os.close(answer.descriptor)
        return [str(row[0]) for row in rows]

    def close(self) -> None:
        """End the process."""
        self._process.close()


def _started(source: StoreFiles | ServerAddress) -> QueryProcess:
    """A process that is not behind all others as those of users are: its own waiting would be measured as the meter's."""
    process = QueryProcess(source, QueryLimits())
    process.wait_ready()
    with suppress(OSError):  # only root may, and only where Linux groups by session
        Path(f"/proc/{process.pid}/autogroup").write_text(str(_NICE), encoding="ascii")
    return process


class Probe(NamedTuple):
    """One job that was sent; None: its rows have not come yet."""

    at_s: float
    ms: float | None


class Live:
    """Sends some jobs a second on a schedule, and looks for their rows, from `start` to `end`."""

    def __init__(self, kafka: KafkaSettings, data_dir: Path) -> None:
        self._kafka = kafka
        self._data_dir = data_dir
        self._ending = threading.Event()
        #: Both go on; what is measured before is their own start.
        self._opened = threading.Barrier(3)
        # One that waits for an answer of the store must not keep the other from sending.
        self._threads = [
            threading.Thread(
                target=self._until_ended, args=(each,), name=f"live-{each.__name__}", daemon=True
            )
            for each in (self._send, self._look)
        ]
        self._sent_ms: dict[str, float] = {}
        self._found_ms: dict[str, float] = {}
        self.faults: list[str] = []

    def start(self) -> None:
        """Return when producer and store are open, or one of them could not be, which is in `faults`."""
        for thread in self._threads:
            thread.start()
        with suppress(threading.BrokenBarrierError):
            self._opened.wait()

    def _until_ended(self, work: Callable[[], None]) -> None:
        try:
            work()
        except Exception as fault:  # noqa: BLE001 - kept in `faults`, which the caller reports
            self.faults.append(f"{type(fault).__name__}: {fault}")
            self._opened.abort()

    def _send(self) -> None:
        probes = Probes()
        with LogProducer(self._kafka) as producer:
            self._opened.wait()
            began_s = time.monotonic()
            while not self._ending.wait(_POLL_S):
                while len(self._sent_ms) < (time.monotonic() - began_s) * PER_S:
                    name, at_ms = f"probe-{len(self._sent_ms)}", now_ms()
                    self._sent_ms[name] = at_ms
                    for each in probes.probe(name, int(at_ms)):
                        producer.send(each.topic, each.key, each.value)

    def _look(self) -> None:
        store = Store(self._data_dir)
        try:
            self._opened.wait()
            while not self._ending.wait(_POLL_S):
                waiting = [name for name in list(self._sent_ms) if name not in self._found_ms]
                if waiting:
                    self._find(store, waiting)
        finally:
            store.close()

    def _find(self, store: Store, waiting: list[str]) -> None:
        try:
            found = store.names(_READABLE, waiting)
        except SinkError as fault:
            self.faults.append(str(fault))
            return
        at_ms = now_ms()
        for name in found:
            self._found_ms[name] = at_ms - self._sent_ms[name]

    def end(self) -> None:
        """Send and look no more."""
        self._ending.set()
        for thread in self._threads:
            thread.join()

    def between(self, begin_s: float, end_s: float) -> list[Probe]:
        """The jobs that were sent in a phase."""
        return [
            Probe(ms / 1000, self._found_ms.get(name))
            for name, ms in self._sent_ms.items()
            if begin_s <= ms / 1000 < end_s
        ]
