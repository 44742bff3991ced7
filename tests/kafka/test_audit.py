"""A worker on a real Kafka audits itself; the log is recounted; what retention took is said."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

import pytest
from confluent_kafka import Producer, TopicPartition

from streams.config.live import WebSettings
from streams.config.settings import ClickHouseSettings, KafkaSettings, Settings
from streams.keys import key_of
from streams.selfcheck.recount.committed import committed
from streams.topics import Topic, full_name
from streams.transport.admin import connect, create_topics
from streams.transport.partitions import partition_of
from streams.web import endpoint
from streams.worker.options import ShardManagerOptions
from tests.cli.command import ROOT, Done, trainfare
from tests.forked import FORKER, without_settings
from tests.kafka.broker import shared_broker

MINUTE_MS = 60_000
PARTITIONS = 2

pytestmark = pytest.mark.kafka


def run(words: Sequence[str]) -> None:
    """In the worker's process: audits and payments are a second apart."""
    from streams import app
    from streams.selfcheck.audit import live
    from tests.kafka.test_worker import run as run_worker

    live.EVERY_S = 1.0  # type: ignore[misc]  # else the test would wait half a minute
    vars(app)["ShardManagerOptions"] = partial(ShardManagerOptions, open_attempts_interval_ms=1_000)
    run_worker(words)


def settings_for(data: Path, bootstrap_servers: str) -> Settings:
    prefix = f"audit{time.time_ns()}."
    kafka = KafkaSettings(
        bootstrap_servers=bootstrap_servers,
        topic_prefix=prefix,
        group_id=f"{prefix}group",
        partitions=PARTITIONS,
        fetch_min_bytes=1,
    )
    return Settings(kafka=kafka, clickhouse=ClickHouseSettings(data_dir=data), web=WebSettings(port=0))


def publish(kafka: KafkaSettings, topic: Topic, events: list[dict[str, Any] | bytes]) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
    for event in events:
        value = event if isinstance(event, bytes) else json.dumps(event).encode()
        key = key_of(topic, value)
        partition = 0 if topic is Topic.PRICES else partition_of(key, kafka.partitions)
        producer.produce(
            full_name(topic, kafka.topic_prefix), value=value, key=key or b"k", partition=partition
        )
    assert producer.flush(20) == 0


def fleet(kafka: KafkaSettings, now_ms: int) -> int:
    """Jobs that began ten minutes ago; returns how many records of shards there are."""
    price = {"source": "s", "id": "p", "time_ms": now_ms, "sku": "h100", "component": "gpu", "usd": "2.5"}
    publish(kafka, Topic.PRICES, [{**price, "per": "gpu_hour", "effective_ms": 0}])
    jobs: list[dict[str, Any] | bytes] = []
    for number in range(20):
        job = {"source": "s", "job_id": f"job-{number}"}
        started = {**job, "id": "a", "type": "started", "time_ms": now_ms - 10 * MINUTE_MS, "gpu_count": 3}
        jobs += [started, started]
        if number % 4 == 0:
            jobs.append({**job, "id": "b", "type": "completed", "time_ms": now_ms - 3 * MINUTE_MS})
    publish(kafka, Topic.JOBS, [*jobs, b"{", b"[]"])
    return len(jobs) + 2


def verdict(data: Path, records: int) -> dict[str, Any]:
    """The first audit that knows of all records and has compared minutes of windows with the ledger's."""
    deadline_s = time.monotonic() + 60
    found: dict[str, Any] = {}
    while time.monotonic() < deadline_s:
        where = endpoint.read(data)
        if where is not None:
            try:
                with urlopen(f"{where.url}/api/v1/audit", timeout=10) as answer:
                    found = json.load(answer)
            except (HTTPError, URLError):
                found = {}
        said = {finding["check"]: finding["detail"] for finding in found.get("findings", ())}
        counted = sum(book["records_in"] for book in found.get("books", ()))
        # Of each of the 20 jobs the last 30 minutes.
        if counted == records and int(said.get("ledger_windows", "0").split()[0]) > 500:
            return found
        time.sleep(0.2)
    raise AssertionError(found)


def test_a_worker_audits_itself_and_its_log_is_recounted(tmp_path: Path) -> None:
    settings = settings_for(tmp_path / "data", shared_broker().bootstrap_servers)
    kafka = settings.kafka
    create_topics(kafka, connect(kafka))
    now_ms = time.time_ns() // 1_000_000
    records = fleet(kafka, now_ms)
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": kafka.topic_prefix,
        "TRAINFARE_KAFKA_PARTITIONS": str(PARTITIONS),
    }

    def audit(*words: object) -> Done:
        return trainfare("audit", "--data", tmp_path / "data", "--format", "json", *words, env=env)

    output = tmp_path / "worker.log"
    words = (f"{__name__}:run", settings.model_dump_json())
    worker = FORKER.start(*words, env=without_settings(), cwd=ROOT, out=output, err=output)
    try:
        found = verdict(tmp_path / "data", records)
        assert found["ok"], found
        assert {finding["check"] for finding in found["findings"]} == {
            "books",
            "intake",
            "dead_letters",
            "ledger_windows",
            "ledger_costs",
            "node_balance",
            "parts",
            "one_writer",
            "snapshots",
        }
        ends = {("jobs", number): 0 for number in range(PARTITIONS)}
        assert sum(committed(kafka, ends).values()) == records
        through = audit()  # of the directory that the worker has open
        assert through.code == 0, through
        shown = json.loads(through.out)
        assert shown["ok"]
        assert shown["worker"]["ok"]
        where = endpoint.read(tmp_path / "data")
        assert where is not None
        assert "asks for its token" in trainfare("audit", "--url", where.url).one_line()
        token = (tmp_path / "data" / "token").read_text().strip()
        asked = trainfare("audit", "--url", where.url, env={"TRAINFARE_WEB_TOKEN": token})
        assert asked.code == 0, asked
        assert "\nWorker, " in asked.out
        assert asked.out.endswith("\nbalanced\n")
    finally:
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(30) == 0
    assert audit().code == 0
    span = ("--recount", now_ms - 20 * MINUTE_MS, now_ms - MINUTE_MS)
    again = audit(*span)
    assert again.code == 0, again
    counts = json.loads(again.out)
    assert counts["records_read"] == records
    assert counts["rows_agree"] >= 15 * 9 + 5 * 7  # what goes on, and what ended three minutes ago
    assert counts["unsettled"] == 0
    forget(kafka)
    lost = json.loads(audit(*span).out)
    assert lost["ok"]
    assert lost["cannot_tell"] > 0
    assert lost["rows_agree"] < counts["rows_agree"]


def forget(kafka: KafkaSettings) -> None:
    """What retention does to the oldest records, done at once."""
    name = full_name(Topic.JOBS, kafka.topic_prefix)
    client = connect(kafka)
    for future in client.delete_records(
        [TopicPartition(name, number, 5) for number in range(PARTITIONS)]
    ).values():
        future.result(20)
