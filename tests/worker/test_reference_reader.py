"""Prices and controls: read whole before anything else, then followed; refusals are kept, not lost."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

import pytest
from confluent_kafka import Producer

from schemas.tables import DEAD_LETTER_REPLAYS, DEAD_LETTERS, PRICES
from streams.engine.settings import ShardSettings
from streams.engine.shard.dead_letters import REPLAY_HEADER
from streams.engine.shard.job_tables import dead_letter_table
from streams.transport.security import librdkafka_config
from streams.worker.reference.reference_reader import ReferenceChanges, ReferenceReader
from streams.worker.storing.dead_letters import message_of
from streams.worker.storing.unsharded_rows import reference_rows
from tests.logged import logged
from tests.memory_store import MemoryStore
from tests.worker.lab import Lab, folded, run, until


def price(sku: str, usd: str, time_ms: int = 1_700_000_000_000) -> bytes:
    event = {"sku": sku, "component": "gpu", "usd": usd, "per": "gpu_hour", "effective_ms": 0, "source": "s"}
    return json.dumps({**event, "id": f"{sku}{usd}{time_ms}", "time_ms": time_ms}).encode()


def read(
    lab: Lab, work: Callable[[ReferenceReader, list[ReferenceChanges]], Awaitable[None]]
) -> list[ReferenceChanges]:
    """Start a reader, do the work, stop it."""
    news: list[ReferenceChanges] = []
    faults: list[BaseException] = []

    async def go() -> None:
        reader = ReferenceReader(
            librdkafka_config(lab.kafka),
            lab.kafka.topic_prefix,
            ShardSettings(run_start_ms=2**50).newest_allowed_ms,
            news.append,
            faults.append,
        )
        await reader.start()
        try:
            await work(reader, news)
        finally:
            await reader.stop()

    asyncio.run(go())
    assert not faults
    return news


def test_what_was_there_at_the_start_is_read_before_start_returns(lab: Lab) -> None:
    lab.produce("prices", 0, [price(f"sku-{number}", "1") for number in range(2_500)])

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        assert len(news[-1].book) == 2_500
        assert reader.next["prices"] == 2_500

    read(lab, work)


def test_empty_topics_hold_nothing_back(lab: Lab) -> None:
    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        assert news == []

    read(lab, work)


def test_later_prices_are_followed_and_only_those_that_stand_are_revised(lab: Lab) -> None:
    lab.produce("prices", 0, [price("a", "1", 1_700_000_000_002), price("b", "1")])

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        lab.produce("prices", 0, [price("a", "9", 1_700_000_000_001), price("b", "2", 1_700_000_000_009)])
        await until(lambda: reader.next["prices"] == 4)

    news = read(lab, work)
    assert [(one.first, one.next) for one in news][-1][1] == 4
    revised = [(event.sku, event.usd_nano) for one in news for event in one.revised]
    assert ("b", 2 * 10**9) in revised
    assert ("a", 9 * 10**9) not in revised


def test_controls_and_their_deletion_are_followed(lab: Lab) -> None:
    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap_servers, "log_level": 0})
    value = {
        "kind": "owner",
        "name": "ann",
        "slack": "#a",
        "source": "s",
        "id": "1",
        "time_ms": 1_700_000_000_000,
    }
    producer.produce(f"{lab.kafka.topic_prefix}controls", key=b"owner/ann", value=json.dumps(value).encode())
    assert producer.flush(10) == 0

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        assert news[-1].controls[b"owner/ann"].name == "ann"
        producer.produce(f"{lab.kafka.topic_prefix}controls", key=b"owner/ann", value=None)
        assert producer.flush(10) == 0
        await until(lambda: reader.next["controls"] == 2)

    assert read(lab, work)[-1].controls == {}


def test_prices_and_refusals_reach_the_store(lab: Lab) -> None:
    lab.produce("prices", 0, [price("a", "1"), b"no price", price("a", "-1")])
    lab.produce("gpu", 0, [b"1"])
    store = MemoryStore()
    meter = lab.meter(store)

    async def work() -> None:
        await until(lambda: folded(meter, "gpu", 0) == 1)
        lab.produce("prices", 0, [price("a", "3", 1_700_000_000_001)])
        await until(lambda: meter.reader.next.get("prices") == 4)

    run(meter, work)
    (row,) = store.select(PRICES).to_pylist()
    assert (row["sku"], str(row["usd"]), row["version"]) == ("a", "3.000000000", 4)
    letters = [(row["topic"], row["offset"], row["reason"]) for row in store.select(DEAD_LETTERS).to_pylist()]
    assert letters == [("prices", 1, "malformed_json"), ("prices", 2, "out_of_range")]
    assert meter.reader.books.balanced


def test_a_flood_of_refused_prices_is_one_insert_a_read_and_a_sample(lab: Lab) -> None:
    lab.produce("prices", 0, [b"no price"] * 2_345)
    lab.produce("controls", 0, [b"no control"])

    async def go() -> list[ReferenceChanges]:
        news: list[ReferenceChanges] = []
        config, prefix = librdkafka_config(lab.kafka), lab.kafka.topic_prefix
        allowed = ShardSettings(run_start_ms=2**50).newest_allowed_ms
        reader = ReferenceReader(config, prefix, allowed, news.append, _raise, letters_per_minute=10)
        await reader.start()
        await reader.stop()
        assert reader.books.dead_lettered == reader.books.records_in == 2_346
        return news

    (news,) = asyncio.run(go())
    extras = list(reference_rows(news))
    # Log time may pass into another minute while they are appended.
    assert [(extra.table, extra.rows["topic"][0].as_py()) for extra in extras] == [
        (DEAD_LETTERS, "prices"),
        (DEAD_LETTERS, "controls"),
    ]
    assert 10 + 23 <= extras[0].rows.num_rows <= 2 * (10 + 23) + 1
    tokens = [extra.token for extra in extras]
    assert tokens == [extra.token for extra in reference_rows(news)]
    assert len(set(tokens)) == 2


def test_a_price_that_came_back_is_noted_where_it_came_from(lab: Lab) -> None:
    lab.produce("prices", 0, [b"no price"])
    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap_servers, "log_level": 0})
    headers: dict[str, str | bytes | None] = {REPLAY_HEADER: b"prices/0/0"}
    producer.produce(f"{lab.kafka.topic_prefix}prices", key=b"k", value=price("a", "1"), headers=headers)
    assert producer.flush(10) == 0

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        assert reader.books.applied == 1

    (extra,) = (e for e in reference_rows(read(lab, work)[-1]) if e.table == DEAD_LETTER_REPLAYS)
    (row,) = extra.rows.to_pylist()
    assert (row["topic"], row["offset"], row["to_offset"], row["version"]) == ("prices", 0, 1, 2)


MISSPELT = b'{"kind":"owner","name":"ada","slak":"https://hooks.example.com/s3cr3t"}'


def test_refused_controls_are_in_no_letter_and_in_no_line_of_the_log(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    wrapped = b'{"specversion":"1.0","id":"1","source":"https://s3cr3t","data":' + MISSPELT + b"}"
    lab.produce("controls", 0, [MISSPELT, MISSPELT[:-1], b"[" + MISSPELT + b"]", wrapped])
    lab.produce("prices", 0, [MISSPELT])

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        assert reader.books.dead_lettered == 5

    letters = [letter for one in read(lab, work) for letter in one.refused]
    assert len(letters) == 5
    for letter in letters:
        assert json.loads(letter.raw)["withheld"] is True
        assert b"s3cr3t" not in letter.raw + letter.detail.encode()
    rows = dead_letter_table(letters, 1).to_pylist()
    sent = b"".join(b"".join(message_of(row, 0)) for row in rows)
    assert b"slak" in sent
    assert b"s3cr3t" not in sent
    assert "prices or controls refused" in caplog.text
    assert "s3cr3t" not in logged(caplog)


def test_a_control_under_a_key_without_end_is_refused(lab: Lab) -> None:
    owner = {"kind": "owner", "name": "ann", "source": "s", "id": "1", "time_ms": 1_700_000_000_000}
    producer = Producer({"bootstrap.servers": lab.kafka.bootstrap_servers, "log_level": 0})
    for size in (512, 513, 100_000):
        producer.produce(
            f"{lab.kafka.topic_prefix}controls", key=b"k" * size, value=json.dumps(owner).encode()
        )
    assert producer.flush(10) == 0

    async def work(reader: ReferenceReader, news: list[ReferenceChanges]) -> None:
        assert [len(key) for key in news[-1].controls] == [512]

    (first, second) = (letter for one in read(lab, work) for letter in one.refused)
    assert (first.reason, first.detail) == ("too_long", "key: got 513 bytes, expected at most 512")
    assert second.detail == "key: got 100000 bytes, expected at most 512"


def _raise(fault: BaseException) -> None:
    raise fault
