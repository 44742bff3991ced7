"""Builds rows that belong to no shard: prices, and records that were refused before they reached one.

Each names its content by a token, so that storing it twice changes nothing; it must not do I/O.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas.tables import DEAD_LETTER_REPLAYS, DEAD_LETTERS, PRICES
from streams.engine.pricing.rows import price_table
from streams.engine.shard.dead_letters import RecordPosition, replay_table
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table
from streams.topics import REFERENCE_TOPICS
from streams.worker.ingest.reference_reader import ReferenceChanges


@dataclass(frozen=True)
class UnshardedRows:
    """Rows of no shard."""

    table: str
    rows: pa.Table
    token: str


def reference_rows(news: ReferenceChanges) -> Iterator[UnshardedRows]:
    """What a read of prices and controls brought, for the tables."""
    if news.revised:
        # The token names the interval of the log, and with it the content: workers may read in other pieces.
        yield UnshardedRows(PRICES, price_table(news.revised, news.next), f"prices:{news.first}:{news.next}")
    for topic in REFERENCE_TOPICS:
        letters = [letter for letter in news.refused if letter.topic == topic]
        if letters:
            yield refused_rows(letters, "refused")
    if news.replays:
        places = [
            RecordPosition(each.place.topic, each.to_partition, each.to_offset) for each in news.replays
        ]
        yield UnshardedRows(DEAD_LETTER_REPLAYS, replay_table(news.replays), _token("replays", places))


def refused_rows(letters: Sequence[DeadLetter], source: str) -> UnshardedRows:
    """Dead letters of one source (lines of files), or of one topic that every worker reads."""
    places = [RecordPosition(*letter[:3]) for letter in letters]
    return UnshardedRows(DEAD_LETTERS, dead_letter_table(letters, 1), _token(source, places))


def _token(source: str, places: Sequence[RecordPosition]) -> str:
    """Names the rows: which they are says what is in them, as each is a function of the log."""
    named = ",".join(map(str, places))
    return f"{source}:{hashlib.blake2b(named.encode(), digest_size=16).hexdigest()}"
