"""The prices of a shard: its price book, and who looks up which of its prices."""

from __future__ import annotations

from streams.engine.ledger.sampled_minutes import MinutePrices
from streams.engine.pricing.book import PriceBook
from streams.engine.repricing.price_index import PriceIndex


class ShardPrices:
    """The price book, and which jobs and nodes look up which of its prices."""

    def __init__(self, book: PriceBook) -> None:
        self.book = book
        self.minutes = MinutePrices(book)
        self.jobs, self.nodes = PriceIndex(), PriceIndex()
        self.unindexed: list[str] = []  # jobs of a snapshot that are not indexed yet
