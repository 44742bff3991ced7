"""Two worker processes share four shards on a real Kafka, one is killed, another joins: every sum is exact."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer

from streams.config.settings import KafkaSettings
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from tests.kafka.broker import shared_broker
from tests.worker.fakes import FileStore, State

PARTITIONS = 4
RATE_PER_S = 1_500
PATIENCE_S = 60.0
STOP_WITHIN_S = 6.0
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.kafka


@dataclass
class Feed(threading.Thread):
    """A paced producer that knows what it sent, until it is told to end."""

    kafka: KafkaSettings
    sums: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))
    counts: dict[int, int] = field(default_factory=lambda: dict.fromkeys(range(PARTITIONS), 0))

    def __post_init__(self) -> None:
        super().__init__(daemon=True)
        self._ending = threading.Event()

    def __hash__(self) -> int:
        return id(self)

    def run(self) -> None:
        producer = Producer(
            {"bootstrap.servers": self.kafka.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5}
        )
        name = full_name("gpu", self.kafka.topic_prefix)
        begin_s = time.monotonic()
        number = 0
        while not self._ending.is_set():
            while number < (time.monotonic() - begin_s) * RATE_PER_S:
                partition = number % PARTITIONS
                value = number * 7919 % 1000 + 1
                producer.produce(name, value=str(value).encode(), partition=partition)
                self.sums[partition] += value
                self.counts[partition] += 1
                number += 1
            producer.poll(0.005)
        assert producer.flush(20) == 0

    def end(self) -> None:
        """Send no more; returns when all is acknowledged."""
        self._ending.set()
        self.join()


@dataclass
class Workers:
    """Processes that are ended with the test."""

    kafka: KafkaSettings
    directory: Path
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self) -> subprocess.Popen[bytes]:
        log = (self.directory / f"worker-{len(self.running)}.log").open("wb")
        worker = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.kafka.worker",
                self.kafka.model_dump_json(),
                str(self.directory / "store"),
            ],
            cwd=ROOT,
            stdout=log,
            stderr=log,
        )
        self.running.append(worker)
        return worker

    def wait_begun(self, *numbers: int) -> None:
        """Return once each of these workers holds a shard."""
        deadline_s = time.monotonic() + PATIENCE_S
        logs = [self.directory / f"worker-{number}.log" for number in numbers]
        while not all("shard begins" in log.read_text() for log in logs):
            assert time.monotonic() < deadline_s, [log.read_text()[-1500:] for log in logs]
            time.sleep(0.05)


@contextlib.contextmanager
def workers(kafka: KafkaSettings, directory: Path) -> Iterator[Workers]:
    started = Workers(kafka, directory)
    try:
        yield started
    finally:
        for worker in started.running:
            worker.kill()
            worker.wait(10)


def test_sums_are_exact_after_a_kill_a_join_and_a_stop(tmp_path: Path) -> None:
    prefix = f"w{time.time_ns()}."
    kafka = KafkaSettings(
        bootstrap_servers=shared_broker().bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}group",
        partitions=PARTITIONS,
        session_timeout_ms=3_000,
        heartbeat_interval_ms=200,
        fetch_min_bytes=1,
    )
    create_topics(kafka, connect(kafka))
    store = FileStore(tmp_path / "store")
    feed = Feed(kafka)
    with workers(kafka, tmp_path) as group:
        first, second = group.start(), group.start()
        group.wait_begun(0, 1)
        feed.start()
        _wait_for(store, dict.fromkeys(range(PARTITIONS), 1))
        first.kill()
        third = group.start()
        group.wait_begun(2)
        second.send_signal(signal.SIGTERM)
        assert second.wait(STOP_WITHIN_S) == 0, (tmp_path / "worker-1.log").read_text()[-3000:]
        _wait_for(
            store, {number: count + 1 for number, count in feed.counts.items()}
        )  # the third has all of them
        feed.end()
        states = _wait_for(store, feed.counts)
        assert third.poll() is None
    assert {number: state.sum.get("gpu") for number, state in states.items()} == feed.sums
    assert {number: state.count.get("gpu") for number, state in states.items()} == feed.counts


def _wait_for(store: FileStore, counts: dict[int, int]) -> dict[int, State]:
    deadline_s = time.monotonic() + 25
    while True:
        states = {}
        for number in counts:
            blobs = store.load(number).blobs
            states[number] = msgspec.json.decode(blobs[-1], type=State) if blobs else State()
        done = all(states[number].next.get("gpu", 0) >= count for number, count in counts.items())
        if done or time.monotonic() > deadline_s:
            return states
        time.sleep(0.2)
