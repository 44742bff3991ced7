"""What one fetch hands over: one message, or one per shard if it is much, whatever the number of topics."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from faust.transport.drivers import aiokafka as driver

from streams.engine.batch import LogBatch, LogRecord
from streams.transport import messages
from streams.transport.consumer import ConsumerThread
from streams.transport.faust_types import TP
from streams.transport.fetch_wait import OtherPartitionsError

TOPICS = ("t.jobs", "t.gpu", "t.network")


def fetch(fetched: dict[TP, list[LogRecord]], monkeypatch: pytest.MonkeyPatch) -> dict[TP, list[Any]]:
    """What the thread makes of an answer, of partitions that were read up to 5 and now stand at 9."""

    async def answer(*_: object) -> dict[TP, list[LogRecord]]:
        return fetched

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "_fetch_records", answer)
    thread = object.__new__(ConsumerThread)
    thread.fetch_options = SimpleNamespace(base={TP("t.gpu", 1): 100}, topic_prefix="t.")  # type: ignore[assignment]  # two of its fields
    thread._fetched_to = {TP(topic, number): 5 for topic in TOPICS for number in (0, 1)}
    assignment = SimpleNamespace(state_value=lambda _: SimpleNamespace(position=9))
    client = SimpleNamespace(
        _subscription=SimpleNamespace(subscription=SimpleNamespace(assignment=assignment))
    )
    return asyncio.run(thread._fetch_records(client, set(fetched)))


def test_all_topics_of_a_shard_come_as_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "LITTLE_RECORDS", 4)
    record = LogRecord(7, 1_000, b"{}")
    found = fetch(
        {TP(topic, number): [record] for topic in TOPICS for number in (0, 1)} | {TP("t.jobs", 1): []},
        monkeypatch,
    )
    assert found == {
        TP("t.jobs", 0): [[LogBatch(topic.removeprefix("t."), 0, 5, 9, [record]) for topic in TOPICS]],
        TP("t.gpu", 1): [
            [
                LogBatch("gpu", 1, 105, 109, [LogRecord(107, 1_000, b"{}")]),
                LogBatch("network", 1, 5, 9, [record]),
            ]
        ],
    }


def test_little_of_many_shards_comes_as_one_message(monkeypatch: pytest.MonkeyPatch) -> None:
    record = LogRecord(7, 1_000, b"{}")
    found = fetch({TP(topic, number): [record] for number in (0, 1) for topic in TOPICS[:2]}, monkeypatch)
    assert found == {
        TP("t.jobs", 0): [
            [
                LogBatch("jobs", 0, 5, 9, [record]),
                LogBatch("gpu", 0, 5, 9, [record]),
                LogBatch("jobs", 1, 5, 9, [record]),
                LogBatch("gpu", 1, 105, 109, [LogRecord(107, 1_000, b"{}")]),
            ]
        ]
    }


@pytest.mark.parametrize("bound", ["LITTLE_RECORDS", "LITTLE_BYTES"])
def test_much_comes_shard_by_shard(bound: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, bound, 3)
    record = LogRecord(7, 1_000, b"{}")
    tps = [TP(topic, number) for number in (0, 1) for topic in TOPICS[:2]]
    found = fetch({tp: [record] for tp in tps}, monkeypatch)
    assert [(tp, [[each.topic for each in some] for some in items]) for tp, items in found.items()] == [
        (TP("t.jobs", 0), [["jobs", "gpu"]]),
        (TP("t.jobs", 1), [["jobs", "gpu"]]),
    ]


def test_what_was_not_sought_since_it_was_assigned_is_not_handed_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fetch({TP("t.storage", 0): [LogRecord(7, 1_000, b"{}")]}, monkeypatch) == {}


def test_a_wait_that_other_partitions_ended_brought_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def ended(*_: object) -> None:
        raise OtherPartitionsError

    monkeypatch.setattr(driver.AIOKafkaConsumerThread, "_fetch_records", ended)
    assert asyncio.run(object.__new__(ConsumerThread)._fetch_records(None, set())) == {}
