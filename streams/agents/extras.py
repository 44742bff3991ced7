"""Rows that belong to no shard: prices, and what was refused before it came to one.

Each names its content by a token, so that storing it twice changes nothing; it must not do I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from schemas.tables import DEAD_LETTERS, PRICES
from streams.agents.reference import News
from streams.pipeline.tables import DeadLetter, dead_letter_table
from streams.pricing.rows import price_table


@dataclass(frozen=True)
class Extra:
    """Rows of no shard."""

    table: str
    rows: pa.Table
    token: str


def reference_rows(news: News) -> Iterator[Extra]:
    """What a read of prices and controls brought, for the tables."""
    if news.revised:
        # The token names the interval of the log, and with it the content: workers may read in other pieces.
        yield Extra(PRICES, price_table(news.revised, news.next), f"prices:{news.first}:{news.next}")
    for letter in news.refused:
        rows = dead_letter_table([letter], letter.offset + 1)
        yield Extra(DEAD_LETTERS, rows, f"refused:{letter.topic}:{letter.offset}")


def refused_rows(letters: Sequence[DeadLetter], source: str) -> Extra:
    """Dead letters of one source (lines of files)."""
    places = [(letter.partition, letter.offset) for letter in letters]
    token = f"{source}:{min(places)}:{max(places)}:{len(places)}"
    return Extra(DEAD_LETTERS, dead_letter_table(letters, 1), token)
