"""What only a real Kafka has: transactions, retention, and two members in one group."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition

from streams.errors import TrainfareError
from streams.transport.admin import connect
from streams.worker.shards.versions import Version
from tests.kafka.broker import shared_broker
from tests.kafka.proxy import client_of, read_frame
from tests.memory_store import MemoryStore
from tests.worker.fakes import State
from tests.worker.lab import TIMEOUT_S, Lab, folded, make_lab, run, until

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


class Restarting:
    """A broker that closes so many connections of Faust's clients at their first request; behind it is the real one."""

    def __init__(self, closes: int) -> None:
        self.left = closes

    @contextlib.asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        """Listen; the address."""
        port = int(shared_broker().bootstrap_servers.rpartition(":")[2])

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(asyncio.IncompleteReadError, OSError):
                first = await read_frame(reader)
                if self.left > 0 and not client_of(first).startswith("rdkafka"):
                    self.left -= 1
                    return writer.close()
                from_broker, to_broker = await asyncio.open_connection("127.0.0.1", port)
                to_broker.write(len(first).to_bytes(4, "big") + first)
                await asyncio.gather(_pump(reader, to_broker), _pump(from_broker, writer))
            return writer.close()

        async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(2**16):
            writer.write(data)
            await writer.drain()
    writer.close()


async def _metered(real: Lab, closes: int, store: MemoryStore) -> None:
    """Run a meter on such a broker until it has folded a record."""
    async with Restarting(closes).listening() as address:
        meter = replace(real, kafka=real.kafka.model_copy(update={"bootstrap_servers": address})).meter(store)

        async def work() -> None:
            await until(lambda: folded(meter, "gpu", 0) == 1)

        await asyncio.wait_for(meter.run(work), TIMEOUT_S)


def test_a_broker_that_closes_first_connections_does_not_end_the_meter(real: Lab) -> None:
    real.produce("gpu", 0, [b"1"])
    store = MemoryStore()
    asyncio.run(_metered(real, 5, store))
    assert msgspec.json.decode(store.snapshots.load(0).blobs[-1], type=State).sum == {"gpu": 1}


def test_a_meter_that_waits_for_its_first_broker_can_be_stopped(real: Lab) -> None:
    async def go() -> None:
        waiting = asyncio.create_task(_metered(real, 1_000_000, MemoryStore()))
        await asyncio.sleep(2)
        assert not waiting.done()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(asyncio.wait_for(go(), TIMEOUT_S))
