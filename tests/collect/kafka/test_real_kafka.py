"""The relay between topics of a real broker: jobcomp's records in, events out, once."""

from __future__ import annotations

import uuid
from pathlib import Path

import orjson
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from streams.collect.kafka.check import check_sample
from tests.cli.command import trainfare
from tests.collect.kafka.world import MAPS, TOPIC, options
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka


def values(servers: str, topic: str) -> list[object]:
    """Return all records of a topic."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "t", "enable.auto.commit": False})
    found: list[object] = []
    for number in consumer.list_topics(topic, timeout=10).topics[topic].partitions:
        place = TopicPartition(topic, number, 0)
        end = consumer.get_watermark_offsets(place, timeout=10)[1]
        consumer.assign([place])
        for _ in range(end):
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(orjson.loads(message.value() or b""))
    consumer.close()
    return found


def test_records_become_events_once(tmp_path: Path) -> None:
    servers, own = shared_broker().bootstrap_servers, f"t{uuid.uuid4().hex[:8]}."
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": own,
        "TRAINFARE_KAFKA_PARTITIONS": "2",
    }
    assert trainfare("topics", "create", env=env).code == 0
    text = (MAPS / "jobcomp.toml").read_text().replace(f'"{TOPIC}"', f'"{own}{TOPIC}"')
    (tmp_path / "map.toml").write_text(text)
    command = ("collect", "kafka", "--config", "map.toml", "--once")

    away = trainfare(*command, env=env, cwd=tmp_path)
    assert away.code == 1
    assert f"topic {own}{TOPIC} does not exist at {servers}" in away.one_line()

    client = AdminClient({"bootstrap.servers": servers})
    client.create_topics([NewTopic(f"{own}{TOPIC}", 3, 1)])[f"{own}{TOPIC}"].result()
    lines = (MAPS / "jobcomp.sample.jsonl").read_bytes().splitlines()
    producer = Producer({"bootstrap.servers": servers})
    for number, line in enumerate(lines[:3]):
        for value in (b"no JSON", line, None):
            producer.produce(f"{own}{TOPIC}", value, b"k", partition=number % 3)
    assert not producer.flush(30)

    wanted = [dict(value) for _, value in check_sample(options("jobcomp"), MAPS / "jobcomp.sample.jsonl")]
    first = trainfare(*command, env=env, cwd=tmp_path)
    assert (first.code, first.out) == (0, f"9 events acknowledged by {servers}\n"), first.err
    again = trainfare(*command, env=env, cwd=tmp_path)
    assert (again.code, again.out) == (0, f"0 events acknowledged by {servers}\n"), again.err

    for line in lines[3:]:
        producer.produce(f"{own}{TOPIC}", line, partition=0)
    assert not producer.flush(30)
    later = trainfare(*command, env=env, cwd=tmp_path)
    assert (later.code, later.out) == (0, f"6 events acknowledged by {servers}\n"), later.err

    key = orjson.dumps
    assert sorted(map(key, values(servers, f"{own}jobs"))) == sorted(map(key, wanted))
