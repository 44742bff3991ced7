"""Collects everything that a shard has counted in its life."""

from __future__ import annotations

from collections import Counter
from typing import Final

from streams.engine.shard.shard import Shard

LETTERS: Final = "letters."
STORED: Final = "stored"


def counted(shard: Shard) -> Counter[str]:
    """Counts by the names of the record accounting, and dead letters as `letters.REASON` (`stored`: those stored)."""
    books = shard.books
    counts = Counter({name: int(getattr(books, name)) for name in books.__struct_fields__})
    for tally in shard.tallies.values():
        counts.update({f"{LETTERS}{reason}": records for reason, records in tally.reasons.items()})
        counts[STORED] += sum(tally.stored.values())
    return counts
