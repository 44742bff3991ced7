"""What a shard has counted in its whole life, in one bag of names; it must not know which worker counted it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final, Protocol

from streams.engine.shard.shard import Shard

LETTERS: Final = "letters."
STORED: Final = "stored"


class _Tally(Protocol):
    """The counts of one topic of a shard, as far as they are looked at."""

    reasons: dict[str, int]
    stored: dict[str, int]


def counted(shard: Shard) -> Counter[str]:
    """By the names of the books, and the dead letters as `letters.REASON`, of them `stored`."""
    books = shard.books
    counts = Counter({name: int(getattr(books, name)) for name in books.__struct_fields__})
    tallies: Mapping[str, _Tally] = getattr(shard, "tallies", {})  # the engine's shards have them
    for tally in tallies.values():
        counts.update({f"{LETTERS}{reason}": records for reason, records in tally.reasons.items()})
        counts[STORED] += sum(tally.stored.values())
    return counts
