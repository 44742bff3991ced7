"""Mutated and random records through a shard: nothing stops it, each record is counted, each refusal says why."""

from __future__ import annotations

import random

import pytest

from schemas.decode import decode
from schemas.events import MATCH_FIELDS, PriceEvent
from schemas.reasons import Reason
from schemas.tables import DEAD_LETTERS
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.pricing.kinds import kind_of_price
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.topics import SHARD_TOPICS
from tests.schemas.records import FULL, NOW_MS
from tests.schemas.test_fuzz import RECORDS_PER_TOPIC, random_headers, random_record

BATCH = 500


@pytest.mark.parametrize("topic", sorted(SHARD_TOPICS))
def test_a_shard_survives_whatever_the_log_holds(topic: str) -> None:
    rng = random.Random(f"shard fuzz of {topic}")
    shard = Shard(0, ShardSettings(), PriceBook.empty())
    letters = rows = 0
    as_of_ms = NOW_MS + 3_600_000
    for begin in range(0, RECORDS_PER_TOPIC, BATCH):
        offsets = range(begin, begin + BATCH)
        records = [LogRecord(o, NOW_MS, _record(rng, topic, o), _headers(rng)) for o in offsets]
        shard.adopt({})
        assert shard.fold(LogBatch(topic, 0, begin, begin + BATCH, records)) is None
        point = shard.checkpoint(as_of_ms, begin + 1, open_attempts=True)
        rows += point.rows
        for row in point.tables[DEAD_LETTERS].to_pylist() if DEAD_LETTERS in point.tables else []:
            letters += 1
            assert row["reason"] in set(Reason)
            assert row["detail"]
            assert begin <= row["offset"] < begin + BATCH
    books = shard.books
    assert books.balanced
    assert books.records_in == RECORDS_PER_TOPIC
    assert letters == books.dead_lettered + books.too_late
    assert books.applied > RECORDS_PER_TOPIC // 20
    assert rows > letters


def test_prices_of_any_kind_make_a_book_that_answers() -> None:
    rng = random.Random("fuzz of a price book")
    events = [
        decode("prices", random_record(rng, "prices"), _headers(rng), NOW_MS + 300_000)
        for _ in range(RECORDS_PER_TOPIC)
    ]
    prices = [event for event in events if isinstance(event, PriceEvent)]
    book = PriceBook.empty().with_events(prices)
    assert len(book) > 10
    for event in book.events:
        context = tuple(event.match.get(field) for field in MATCH_FIELDS)
        kind = kind_of_price(event.per, event.gpus)
        found = book.price_at(context, event.component, kind, event.effective_ms)
        assert found is not None
        assert found.component == event.component


def _record(rng: random.Random, topic: str, number: int) -> bytes:
    """Most records with an identity of their own, or nearly all would be duplicates of the first."""
    own = f'"{FULL[topic]["id"]}-{number}"'.encode()
    return random_record(rng, topic).replace(f'"{FULL[topic]["id"]}"'.encode(), own)


def _headers(rng: random.Random) -> list[tuple[str, bytes]]:
    return [(name, value or b"") for name, value in random_headers(rng)]
