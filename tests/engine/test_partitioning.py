"""A record that came in another partition than that of its key is a dead letter, whichever way it is decoded."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from schemas.tables import DEAD_LETTERS
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.partitioning import partition_of
from streams.engine.shard.shard import Shard
from streams.topics import Topic
from streams.transport import partitions
from tests.raw_records import raw as as_raw

T0 = 1_789_999_980_000
OF_FOUR = ShardSettings(partitions=4)
JOB: Mapping[str, Any] = {"source": "t", "time_ms": T0, "job_id": "j"}
EVENTS: dict[str, tuple[Topic, dict[str, Any], str]] = {
    "a job": (Topic.JOBS, {**JOB, "type": "started", "gpu_count": 1}, "j"),
    "traffic": (
        Topic.NETWORK,
        {
            **JOB,
            "interval_ms": 0,
            "bytes": 1,
            "path": "internet",
            "direction": "egress",
            "cloud": "aws",
            "region": "r",
        },
        "j",
    ),
    "a sample": (
        Topic.GPU,
        {**JOB, "node": "n", "interval_ms": 1000, "gpus": ["0"], "util_ratio": [0.5]},
        "j",
    ),
    "a sample that repeats a GPU": (
        Topic.GPU,
        {**JOB, "node": "n", "interval_ms": 1000, "gpus": ["0", "0"], "util_ratio": [0.5, 0.5]},
        "j",
    ),
    "a sample of idle GPUs": (
        Topic.GPU,
        {"source": "t", "time_ms": T0, "node": "n", "interval_ms": 1000, "gpus": ["0"], "util_ratio": [0.5]},
        "n",
    ),
    "a node": (
        Topic.NODES,
        {"source": "t", "time_ms": T0, "type": "ready", "node": "n", "gpu_count": 8},
        "n",
    ),
}


def fed(number: int, topic: Topic, event: Mapping[str, Any], settings: ShardSettings, *, raw: bool) -> Shard:
    shard = Shard(number, settings, PriceBook.empty())
    records = [
        LogRecord(at, T0, json.dumps({**event, "id": str(at), "time_ms": T0 - at}).encode())
        for at in range(3)
    ]
    batch = LogBatch(topic, number, 0, 3, as_raw(records) if raw else records)
    assert shard.fold(batch) is None
    return shard


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", EVENTS)
def test_only_the_partition_of_the_key_takes_a_record(name: str, *, raw: bool) -> None:
    topic, event, key = EVENTS[name]
    right = partition_of(key, 4)
    for number in range(4):
        shard = fed(number, topic, event, OF_FOUR, raw=raw)
        taken = shard.books.applied + shard.books.unattributed
        assert (taken, shard.books.dead_lettered) == ((3, 0) if number == right else (0, 3))
        if number == right:
            continue
        rows = shard.checkpoint(T0, 1, open_attempts=False).tables[DEAD_LETTERS].to_pylist()
        assert {row["reason"] for row in rows} == {"wrong_partition"}
        assert f"in partition {number}, expected in {right} of 4" in rows[0]["detail"]
        assert not shard.jobs
        assert not shard.nodes


@pytest.mark.parametrize("raw", [False, True])
@pytest.mark.parametrize("name", EVENTS)
def test_a_log_that_is_fed_by_a_file_has_partitions_of_its_own(name: str, *, raw: bool) -> None:
    topic, event, _ = EVENTS[name]
    for number in range(4):
        books = fed(number, topic, event, ShardSettings(), raw=raw).books
        assert books.applied + books.unattributed == 3


def test_what_is_late_or_new_in_a_wrong_partition_moves_no_horizon() -> None:
    topic, event, key = EVENTS["a job"]
    shard = fed((partition_of(key, 4) + 1) % 4, topic, event, OF_FOUR, raw=False)
    assert shard.position.newest_ms.get(topic, 0) <= 0


def test_a_job_that_is_here_already_goes_on() -> None:
    """Of a log that an earlier version took in: refused, its end would never come."""
    topic, event, key = EVENTS["a job"]
    number = (partition_of(key, 4) + 1) % 4
    shard = fed(number, topic, event, ShardSettings(), raw=False)
    shard.partition.partitions = 4
    end = {**JOB, "id": "end", "type": "completed", "time_ms": T0 + 1_000}
    batch = LogBatch(topic, number, 3, 4, [LogRecord(3, T0 + 1_000, json.dumps(end).encode())])
    assert shard.fold(batch) is None
    assert (shard.books.applied, shard.books.dead_lettered) == (4, 0)


def test_keys_are_placed_as_aiokafka_places_them() -> None:
    rng = random.Random(7)
    for _ in range(2_000):
        key = "".join(rng.choice("aZ09-_/é∞\U0001f600") for _ in range(rng.randrange(40)))
        count = int(np.random.default_rng(len(key)).integers(1, 200))
        assert partition_of(key, count) == partitions.partition_of(key.encode(), count)
