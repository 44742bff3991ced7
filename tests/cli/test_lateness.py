"""`trainfare publish` says before it sends which events the meter will refuse as `too_late`: those that the meter does refuse."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.counting import how_many
from streams.cli.lateness import Lateness, warning
from streams.config.settings import MeterSettings
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.keys import key_of
from streams.topics import Topic
from tests.cli.command import trainfare
from tests.kafka.broker import shared_broker

T0 = 1_780_308_000_000
HOUR = 3_600_000
DAY = 24 * HOUR
NOW = T0 + 365 * DAY


def job(time_ms: int, name: str = "a", **more: Any) -> dict[str, Any]:
    return {"source": "t", "id": f"{name}/{time_ms}", "time_ms": time_ms, "job_id": name, **more}


def started(time_ms: int, name: str = "a") -> dict[str, Any]:
    return job(time_ms, name, type="started", gpu_count=1)


def sample(time_ms: int, gpu: str = "g0") -> dict[str, Any]:
    return job(time_ms, node="n", interval_ms=10_000, gpus=[gpu], util_ratio=[0.5])


def judged(
    events: list[tuple[Topic, dict[str, Any]]], newest: dict[tuple[str, int], int] | None = None
) -> Lateness:
    lateness = Lateness(MeterSettings(), 1, newest or {}, NOW)
    for number, (topic, value) in enumerate(events, 1):
        raw = json.dumps(value).encode()
        lateness.add(f"f line {number}", topic, key_of(topic, raw), raw, ())
    return lateness


def metered_too_late(events: list[tuple[Topic, dict[str, Any]]]) -> int:
    """Return how many the engine itself refuses as too late."""
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    for topic, value in events:
        offset = shard.position.next.get(topic, 0)
        record = LogRecord(offset, NOW, json.dumps(value).encode())
        assert shard.fold(LogBatch(topic, 0, offset, offset + 1, [record])) is None
    return shard.books.too_late


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["job", "g0", "g1", "invalid", "future"]), st.integers(0, 12), st.integers(0, 40)
        ),
        max_size=12,
    )
)
def test_it_is_what_the_engine_refuses(drawn: list[tuple[str, int, int]]) -> None:
    events: list[tuple[Topic, dict[str, Any]]] = []
    for kind, quarters, minutes in drawn:
        time_ms = T0 + quarters * DAY // 4 + minutes * 60_000
        if kind == "job":
            events.append((Topic.JOBS, started(time_ms)))
        elif kind == "invalid":
            events.append((Topic.JOBS, job(time_ms + 100 * DAY, type="no such type")))
        elif kind == "future":
            events.append((Topic.JOBS, started(NOW + 301_000)))
        else:
            events.append((Topic.GPU, sample(time_ms, kind)))
    assert judged(events).count == metered_too_late(events)


def test_what_the_log_has_counts() -> None:
    old = [(Topic.JOBS, started(T0)), (Topic.JOBS, started(T0 + 3 * DAY))]
    assert judged(old).count == 0
    late = judged(old, {("jobs", 0): T0 + 3 * DAY})
    assert late.count == 1
    said = warning(late, 2)
    assert "1 of 2 events as too_late, the first at f line 1" in said
    assert "2026-06-01" in said
    assert "trainfare backfill" in said
    assert judged(old, {("gpu", 0): T0 + 30 * DAY}).count == 0


def test_nothing_is_said_where_nothing_is_late() -> None:
    assert warning(judged([(Topic.JOBS, started(T0))]), 1) == ""


@pytest.mark.kafka
def test_publish_says_it_with_file_and_line(tmp_path: Path) -> None:
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": shared_broker().bootstrap_servers,
        "TRAINFARE_KAFKA_TOPIC_PREFIX": f"t{uuid.uuid4().hex[:8]}.",
        "TRAINFARE_KAFKA_PARTITIONS": "3",
    }
    assert trainfare("topics", "create", env=env).code == 0

    def publish(name: str, *events: dict[str, Any]) -> str:
        file = tmp_path / name
        file.write_text("".join(json.dumps({"topic": "jobs", "value": each}) + "\n" for each in events))
        done = trainfare("publish", file, env=env)
        assert done.code == 0, done.err
        assert done.out.startswith(how_many(len(events), "event") + " acknowledged"), (
            "they are sent all the same"
        )
        return done.err

    assert publish("new.jsonl", started(T0)) == ""
    assert "1 record of jobs with the field gpu_typ" in publish(
        "typo.jsonl", {**started(T0), "gpu_typ": "H100"}
    )
    # Of other partitions nothing newer is known.
    said = publish("old.jsonl", started(T0 - HOUR), started(T0 - 2 * DAY), started(T0 - 3 * DAY))
    assert "old.jsonl line 2" in said
    assert "2 of 3 events as too_late" in said
    assert said.count("\n") == 1
    # The canary's events are in the log with a name that nobody else has.
    canary = {**started(T0 + 5 * DAY, "trainfare-canary.1")}
    publish("canary.jsonl", canary, {**canary, "job_id": "trainfare-canary.2"})
    said = publish("then.jsonl", *[started(T0, f"j{number}") for number in range(40)])
    assert "as too_late, the first at " in said
