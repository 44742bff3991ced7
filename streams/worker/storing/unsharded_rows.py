"""Builds rows that belong to no shard: prices, controls, and records that were refused before they reached one.

A token names their content, so that storing them twice changes nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas.change_tables import CHANGES
from schemas.control_table import CONTROLS
from schemas.source_table import SOURCES
from schemas.tables import DEAD_LETTER_REPLAYS, DEAD_LETTERS, PRICES
from schemas.validate_sources import is_source
from streams.engine.pricing.rows import price_table
from streams.engine.shard.dead_letters import RecordPosition, replay_table
from streams.engine.shard.job_tables import DeadLetter, dead_letter_table
from streams.topics import REFERENCE_TOPICS
from streams.worker.reference.reference_reader import ReferenceChanges
from streams.worker.storing.change_rows import change_table, origin_of
from streams.worker.storing.control_rows import control_table
from streams.worker.storing.source_rows import source_table


@dataclass(frozen=True)
class UnshardedRows:
    """Rows that belong to no shard."""

    table: str
    rows: pa.Table
    token: str


def reference_rows(news: ReferenceChanges) -> Iterator[UnshardedRows]:
    """Yield the rows of one read of prices and controls."""
    if news.revised:
        # The token names the offsets that were read and thereby the content: workers may read in different pieces.
        yield UnshardedRows(PRICES, price_table(news.revised, news.next), f"prices:{news.first}:{news.next}")
    for table, build, of_sources in ((CONTROLS, control_table, False), (SOURCES, source_table, True)):
        placed = zip(news.control_offsets, news.control_log, strict=True)
        found = [(offset, each) for offset, each in placed if is_source(*each[1:]) is of_sources]
        if found:
            # As of prices: workers may read in different pieces, and the offsets name the content.
            offsets = [offset for offset, _ in found]
            rows = build([each for _, each in found], offsets)
            yield UnshardedRows(table, rows, f"{table}:{offsets[0]}:{offsets[-1]}")
    headers = news.control_headers or [()] * len(news.control_log)
    said = zip(news.control_offsets, news.control_log, headers, strict=True)
    if people := [each for each in said if not is_source(*each[1][1:])]:
        rows = change_table(
            [each for _, each, _ in people],
            [offset for offset, _, _ in people],
            [origin_of(of) for _, _, of in people],
        )
        yield UnshardedRows(CHANGES, rows, f"{CHANGES}:{people[0][0]}:{people[-1][0]}")
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
    """Build dead letters of one source (lines of files), or of one topic that every worker reads."""
    places = [RecordPosition(*letter[:3]) for letter in letters]
    return UnshardedRows(DEAD_LETTERS, dead_letter_table(letters, 1), _token(source, places))


def _token(source: str, places: Sequence[RecordPosition]) -> str:
    """Name the rows by their positions: each row is a function of the log."""
    named = ",".join(map(str, places))
    return f"{source}:{hashlib.blake2b(named.encode(), digest_size=16).hexdigest()}"
