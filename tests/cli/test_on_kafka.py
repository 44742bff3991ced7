"""Topics, events and prices on a real broker: made, keyed and partitioned as the contract says."""

from __future__ import annotations

import json
import uuid
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from streams.transport.partitions import partition_of
from tests.cli.command import trainfare
from tests.kafka.broker import shared_broker

pytestmark = pytest.mark.kafka

PARTITIONS = 5


@pytest.fixture(scope="module")
def env() -> dict[str, str]:
    """Settings for topics of this module alone."""
    return {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": str(PARTITIONS),
    }


@pytest.fixture(scope="module")
def topics(env: dict[str, str]) -> dict[str, str]:
    done = trainfare("topics", "create", env=env)
    assert done.code == 0, done.err
    assert "created" in done.out
    return env


def records(env: dict[str, str], topic: str) -> list[Message]:
    """Return all records of a topic."""
    consumer = Consumer(
        {
            "bootstrap.servers": env["TRAINFARE_KAFKA_BOOTSTRAP_SERVERS"],
            "group.id": "t",
            "enable.auto.commit": False,
        }
    )
    name = env["TRAINFARE_KAFKA_TOPIC_PREFIX"] + topic
    found: list[Message] = []
    for number in consumer.list_topics(name, timeout=10).topics[name].partitions:
        place = TopicPartition(name, number, 0)
        end = consumer.get_watermark_offsets(place, timeout=10)[1]
        consumer.assign([place])
        before = len(found)
        while len(found) - before < end:
            message = consumer.poll(10)
            assert message is not None
            assert message.error() is None
            found.append(message)
    consumer.close()
    return found


def test_topics_again_change_nothing(topics: dict[str, str]) -> None:
    done = trainfare("topics", "create", env=topics)
    assert (done.code, done.err) == (0, "")
    assert "all topics exist" in done.out


def test_another_partition_count_is_refused(topics: dict[str, str]) -> None:
    done = trainfare("topics", "create", env={**topics, "TRAINFARE_KAFKA_PARTITIONS": "6"})
    assert done.code == 1
    assert "5 partitions" in done.one_line()


def test_publish_before_topics_says_what_to_do(env: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    file.write_text('{"topic": "jobs", "value": {"job_id": "a"}}\n')
    done = trainfare("publish", file, env={**env, "TRAINFARE_KAFKA_TOPIC_PREFIX": "none."})
    assert done.code == 1
    assert "trainfare topics create" in done.one_line()


def test_events_are_keyed_and_partitioned_as_java_does(topics: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "e.jsonl"
    jobs = [{"job_id": f"job-{number}", "id": str(number)} for number in range(200)]
    file.write_text(
        "".join(json.dumps({"topic": "jobs", "value": job, "headers": {"h": "v"}}) + "\n" for job in jobs)
    )
    done = trainfare("publish", file, env=topics)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("200 events acknowledged")
    found = records(topics, "jobs")
    assert sorted(str((message.key() or b"").decode()) for message in found) == sorted(
        job["job_id"] for job in jobs
    )
    assert len({message.partition() for message in found}) == PARTITIONS
    for message in found:
        key = message.key()
        assert isinstance(key, bytes)
        assert message.partition() == partition_of(key, PARTITIONS)
        assert message.headers() == [("h", b"v")]


def test_events_as_large_as_a_line_may_be_reach_the_meter_and_a_longer_line_stops_all(
    topics: dict[str, str], tmp_path: Path
) -> None:
    file, line = tmp_path / "e.jsonl", '{"topic": "network", "value": {"job_id": "a", "pad": ""}}'
    file.write_text(line.replace('""', '"' + "x" * (2**20 - len(line)) + '"') + "\n")
    done = trainfare("publish", file, env=topics)
    assert done.code == 0, done.err
    assert done.err.startswith("trainfare: 1 record of network with the field pad, ")
    (message,) = records(topics, "network")
    assert len(message.value() or b"") == 2**20 - len('{"topic": "network", "value": }')
    file.write_text(line + "\n" + line.replace('""', '"' + "x" * 2**20 + '"') + "\n")
    done = trainfare("publish", file, env=topics)
    assert done.code == 2
    assert "line 2: longer than 1048576 bytes" in done.one_line()
    assert len(records(topics, "network")) == 1


def test_prices_are_published_under_their_revision(topics: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("sku,component,usd,per,effective_ms\nh100,gpu,2.5,gpu_hour,1700000000000\n")
    done = trainfare("prices", "load", file, env=topics)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("1 price acknowledged")
    (message,) = records(topics, "prices")
    assert message.key() == b"h100@1700000000000"


def test_amortised_and_dated_prices_are_published(topics: dict[str, str], tmp_path: Path) -> None:
    known = len(records(topics, "prices"))
    file = tmp_path / "p.csv"
    file.write_text("SKU,GPU Type,USD,per,from\na100,A100,1.5,gpu_hour,\n")
    done = trainfare("prices", "load", file, env=topics)
    assert (done.code, done.err) == (0, "")
    words = ("--usd", "8760", "--gpus", "1", "--years", "1", "--sku", "own")
    done = trainfare("prices", "amortize", *words, "--publish", env=topics)
    assert done.code == 0, done.err
    first, second = records(topics, "prices")[known:]
    assert first.key() == b"a100@0"
    assert second.key() == b"own.hardware@0"
    assert json.loads(second.value() or b"")["usd"] == "1.00"
