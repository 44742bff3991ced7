"""A runaway job on a real Kafka pages its owner once, whatever happens to the worker in the middle of it."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Self

import pytest
from confluent_kafka import Producer

from streams.config.settings import KafkaSettings
from streams.engine.shard.partitioning import partition_of
from streams.notify.webhooks.receiver import Received, WebhookReceiver
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from tests.forked import FORKER, ROOT, Forked
from tests.kafka.broker import shared_broker

MINUTE_MS = 60_000
PATIENCE_S = 90.0
PARTITIONS = 2
RUN, OF_THE_SAME_SHARD = "run", "other"
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


def worker(kafka: KafkaSettings, data: Path, inbox: Inbox) -> Forked:
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
    return FORKER.start(
        "streams.cli.main:main",
        *("worker", "--data", str(data)),
        env={**os.environ, **given},
        cwd=ROOT,
        out=None,
        err=data.parent / "worker.log",
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
        self.send_value(topic, key, json.dumps(value).encode())

    def send_value(self, topic: str, key: str, value: bytes) -> None:
        self._producer.produce(full_name(topic, self._kafka.topic_prefix), value, key)
        assert self._producer.flush(10) == 0


def until(ready: object, process: Forked | subprocess.Popen[bytes], log: Path) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not ready():  # type: ignore[operator]  # a callable
        assert process.poll() is None, log.read_text()
        assert time.monotonic() < deadline_s, log.read_text()
        time.sleep(0.05)


def run_away(events: Publisher, job_id: str, owner: str) -> None:
    """Ten minutes ago, in event time, so that its page comes at the next tick of now."""
    job = {"job_id": job_id, "owner": owner}
    events.send("jobs", job_id, 0, {**job, "type": "started", "gpu_count": 8})
    events.send("jobs", job_id, 22, {"job_id": job_id, "type": "scaled", "gpu_count": 80})


@pytest.mark.timeout(280)
def test_a_restart_in_the_middle_of_an_episode_neither_repeats_nor_loses_a_message(
    tmp_path: Path, inbox: Inbox
) -> None:
    broker = shared_broker()
    prefix = f"live{time.time_ns()}."
    kafka = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}g",
        partitions=PARTITIONS,
    )
    create_topics(kafka, connect(kafka))
    events = Publisher(kafka)
    price = {"sku": "h100", "component": "gpu", "usd": "2.50", "per": "gpu_hour", "effective_ms": 0}
    events.send("prices", "h100@0", 0, price)
    for owner in ("ada", "bob"):
        events.send(
            "controls", f"owner/{owner}", 0, {"kind": "owner", "name": owner, "webhook": inbox.receiver.url}
        )
    run_away(events, RUN, "ada")
    data, log = tmp_path / "data", tmp_path / "worker.log"

    process = worker(kafka, data, inbox)
    until(lambda: inbox.told("alert.firing"), process, log)
    assert inbox.told("alert.firing") == [("burn_fast", "ada")]
    process.send_signal(signal.SIGKILL)
    process.wait(10)

    # Another life, and a third: the episode goes on, and nobody is told again. The tick that pages for another job of
    # the shard has judged this one too.
    process = worker(kafka, data, inbox)
    run_away(events, OF_THE_SAME_SHARD, "bob")
    until(lambda: ("burn_fast", "bob") in inbox.told("alert.firing"), process, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, log.read_text()
    assert inbox.told("alert.firing") == [("burn_fast", "ada"), ("burn_fast", "bob")]

    # What ends while nobody runs is told by the next life.
    events.send("jobs", RUN, 30, {"job_id": RUN, "type": "completed"})
    process = worker(kafka, data, inbox)
    until(lambda: inbox.told("alert.resolved"), process, log)
    process.send_signal(signal.SIGTERM)
    assert process.wait(30) == 0, log.read_text()
    assert inbox.told("alert.resolved") == [("burn_fast", "ada")]
    assert len(inbox.received) == 3
    # The kill may come before the ledger knows of the delivery; then it comes again under the id that it had.
    assert inbox.receiver.repeated <= 1


def test_the_other_job_is_of_the_same_shard() -> None:
    assert partition_of(RUN, PARTITIONS) == partition_of(OF_THE_SAME_SHARD, PARTITIONS)
