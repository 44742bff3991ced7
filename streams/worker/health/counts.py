"""Counts what this process did, although shards arrive with the counts of their whole life.

No count may decrease: what a shard counted here stays when it leaves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from streams.worker.shards.owned_shard import OwnedShard
from streams.worker.shards.shard_counts import LETTERS, counted


class Counts:
    """Poll about once a second: a shard that leaves counts as of the last poll."""

    def __init__(self) -> None:
        self._owned: dict[OwnedShard, Counter[str]] = {}  # at the last poll
        self._left: Counter[str] = Counter()  # of revoked shards, as of their last poll

    def collect(self, shards: Iterable[OwnedShard]) -> Counter[str]:
        """Counts by the names of the record accounting, and dead letters as `letters.REASON` (`stored`: those stored)."""
        now = {owned: counted(owned.shard) for owned in shards}
        for owned, last in self._owned.items():
            if owned not in now:
                self._left.update(_since(owned.came_with, last))
        total = self._left.copy()
        for owned, counts in now.items():
            total.update(_since(owned.came_with, counts))
        self._owned = now
        return total


def dead_letters(counts: Mapping[str, int]) -> dict[str, int]:
    """Dead letters by reason."""
    return {name.removeprefix(LETTERS): count for name, count in counts.items() if name.startswith(LETTERS)}


def _since(first: Counter[str], last: Counter[str]) -> Counter[str]:
    return Counter({name: count - first[name] for name, count in last.items()})
