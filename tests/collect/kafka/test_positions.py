"""Where a topic is read from, and what is said when that cannot be."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from streams.clock import ManualClock
from streams.collect.collector import EventBatch, SourceUnavailableError
from streams.collect.kafka.collector import KafkaRelay, open_collector
from streams.collect.kafka.options import Options
from streams.collect.kafka.topics import KafkaTopics
from streams.collect.metrics import CollectorMetrics
from streams.collect.runner import CollectorRunner
from streams.config.settings import KafkaSettings
from streams.errors import TrainfareError, WrongUseError
from tests.cli.command import NOBODY
from tests.collect.kafka.world import MemoryTopics, of_rule
from tests.collect.world import Log

FIELDS = {"job_id": "id", "time_ms": "at", "type": "what"}


def record(name: str) -> bytes:
    return json.dumps({"id": name, "at": 1_780_308_000_000, "what": "started"}).encode()


def rules(**others: Any) -> Options:
    return of_rule({"fields": FIELDS}, **others)


def polled(log: MemoryTopics, position: Any = None, **others: Any) -> list[EventBatch]:
    return list(KafkaRelay(rules(**others), log).poll(position, 0))


def jobs(batches: list[EventBatch]) -> list[str]:
    return [event.value["job_id"] for batch in batches for event in batch.events]


@pytest.fixture
def log() -> MemoryTopics:
    found = MemoryTopics()
    found.append("t", 0, record("a"), record("b"))
    found.append("t", 1, record("c"))
    found.append("other", 0, record("no"))
    return found


def test_from_the_beginning_to_the_ends(log: MemoryTopics) -> None:
    batches = polled(log)
    assert jobs(batches) == ["a", "b", "c"]
    assert batches[-1].position == {"next": {"t": {"0": 2, "1": 1}}}
    assert jobs(polled(log, batches[-1].position)) == []


def test_the_position_never_runs_ahead_of_the_events(log: MemoryTopics) -> None:
    for batch in KafkaRelay(rules(), log, events_per_batch=1).poll(None, 0):
        done = sum(batch.position["next"]["t"].values())
        assert jobs(polled(log, batch.position)) == ["a", "b", "c"][done:]


def test_from_the_end_and_then_on(log: MemoryTopics) -> None:
    first = polled(log, initial_offset="latest")
    assert jobs(first) == []
    log.append("t", 1, record("d"))
    log.append("t", 2, record("e"))  # a partition that was added is read from its beginning
    assert jobs(polled(log, first[-1].position, initial_offset="latest")) == ["d", "e"]


def test_what_the_topic_no_longer_has_is_said(log: MemoryTopics) -> None:
    log.begins["t", 0] = 1
    batches = polled(log, {"next": {"t": {"0": 0, "1": 1}}})
    assert jobs(batches) == ["b"]
    assert batches[0].account.said == [
        "offsets 0 to 0 of t, partition 0, are gone: the topic keeps too little"
    ]
    assert batches[0].account.reasons == {"gone": 1}


def test_a_topic_that_was_made_anew_is_not_read_from_the_wrong_place(log: MemoryTopics) -> None:
    with pytest.raises(
        SourceUnavailableError, match=r"ends at offset 2, and 9 was to be read next; .* --state"
    ):
        polled(log, {"next": {"t": {"0": 9}}})


@pytest.mark.parametrize("position", [{}, {"next": []}, {"next": {"t": {"0": "x"}}}])
def test_a_position_of_another_form_is_refused(log: MemoryTopics, position: Any) -> None:
    with pytest.raises(TrainfareError, match="remove the file of --state"):
        polled(log, position)


def test_records_that_are_left_out_are_counted_by_reason_and_said_once() -> None:
    log = MemoryTopics()
    log.append("t", 0, *[b"{"] * 5, *[b'{"id": 1, "at": "x", "what": "started"}'] * 3, record("a"))
    registry = CollectorRegistry()
    counts = CollectorMetrics("kafka", registry)
    runner = CollectorRunner(
        KafkaRelay(rules(), log), Log(), None, ManualClock(), counts, jitter_ratio=lambda: 0.5
    )
    assert runner.run_once() == 1

    def of(reason: str) -> float | None:
        labels = {"collector": "kafka", "class": "not_understood", "reason": reason}
        return registry.get_sample_value("trainfare_collector_read_total", labels)

    assert (of("malformed_json"), of("wrong_type"), of("unreadable")) == (5, 3, None)
    skipped = polled(log)[0].account.said
    assert len(skipped) == 2, "one of each kind"
    assert skipped[0].startswith("t, partition 0, offset 0: expected JSON")


def test_a_kafka_that_is_away_is_named_each_time() -> None:
    topics = KafkaTopics(lambda: KafkaSettings(bootstrap_servers=NOBODY), answer_s=0.2)
    for _ in range(2):
        with pytest.raises(SourceUnavailableError, match=rf"^Kafka at {NOBODY}: .* \[kafka\.connection\]$"):
            topics.bounds(["t"])


def test_the_meter_s_own_topics_are_refused() -> None:
    own = of_rule({"fields": FIELDS, "topic": "trainfare.jobs"})
    with pytest.raises(WrongUseError, match=r"rule r: trainfare\.jobs is a topic of the meter's own"):
        open_collector(own, KafkaSettings)


def test_the_password_of_another_kafka_is_read_from_its_file(tmp_path: Path) -> None:
    connection: dict[str, Any] = {
        "bootstrap_servers": "kafka-9:9092",
        "security_protocol": "SASL_SSL",
        "sasl_mechanism": "PLAIN",
        "sasl_username": "relay",
        "sasl_password_file": tmp_path / "password",
    }
    options = rules(connection=connection)
    with pytest.raises(WrongUseError, match=r"\[kafka\.connection\] .*No such file"):
        open_collector(options, KafkaSettings)
    (tmp_path / "password").write_text("secret\n")
    assert options.connection is not None
    password = options.connection.settings().sasl_password
    assert password is not None
    assert password.get_secret_value() == "secret"
    assert "secret" not in repr(options)
