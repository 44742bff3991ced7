"""What this process counted: shards come with the counts of their whole life, and go.

It must not let a count fall: what a shard counted here stays when it leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Protocol
from weakref import WeakKeyDictionary

from streams.agents.held import Held

LETTERS = "letters."
STORED = "stored"


class _Tally(Protocol):
    """The counts of one topic of a shard, as far as they are looked at."""

    reasons: dict[str, int]
    stored: dict[str, int]


class Counts:
    """Look about once a second: counts of a shard that leaves are kept as of the last look before."""

    def __init__(self) -> None:
        self._first: WeakKeyDictionary[Held, Counter[str]] = WeakKeyDictionary()
        self._held: dict[Held, Counter[str]] = {}  # at the last look
        self._left: Counter[str] = (
            Counter()
        )  # of shards that are no longer ours, from our first look to our last

    def look(self, shards: Iterable[Held]) -> Counter[str]:
        """By the names of the books, and the dead letters as `letters.REASON`, of them `stored`."""
        now = {held: _of(held) for held in shards}
        for held, last in self._held.items():
            if held not in now:
                self._left.update(_since(self._first[held], last))
        total = self._left.copy()
        for held, counts in now.items():
            total.update(_since(self._first.setdefault(held, counts), counts))
        self._held = now
        return total


def letters(counts: Mapping[str, int]) -> dict[str, int]:
    """Dead letters by reason."""
    return {name.removeprefix(LETTERS): count for name, count in counts.items() if name.startswith(LETTERS)}


def _of(held: Held) -> Counter[str]:
    books = held.shard.books
    counts = Counter({name: int(getattr(books, name)) for name in books.__struct_fields__})
    tallies: Mapping[str, _Tally] = getattr(held.shard, "tallies", {})  # the engine's shards have them
    for tally in tallies.values():
        counts.update({f"{LETTERS}{reason}": records for reason, records in tally.reasons.items()})
        counts[STORED] += sum(tally.stored.values())
    return counts


def _since(first: Counter[str], last: Counter[str]) -> Counter[str]:
    return Counter({name: count - first[name] for name, count in last.items()})
