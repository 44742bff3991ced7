"""Events written for others: acknowledged, each in the partition of its key; and a log that is away."""

from __future__ import annotations

import asyncio

import pytest

from schemas.control_table import CONTROLS
from sinks.errors import SinkBusy
from streams.keys import OutgoingRecord
from streams.topics import Topic
from streams.transport.record_writer import RecordWriter
from streams.transport.security import librdkafka_config
from streams.web.control_record import control_record
from tests.memory_store import MemoryStore
from tests.worker.lab import Lab, folded, run, until

ALERT = "al_8fe63f15d88e32e0d55fbafd"
NOW_MS = 1_700_000_000_000


def record(number: int) -> OutgoingRecord:
    job = f"job-{number}"
    value = f'{{"source":"s","id":"e{number}","time_ms":1700000000000,"job_id":"{job}","type":"heartbeat"}}'
    return OutgoingRecord(Topic.JOBS, job.encode(), value.encode(), [("x", b"y")])


def test_a_batch_is_in_the_log_and_metered_each_record_where_its_key_belongs(lab: Lab) -> None:
    writer = RecordWriter(librdkafka_config(lab.kafka), lab.kafka.topic_prefix, "events")
    meter = lab.meter(MemoryStore())
    records = [record(number) for number in range(300)]

    async def work() -> None:
        await asyncio.gather(*(writer.append(records[first::3]) for first in range(3)))
        partitions = range(lab.kafka.partitions)
        await until(lambda: sum(folded(meter, "jobs", each) for each in partitions) == len(records))

    run(meter, work)


def test_a_control_is_in_the_log_and_then_in_the_table(lab: Lab) -> None:
    writer = RecordWriter(librdkafka_config(lab.kafka), lab.kafka.topic_prefix, "controls")
    ack = control_record({"kind": "ack", "alert_id": ALERT, "until_ms": NOW_MS + 1}, "web.token", NOW_MS)
    silence = control_record(
        {"kind": "silence", "job_id": "j", "until_ms": NOW_MS + 1, "comment": "c"}, "web.token", NOW_MS
    )
    store = MemoryStore()
    meter = lab.meter(store)

    async def work() -> None:
        for record in (ack, silence, ack):
            await writer.append([OutgoingRecord(Topic.CONTROLS, record.key, record.value, [])])
        await until(lambda: meter.reader.next.get("controls") == 3)
        await until(lambda: store.select(CONTROLS).num_rows == 3)

    run(meter, work)
    rows = store.select(CONTROLS).to_pylist()
    assert sorted((row["offset"], row["kind"], row["by"]) for row in rows) == [
        (0, "ack", "web.token"),
        (1, "silence", "web.token"),
        (2, "ack", "web.token"),
    ]
    assert {row["alert_id"] for row in rows} == {ALERT, ""}


def test_a_log_that_is_away_is_said_in_time() -> None:
    writer = RecordWriter({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "t.", "events", timeout_s=0.3)

    async def go() -> None:
        with pytest.raises(SinkBusy, match=r"acknowledged in 0\.3 s|has not taken"):
            await asyncio.wait_for(writer.append([record(1)]), 20)

    asyncio.run(go())
