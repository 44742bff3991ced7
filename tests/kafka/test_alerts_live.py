"""A runaway job on a real Kafka pages its owner once, whatever happens to the worker in the middle of it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer

from streams.config.settings import KafkaSettings
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from tests.forked import ROOT
from tests.kafka.broker import shared_broker

MINUTE_MS = 60_000
PATIENCE_S = 90.0
SECRET = "whsec_" + base64.b64encode(bytes(range(32))).decode()

pytestmark = pytest.mark.kafka


class Inbox:
    """A receiver in a thread of its own, and what it was told."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self.receiver = WebhookReceiver(SECRET, self.received.append)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.receiver.start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.receiver.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)

    def told(self, kind: str) -> list[tuple[str, str]]:
        return [(each.data["rule"], each.data["owner"]) for each in self.received if each.type == kind]


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as inbox:
        yield inbox


def worker(kafka: KafkaSettings, data: Path, inbox: Inbox) -> subprocess.Popen[bytes]:
    given = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "TRAINFARE_KAFKA_GROUP_ID": kafka.group_id,
        "TRAINFARE_KAFKA_PARTITIONS": str(kafka.partitions),
        "TRAINFARE_KAFKA_SESSION_TIMEOUT_MS": "2000",
        "TRAINFARE_KAFKA_HEARTBEAT_INTERVAL_MS": "200",
        "TRAINFARE_ALERTS_WEBHOOK_SECRET": SECRET,
        "TRAINFARE_ALERTS_ALLOW_HOSTS": inbox.receiver.host_port,
        "TRAINFARE_WEB_ENABLED": "false",
    }
    return subprocess.Popen(
        [sys.executable, "-m", "streams.cli.main", "worker", "--data", str(data)],
        cwd=ROOT,
        stdout=subprocess.DEVNULL,
        stderr=(data.parent / "worker.log").open("ab"),
        env={**os.environ, **given},
    )


class Publisher:
    """Events with their time given as minutes from a begin in the past."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self._kafka = kafka
        self._producer = Producer(
            {"bootstrap.servers": kafka.bootstrap_servers, "partitioner": "murmur2_random"}
        )
        self._count = 0
        self.begin_ms = time.time_ns() // 1_000_000 - 30 * MINUTE_MS

    def send(self, topic: str, key: str, minute: float, event: Mapping[str, object]) -> None:
        self._count += 1
        time_ms = self.begin_ms + round(minute * MINUTE_MS)
        value = {"source": "test", "id": str(self._count), "time_ms": time_ms, **event}
        self._producer.produce(full_name(topic, self._kafka.topic_prefix), json.dumps(value).encode(), key)
        assert self._producer.flush(10) == 0


def until(ready: object, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not ready():  # type: ignore[operator]  # a callable
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.05)


@pytest.mark.timeout(280)
def test_a_restart_in_the_middle_of_an_episode_neither_repeats_nor_loses_a_message(
    tmp_path: Path, inbox: Inbox
) -> None:
    broker = shared_broker()
    prefix = f"live{time.time_ns()}."
    kafka = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers, topic_prefix=prefix, group_id=f"{prefix}g", partitions=2
    )
    create_topics(kafka, connect(kafka))
    events = Publisher(kafka)
    price = {"sku": "h100", "component": "gpu", "usd": "2.50", "per": "gpu_hour", "effective_ms": 0}
    events.send("prices", "h100@0", 0, price)
    events.send("controls", "owner/ada", 0, {"kind": "owner", "name": "ada", "webhook": inbox.receiver.url})
    events.send("jobs", "run", 0, {"job_id": "run", "type": "started", "gpu_count": 8, "owner": "ada"})
    events.send("jobs", "run", 22, {"job_id": "run", "type": "scaled", "gpu_count": 80})
    data, log = tmp_path / "data", tmp_path / "worker.log"

    process = worker(kafka, data, inbox)
    until(lambda: inbox.told("alert.firing"), process, log)
    assert inbox.told("alert.firing") == [("burn_fast", "ada")]
    process.send_signal(signal.SIGKILL)
    process.wait(10)

    # Another life, and a third: the episode goes on, and nobody is told again.
    process = worker(kafka, data, inbox)
    until(lambda: "shard 1 begins" in log.read_text().split("stopping")[-1], process, log)
    time.sleep(12)  # more than a tick: a second message would have come by now
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, log.read_text()
    assert inbox.told("alert.firing") == [("burn_fast", "ada")]

    # What ends while nobody runs is told by the next life.
    events.send("jobs", "run", 30, {"job_id": "run", "type": "completed"})
    process = worker(kafka, data, inbox)
    until(lambda: inbox.told("alert.resolved"), process, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, log.read_text()
    assert inbox.told("alert.resolved") == [("burn_fast", "ada")]
    assert len(inbox.received) == 2
    # The kill may come before the ledger knows of the delivery; then it comes again under the id that it had.
    assert inbox.receiver.repeated <= 1
