"""The worker as it runs in production, on a real Kafka: killed, restarted, stopped; its rows are those of a replay."""

from __future__ import annotations

import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from streams.config.live import WebSettings
from streams.config.settings import ClickHouseSettings, KafkaSettings, MeterSettings, Settings
from streams.replay.files import FileLine, read_lines
from streams.replay.lines import LineReader, Sendable
from streams.topics import full_name
from streams.transport.admin import connect, create_topics
from tests.forked import FORKER, ROOT, Forked, without_settings
from tests.kafka.broker import shared_broker
from tests.replay.logs import BEGIN_MS, write_log
from tests.replay.replay_process import replay, stored_rows

PARTITIONS = 3
MINUTES = 5
STOP_WITHIN_S = 8.0

pytestmark = pytest.mark.kafka


def settings_for(data: Path, **kafka: object) -> Settings:
    prefix = f"p{time.time_ns()}."
    given = {"topic_prefix": prefix, "group_id": f"{prefix}group", "partitions": PARTITIONS, **kafka}
    return Settings(
        kafka=KafkaSettings(session_timeout_ms=2_000, heartbeat_interval_ms=200, fetch_min_bytes=1, **given),  # type: ignore[arg-type]  # as given
        clickhouse=ClickHouseSettings(data_dir=data),
        web=WebSettings(enabled=False),
        meter=MeterSettings(as_of_ms=BEGIN_MS + MINUTES * 60_000, checkpoint_interval_ms=200),
    )


def start(settings: Settings, log: Path) -> Forked:
    words = (f"{__name__}:run", settings.model_dump_json())
    return FORKER.start(*words, env=without_settings(), cwd=ROOT, out=None, err=log)


def run(words: Sequence[str]) -> None:
    """In the worker's process; what goes wrong is said as the command would."""
    import logging

    from streams.app import run_worker
    from streams.errors import TrainfareError

    logging.basicConfig(level=logging.INFO)
    try:
        run_worker(Settings.model_validate_json(words[0]))
    except TrainfareError as fault:
        sys.exit(f"trainfare: {fault}")


def publish(kafka: KafkaSettings, lines: Iterable[FileLine]) -> dict[tuple[str, int], int]:
    """Send a log's records to their partitions; returns how many each has."""
    reader = LineReader("", kafka.partitions, 2**62)
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True})
    ends: dict[tuple[str, int], int] = {}
    for record in reader.records(lines):
        assert isinstance(record, Sendable)
        place = (full_name(record.topic, kafka.topic_prefix), record.partition)
        producer.produce(place[0], value=record.value, key=record.key, partition=place[1])
        producer.poll(0)
        ends[place] = ends.get(place, 0) + 1
    assert producer.flush(20) == 0
    return {place: end for place, end in ends.items() if not place[0].endswith("prices")}


def wait_for(output: Path, said: bytes, times: int) -> None:
    deadline_s = time.monotonic() + 60
    while output.read_bytes().count(said) < times:
        assert time.monotonic() < deadline_s, output.read_text()[-3000:]
        time.sleep(0.05)


def wait_for_commits(kafka: KafkaSettings, ends: Mapping[tuple[str, int], int]) -> None:
    consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": kafka.group_id})
    deadline_s = time.monotonic() + 60
    while True:
        found = consumer.committed([TopicPartition(*place) for place in ends], timeout=10)
        if all(place.offset >= ends[place.topic, place.partition] for place in found):
            break
        assert time.monotonic() < deadline_s, [
            (place.topic, place.partition, place.offset) for place in found
        ]
        time.sleep(0.2)
    consumer.close()


def test_a_worker_that_is_killed_and_restarted_stores_what_a_replay_stores(tmp_path: Path) -> None:
    """The second life reads a record at a time: nothing that is stored tells one way of reading from the other."""
    log = write_log(tmp_path / "log.jsonl", jobs=40, minutes=MINUTES, one_ends_of=1)
    settings = settings_for(tmp_path / "data", bootstrap_servers=shared_broker().bootstrap_servers)
    create_topics(settings.kafka, connect(settings.kafka))
    output = tmp_path / "worker.log"
    lines = list(read_lines([log]))
    ends = Counter(publish(settings.kafka, lines[: len(lines) // 2]))
    first = start(settings, output)
    wait_for(output, b"Worker ready", 1)
    wait_for_commits(settings.kafka, dict.fromkeys(ends, 1))
    first.kill()
    first.wait(10)
    plain = settings.kafka.model_copy(update={"raw_batches": False})
    second = start(settings.model_copy(update={"kafka": plain}), output)
    wait_for(output, b"Worker ready", 2)
    ends.update(publish(settings.kafka, lines[len(lines) // 2 :]))
    wait_for_commits(settings.kafka, ends)
    second.send_signal(signal.SIGTERM)
    assert second.wait(STOP_WITHIN_S) == 0, output.read_text()[-3000:]
    expected = replay([log], tmp_path / "replayed", partitions=2)["tables"]
    found = stored_rows(tmp_path / "data")
    for table in (
        "job_minutes",
        "job_hours",
        "job_usage_minutes",
        "unattributed_minutes",
        "jobs",
        "attempts",
        "prices",
        "dead_letters",
    ):
        assert found[table] == expected[table], table


def test_topics_that_are_not_as_they_must_be_are_named(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "data", bootstrap_servers=shared_broker().bootstrap_servers)
    output = tmp_path / "worker.log"
    worker = start(settings, output)
    assert worker.wait(40) == 1
    assert f"topic {settings.kafka.topic_prefix}jobs does not exist" in output.read_text()


def test_a_store_of_another_log_is_refused(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", jobs=1, minutes=1)
    replay([log], tmp_path / "data")
    settings = settings_for(tmp_path / "data", bootstrap_servers=shared_broker().bootstrap_servers)
    create_topics(settings.kafka, connect(settings.kafka))
    output = tmp_path / "worker.log"
    worker = start(settings, output)
    assert worker.wait(40) == 1
    assert "belongs to another meter" in output.read_text()
