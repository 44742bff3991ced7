"""The proxy through which workers are misled: both clients pass, and each kind of answer comes to them changed."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from tests.kafka import wire
from tests.kafka.broker import KafkaBroker, shared_broker
from tests.kafka.proxy import KINDS, Momentary, Proxy

pytestmark = pytest.mark.kafka

RECORDS = 300
PARTITIONS = 3


@pytest.fixture
def broker() -> KafkaBroker:
    return shared_broker()


@pytest.fixture
def proxy(broker: KafkaBroker) -> Iterator[Proxy]:
    with Proxy(broker.port_behind_proxy, broker.proxy_socket) as running:
        yield running


@pytest.fixture
def topic(broker: KafkaBroker) -> str:
    name = f"p{time.time_ns()}.nodes"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for made in admin.create_topics([NewTopic(name, PARTITIONS, 1)]).values():
        made.result(10)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for number in range(RECORDS):
        producer.produce(name, b"x" * 100, partition=number % PARTITIONS)
    assert producer.flush(20) == 0
    return name


async def read_by_aiokafka(servers: str, topic: str) -> int:
    consumer = AIOKafkaConsumer(
        topic,
        bootstrap_servers=servers,
        group_id=f"{topic}.a",
        auto_offset_reset="earliest",
        session_timeout_ms=3_000,
        heartbeat_interval_ms=300,
    )
    await consumer.start()
    try:
        count = 0
        while count < RECORDS:
            count += sum(map(len, (await consumer.getmany(timeout_ms=500)).values()))
        await consumer.commit()
    finally:
        await consumer.stop()
    return count


def read_by_librdkafka(servers: str, topic: str) -> int:
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": f"{topic}.c", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    count = 0
    while count < RECORDS:
        count += sum(message.error() is None for message in consumer.consume(100, timeout=1))
    consumer.commit(asynchronous=False)
    consumer.close()
    return count


def test_both_clients_pass_and_what_is_read_is_written_back_the_same(
    broker: KafkaBroker, proxy: Proxy, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of every version of an answer that they ask for."""
    monkeypatch.setitem(KINDS, "the same", Momentary(dict.fromkeys(wire.ANSWERS, lambda _: None)))
    checked: set[tuple[int, int]] = set()
    change = Proxy._changed

    def same(self: Proxy, asked: Any, body: bytes, kinds: list[str]) -> bytes:
        changed = change(self, asked, body, kinds)
        assert changed == body, (asked, body, changed)
        checked.add((asked.key, asked.version))
        return changed

    monkeypatch.setattr(Proxy, "_changed", same)
    proxy.give("the same", 300)
    assert asyncio.run(read_by_aiokafka(broker.proxied_servers, topic)) == RECORDS
    assert read_by_librdkafka(broker.proxied_servers, topic) == RECORDS
    assert {key for key, _ in checked} >= wire.ANSWERS.keys() - {wire.LIST_OFFSETS}
    assert len(checked) > len({key for key, _ in checked})


def test_a_client_that_asks_through_it_stays_behind_it(broker: KafkaBroker, proxy: Proxy, topic: str) -> None:
    assert read_by_librdkafka(broker.proxied_servers, topic) == RECORDS
    assert any(key == wire.FETCH for key, _, _ in proxy.asked)


@pytest.mark.parametrize(
    ("kind", "partitions"),
    [
        ("a topic unknown", None),
        ("fewer partitions", 1),
        ("a topic left out", None),
        ("partitions without leader", 3),
    ],
)
def test_metadata_is_changed_for_a_moment(
    kind: str, partitions: int | None, broker: KafkaBroker, proxy: Proxy, topic: str
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.proxied_servers, "log_level": 0})
    proxy.give(kind, 60)
    found = admin.list_topics(timeout=10).topics.get(topic)
    assert (None if found is None or found.error else len(found.partitions)) == partitions
    proxy.give(kind, 0)
    assert len(admin.list_topics(timeout=10).topics[topic].partitions) == PARTITIONS
    assert proxy.given[kind] >= 1


@pytest.mark.parametrize(
    "kind",
    ["another coordinator", "no coordinator", "a group that loads", "another leader", "topic ids unknown"],
)
def test_a_client_of_its_own_gets_over_a_moment(
    kind: str, broker: KafkaBroker, proxy: Proxy, topic: str
) -> None:
    """librdkafka knows all of them."""
    proxy.give(kind, 60)
    ends = threading.Thread(target=_end_once_given, args=(proxy, kind))
    ends.start()
    assert read_by_librdkafka(broker.proxied_servers, topic) == RECORDS
    ends.join()
    assert proxy.given[kind] >= 1


def _end_once_given(proxy: Proxy, kind: str) -> None:
    """However slow the machine is, the moment lasts until somebody has had the answer."""
    while not proxy.given[kind]:
        time.sleep(0.05)
    proxy.give(kind, 0)
