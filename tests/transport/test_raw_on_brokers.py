"""Whole logs as two brokers hand them over, Apache Kafka and the embedded one: the same records as aiokafka gives."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.engine.raw_records import RawRecords
from streams.replay.broker import EmbeddedBroker
from streams.transport import large_responses, raw_fetch
from tests.kafka.broker import shared_broker
from tests.transport.batches import CODECS

#: offset, timestamp, value, headers
Row = tuple[int, int, bytes | None, tuple[tuple[str, bytes | None], ...]]
SMALL_FETCH_BYTES = 20_000


def produce(bootstrap: str, topic: str, codec: str, seed: int) -> None:
    """Batches of one and of thousands, with all that a record may have or lack."""
    chosen = random.Random(seed)
    producer = Producer(
        {"bootstrap.servers": bootstrap, "compression.type": codec, "linger.ms": 200, "batch.size": 2**18}
    )
    for size in (1, 1, 2_000, 1, 40):
        for i in range(size):
            headers: list[tuple[str, str | bytes | None]] = [("ce_id", b"%d" % i), ("none", None), ("", b"")]
            producer.produce(
                topic,
                chosen.choice((b"%d" % i * chosen.randrange(99), b"", None))
                if i % 5 == 0
                else b'{"i":%d}' % i,
                chosen.choice((None, b"", b"key")),
                timestamp=1_700_000_000_000 + chosen.randrange(10**6),
                headers=headers[: chosen.randrange(4)],
            )
        producer.flush(30)


def transact(bootstrap: str, topic: str) -> None:
    """Transactions in turn, every second one aborted."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "transactional.id": topic, "linger.ms": 1, "compression.type": "lz4"}
    )
    producer.init_transactions(30)
    for number in range(6):
        producer.begin_transaction()
        for i in range(number * 7 + 1):
            producer.produce(topic, b"%d of %d" % (i, number))
        producer.flush(30)
        if number % 2:
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)


async def read(
    bootstrap: str, topic: str, start: int, end: int, *, raw: bool, level: str, size: int
) -> list[Row]:
    """All rows from `start` to `end`; a fetch is `size` bytes at most, if a batch fits in it."""
    consumer = AIOKafkaConsumer(
        bootstrap_servers=bootstrap,
        enable_auto_commit=False,
        auto_offset_reset="none",
        isolation_level=level,
        max_partition_fetch_bytes=size,
        fetch_max_wait_ms=20,
    )
    if raw:
        consumer._value_deserializer = raw_fetch.AsRaw()
        large_responses.watch(consumer._client)
    await consumer.start()
    if raw:
        raw_fetch.watch(consumer._fetcher)
    rows: list[Row] = []
    try:
        place = TopicPartition(topic, 0)
        consumer.assign([place])
        consumer.seek(place, start)
        deadline_s = time.monotonic() + 60
        while await consumer.position(place) < end:
            assert time.monotonic() < deadline_s
            for given in (await consumer.getmany(place, timeout_ms=100)).values():
                assert all(isinstance(each, RawRecords) == raw for each in given)
                records = [record for each in given for record in (each if raw else [each])]
                to_brokers = [
                    each for (node, _), each in consumer._client._conns.items() if node != "bootstrap"
                ]
                assert to_brokers
                assert all(isinstance(each, large_responses.KafkaConnection) == raw for each in to_brokers)
                rows += [(each.offset, each.timestamp, each.value, tuple(each.headers)) for each in records]
    finally:
        await consumer.stop()
    return rows


def same(bootstrap: str, topic: str, starts: list[int], end: int, level: str) -> list[Row]:
    """Both ways of reading agree, from every start and with small fetches too; returns the rows of the first."""
    found = []
    for start in starts:
        for size in (2**20, SMALL_FETCH_BYTES):
            both = [
                asyncio.run(read(bootstrap, topic, start, end, raw=raw, level=level, size=size))
                for raw in (True, False)
            ]
            assert both[0] == both[1]
            found.append(both[0])
    assert all(rows == found[0][-len(rows) :] for rows in found)
    return found[0]


@pytest.fixture(scope="module")
def embedded() -> Iterator[str]:
    with EmbeddedBroker() as broker:
        for codec in CODECS:
            broker.create_topic(codec, 1)
        yield broker.bootstrap_servers


@pytest.mark.parametrize("codec", CODECS)
def test_the_embedded_broker(embedded: str, codec: str) -> None:
    produce(embedded, codec, codec, 1)
    rows = same(embedded, codec, [0, 1_001], 2_043, "read_committed")
    assert [row[0] for row in rows] == list(range(2_043))


@pytest.mark.kafka
@pytest.mark.parametrize("time_of", ["LogAppendTime", "CreateTime"])
def test_a_real_broker(time_of: str) -> None:
    bootstrap = shared_broker().bootstrap_servers
    topic = f"raw-{time_of}-{time.time_ns()}"
    client = AdminClient({"bootstrap.servers": bootstrap})
    # Retention goes by the records' own old times, and would take them while they are read.
    config = {"message.timestamp.type": time_of, "retention.ms": "-1"}
    created = client.create_topics([NewTopic(topic, 1, 1, config=config)])
    created[topic].result()
    for seed, codec in enumerate(CODECS):
        produce(bootstrap, topic, codec, seed)
    transact(bootstrap, topic)
    plain = 5 * 2_043
    end = plain + sum(number * 7 + 2 for number in range(6))  # each with its marker
    committed = same(bootstrap, topic, [0, 1_001, plain + 2], end, "read_committed")
    assert len(committed) == plain + 1 + 15 + 29
    uncommitted = same(bootstrap, topic, [plain], end, "read_uncommitted")
    assert len(uncommitted) == sum(number * 7 + 1 for number in range(6))
    times = {row[1] for row in committed if row[0] < plain}
    assert (max(times) > 1_700_001_000_000) == (time_of == "LogAppendTime")
