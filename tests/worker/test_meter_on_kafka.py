"""What only a real Kafka has: transactions, retention, and two members in one group."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition

from streams.errors import TrainfareError
from streams.transport.admin import connect
from streams.worker.shards.versions import Version
from tests.kafka.broker import shared_broker
from tests.memory_store import MemoryStore
from tests.worker.fakes import State
from tests.worker.lab import Lab, folded, make_lab, run, until

pytestmark = pytest.mark.kafka


@pytest.fixture
def real() -> Lab:
    return make_lab(shared_broker().bootstrap_servers, None)


def test_aborted_transactions_are_not_metered_and_leave_no_hole(real: Lab) -> None:
    name = f"{real.kafka.topic_prefix}gpu"
    config = {"bootstrap.servers": real.kafka.bootstrap_servers, "transactional.id": real.kafka.group_id}
    producer = Producer(config)
    producer.init_transactions(20)
    for round_number in range(6):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(name, value=b"1", partition=0)
        producer.flush(20)  # else an abort only forgets what was never sent
        if round_number % 2:
            producer.abort_transaction(20)
        else:
            producer.commit_transaction(20)
    real.produce("gpu", 0, [b"1"])
    store = MemoryStore()
    meter = real.meter(store)

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 6 * 21 + 1)  # each transaction ends with a marker

    run(meter, work)
    assert meter.shard_manager.fault is None
    assert msgspec.json.decode(store.snapshots.load(0).blobs[-1], type=State).sum == {"gpu": 61}


def test_records_that_retention_took_before_they_were_metered_stop_the_meter_in_words(real: Lab) -> None:
    real.produce("gpu", 0, [b"1"] * 100)
    store = MemoryStore()
    store.snapshots.save(0, Version(0, 1, 1).pack(), 0, msgspec.json.encode(State(next={"gpu": 10})))
    name = f"{real.kafka.topic_prefix}gpu"
    client = connect(real.kafka)
    for answer in client.delete_records([TopicPartition(name, 0, 50)]).values():
        answer.result()

    async def work() -> None:
        await asyncio.sleep(60)

    with pytest.raises(TrainfareError, match=r"the log no longer has what was to be read next .*gpu/0 at 10"):
        run(real.meter(store), work)
    assert msgspec.json.decode(store.snapshots.load(0).blobs[-1], type=State).next == {"gpu": 10}


def test_a_member_with_other_topics_or_another_assignor_cannot_split_a_shard_unnoticed(
    real: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker of another version that reads fewer topics joins: ours must not go on."""
    monkeypatch.setattr("streams.transport.meter_app.SHARD_TOPICS", ("jobs", "gpu"))
    meter = real.meter(MemoryStore())

    async def work() -> None:
        await asyncio.sleep(60)

    with pytest.raises(TrainfareError, match="was assigned to this worker without"):
        run(meter, work)
