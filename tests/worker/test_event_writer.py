"""Events written for others: acknowledged, each in the partition of its key; and a log that is away."""

from __future__ import annotations

import asyncio

import pytest

from sinks.errors import SinkBusy
from streams.keys import OutgoingRecord
from streams.topics import Topic
from streams.transport.event_writer import EventWriter
from streams.transport.security import librdkafka_config
from tests.memory_store import MemoryStore
from tests.worker.lab import Lab, folded, run, until


def record(number: int) -> OutgoingRecord:
    job = f"job-{number}"
    value = f'{{"source":"s","id":"e{number}","time_ms":1700000000000,"job_id":"{job}","type":"heartbeat"}}'
    return OutgoingRecord(Topic.JOBS, job.encode(), value.encode(), [("x", b"y")])


def test_a_batch_is_in_the_log_and_metered_each_record_where_its_key_belongs(lab: Lab) -> None:
    writer = EventWriter(librdkafka_config(lab.kafka), lab.kafka.topic_prefix)
    meter = lab.meter(MemoryStore())
    records = [record(number) for number in range(300)]

    async def work() -> None:
        await asyncio.gather(*(writer.append(records[first::3]) for first in range(3)))
        partitions = range(lab.kafka.partitions)
        await until(lambda: sum(folded(meter, "jobs", each) for each in partitions) == len(records))

    run(meter, work)


def test_a_log_that_is_away_is_said_in_time() -> None:
    writer = EventWriter({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "t.", timeout_s=0.3)

    async def go() -> None:
        with pytest.raises(SinkBusy, match=r"acknowledged in 0\.3 s|has not taken"):
            await asyncio.wait_for(writer.append([record(1)]), 20)

    asyncio.run(go())
