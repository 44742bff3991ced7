"""One worker process to its end: a stop in order leaves nothing undone, and a log that is not what it was ends it in words."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import ConsumerGroupState, TopicPartition
from confluent_kafka.admin import AdminClient

from sinks.clickhouse import ClickHouseStore
from streams.config.settings import KafkaSettings
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from tests.chaos.fleet import Event, Fleet
from tests.chaos.log import Feed, Offsets
from tests.chaos.run import worker_env
from tests.chaos.workers import Worker, Workers
from tests.kafka.broker import shared_broker
from tests.store_process import StoreProcess

pytestmark = pytest.mark.kafka

PARTITIONS = 2
PATIENCE_S = 60.0
STOP_WITHIN_S = 10.0


@dataclass
class World:
    """A log, a store, and workers to come."""

    kafka: KafkaSettings
    admin: AdminClient
    front: StoreProcess
    workers: Workers

    def start(self, **env: str) -> Worker:
        worker = self.workers.start(**env)
        worker.wait_ready()
        return worker

    def feed(self, events: list[Event]) -> None:
        feed = Feed(self.kafka, events, 0)
        feed.start()
        feed.join()
        assert feed.fault is None

    def remake(self, topic: str) -> None:
        """Delete a topic of the log and make it anew, empty."""
        name = full_name(topic, self.kafka.topic_prefix)
        for answer in self.admin.delete_topics([name]).values():
            answer.result(10)
        until(lambda: name not in self.admin.list_topics(timeout=5).topics)
        create_topics(self.kafka, self.admin)


def until(holds: object) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not holds():  # type: ignore[operator]  # a callable
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    prefix = f"o{uuid.uuid4().hex[:8]}."
    kafka = KafkaSettings(
        bootstrap_servers=shared_broker().bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}g",
        partitions=PARTITIONS,
    )
    admin = connect(kafka)
    create_topics(kafka, admin)
    with StoreProcess(tmp_path / "store") as front:
        env = worker_env(kafka, front.url, 3_000)
        with Workers(tmp_path, env) as workers:
            yield World(kafka, admin, front, workers)


def metered(worker: Worker) -> int:
    """Records that came to a shard, whatever became of them."""
    url = worker.text().partition('"url": "')[2].partition('"')[0]
    with urlopen(f"{url}/metrics", timeout=5) as page:
        lines = page.read().decode().splitlines()
    return sum(int(float(line.split()[-1])) for line in lines if line.startswith("trainfare_records_total{"))


def test_a_stop_in_order_stores_commits_and_leaves(world: World) -> None:
    """Nothing is stored before the stop, so that all of it is the stop's work."""
    events = list(Fleet(seed=3, jobs=4, seconds=200).events())
    worker = world.start(TRAINFARE_METER_CHECKPOINT_INTERVAL_MS="60000")
    world.feed(events)
    offsets = Offsets(world.kafka)
    ends = offsets.ends()
    until(lambda: metered(worker) >= sum(ends.values()))
    assert sum(offsets.committed().values()) == 0
    worker.ask_to_stop()
    assert worker.process.wait(STOP_WITHIN_S) == 0
    assert offsets.committed() == ends
    offsets.close()
    store = ClickHouseStore(world.front.target())
    for number in range(PARTITIONS):
        shard = Shard.restore(number, ShardSettings(), PriceBook.empty(), store.snapshots.load(number).blobs)
        assert {(topic, number): offset for topic, offset in shard.position.next.items() if offset} == {
            place: end for place, end in ends.items() if place[1] == number and end
        }
    assert store.query("SELECT toUInt64(count()) AS n FROM job_costs")["n"].to_pylist() == [4]
    store.close()
    group = world.admin.describe_consumer_groups([world.kafka.group_id])[world.kafka.group_id].result(10)
    assert group.state is ConsumerGroupState.EMPTY
    assert group.members == []


def ended_in_words(worker: Worker, *words: str) -> str:
    """Exit 1 or 2, and a last line that a person can act on; no traceback."""
    code = worker.process.wait(PATIENCE_S)
    said = worker.text()
    assert code in (1, 2), said[-3000:]
    last = said.strip().splitlines()[-1]
    assert last.startswith("trainfare: "), said[-3000:]
    for each in words:
        assert each in last
    assert "Traceback" not in said
    return last


@pytest.mark.long
def test_records_that_retention_took_end_it_in_words(world: World) -> None:
    worker = world.start()
    events = list(Fleet(seed=3, jobs=2, seconds=100).events())
    world.feed(events)
    offsets = Offsets(world.kafka)
    until(lambda: offsets.behind() == 0)
    assert worker.terminate() == 0
    world.feed(events)
    name = full_name("gpu", world.kafka.topic_prefix)
    gone = [
        TopicPartition(name, number, end)
        for (topic, number), end in offsets.ends().items()
        if topic == "gpu" and end
    ]
    offsets.close()
    for answer in world.admin.delete_records(gone).values():
        answer.result(10)
    ended_in_words(world.workers.start(), "retention has overtaken the meter", name)


@pytest.mark.long
@pytest.mark.parametrize("records", ["fewer", "more"])
def test_a_topic_that_was_made_anew_ends_it_in_words(world: World, records: str) -> None:
    worker = world.start()
    events = list(Fleet(seed=3, jobs=2, seconds=100).events())
    world.feed(events)
    offsets = Offsets(world.kafka)
    until(lambda: offsets.behind() == 0)
    offsets.close()
    assert worker.terminate() == 0
    world.remake("gpu")
    world.feed(events[:20] if records == "fewer" else events * 2)
    ended_in_words(world.workers.start(), "made anew", full_name("gpu", world.kafka.topic_prefix))


@pytest.mark.long
def test_a_topic_that_is_deleted_under_a_running_worker_ends_it_in_words(world: World) -> None:
    worker = world.start()
    world.feed(list(Fleet(seed=3, jobs=2, seconds=100).events()))
    name = full_name("gpu", world.kafka.topic_prefix)
    for answer in world.admin.delete_topics([name]).values():
        answer.result(10)
    ended_in_words(worker, name)


@pytest.mark.long
def test_of_two_workers_of_one_name_the_first_ends_in_words_and_the_second_goes_on(world: World) -> None:
    name = {"TRAINFARE_KAFKA_GROUP_INSTANCE_ID": "worker-0"}
    first = world.start(**name)
    second = world.start(**name)
    ended_in_words(first, "kafka.group_instance_id=worker-0", "a name of its own")
    world.feed(list(Fleet(seed=3, jobs=2, seconds=100).events()))
    offsets = Offsets(world.kafka)
    until(lambda: offsets.behind() == 0)
    offsets.close()
    assert second.terminate() == 0


def test_a_task_beside_the_meter_that_dies_ends_it_in_order_and_in_words(world: World) -> None:
    events = list(Fleet(seed=3, jobs=2, seconds=60).events())
    world.feed(events)
    world.workers.module = ("tests.chaos.patched", "audit_dies")
    worker = world.workers.start()
    ended_in_words(worker, "the audit ended, so the worker stops: LookupError: no such row")
    assert worker.process.returncode == 1
    group = world.admin.describe_consumer_groups([world.kafka.group_id])[world.kafka.group_id].result(10)
    assert group.members == []  # it has left, so its shards move at once
