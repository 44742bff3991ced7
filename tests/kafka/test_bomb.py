"""A compression bomb on a real Kafka: a dead letter, and what is around it is metered as if it were not there."""

from __future__ import annotations

import asyncio
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from schemas.tables import DEAD_LETTERS, JOBS
from streams.clock import SystemClock
from streams.config.settings import KafkaSettings
from streams.engine.settings import ShardSettings
from streams.from_settings import engine
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from streams.worker.log_time import LogTime
from streams.worker.meter import Meter
from streams.worker.options import ShardManagerOptions
from tests.kafka.broker import shared_broker
from tests.memory_store import MemoryStore
from tests.worker.lab import until

pytestmark = pytest.mark.kafka

MIB = 2**20
BOMB_RECORDS = 200  # of a megabyte each


def event(number: int) -> bytes:
    now_ms = time.time_ns() // 1_000_000
    return (
        b'{"source": "t", "id": "%d", "time_ms": %d, "job_id": "a%d", "type": "started", "gpu_count": 1}'
        % (number, now_ms, number)
    )


def peak_bytes(*, reset: bool = False) -> int:
    """The most memory that this process held since the last reset."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) * 1024


def drop_bomb(bootstrap_servers: str, topic: str, codec: str) -> None:
    asyncio.run(send_bomb(bootstrap_servers, topic, codec))


async def send_bomb(bootstrap_servers: str, topic: str, codec: str) -> None:
    """Sends the records as one batch: a producer with a queue may send some of them before the rest."""
    producer = AIOKafkaProducer(
        bootstrap_servers=bootstrap_servers, compression_type=codec, max_batch_size=2 * BOMB_RECORDS * MIB
    )
    async with producer:
        batch = producer.create_batch()
        for _ in range(BOMB_RECORDS):
            assert batch.append(key=b"bomb", value=bytes(MIB - 100), timestamp=None) is not None
        batch.close()
        await (await producer.send_batch(batch, topic, partition=0))


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_a_bomb_is_a_dead_letter_and_what_is_around_it_is_metered(codec: str, tmp_path: Path) -> None:
    broker = shared_broker()
    prefix = f"bomb{time.time_ns()}."
    kafka = KafkaSettings(
        bootstrap_servers=broker.bootstrap_servers, topic_prefix=prefix, group_id=f"{prefix}g", partitions=1
    )
    create_topics(kafka, connect(kafka))
    honest = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    topic = full_name("jobs", prefix)
    honest.produce(topic, event(1), "a1")
    assert honest.flush(10) == 0
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as elsewhere:
        elsewhere.submit(drop_bomb, kafka.bootstrap_servers, topic, codec).result(60)
    honest.produce(topic, event(2), "a2")
    assert honest.flush(10) == 0

    store = MemoryStore()
    options = ShardManagerOptions(
        topic_prefix=prefix,
        as_of_ms=lambda: time.time_ns() // 1_000_000,
        now_ms=lambda: time.monotonic_ns() // 1_000_000,
        log_time=LogTime(SystemClock()),
        checkpoint_interval_ms=200,
    )
    shard = ShardSettings()
    meter = Meter(kafka, shard, options, store, engine(shard))
    before_bytes = peak_bytes(reset=True)

    def stored() -> set[str]:
        return {row["job_id"] for row in store.select(JOBS).to_pylist()}

    async def work() -> None:
        await until(lambda: stored() == {"a1", "a2"})

    asyncio.run(asyncio.wait_for(meter.run(work), 60))
    letters = store.select(DEAD_LETTERS).to_pylist()
    assert {row["reason"] for row in letters} == {"unread_batch"}
    assert letters[0]["offset"] == 1
    assert peak_bytes() - before_bytes < BOMB_RECORDS * MIB
