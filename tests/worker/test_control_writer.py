"""Records of `controls` written by a worker: acknowledged, read back by all, and in the table; and a log that is away."""

from __future__ import annotations

import asyncio

import pytest

from schemas.control_table import CONTROLS
from sinks.errors import SinkBusy
from streams.transport.control_writer import ControlWriter
from streams.transport.security import librdkafka_config
from streams.web.control_record import control_record
from tests.memory_store import MemoryStore
from tests.worker.lab import Lab, run, until

ALERT = "al_8fe63f15d88e32e0d55fbafd"
NOW_MS = 1_700_000_000_000


def test_what_is_asked_for_is_in_the_log_and_then_in_the_table(lab: Lab) -> None:
    writer = ControlWriter(librdkafka_config(lab.kafka), f"{lab.kafka.topic_prefix}controls")
    ack = control_record({"kind": "ack", "alert_id": ALERT, "until_ms": NOW_MS + 1}, "web.token", NOW_MS)
    silence = control_record(
        {"kind": "silence", "job_id": "j", "until_ms": NOW_MS + 1, "comment": "c"}, "web.token", NOW_MS
    )
    store = MemoryStore()
    meter = lab.meter(store)

    async def work() -> None:
        for record in (ack, silence, ack):
            await writer.append(record.key, record.value)
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
    writer = ControlWriter({"bootstrap.servers": "127.0.0.1:9", "log_level": 0}, "t.controls", timeout_s=0.3)

    async def go() -> None:
        with pytest.raises(SinkBusy, match=r"topic t\.controls has not"):
            await asyncio.wait_for(writer.append(b"ack/a", b"{}"), 20)

    asyncio.run(go())
