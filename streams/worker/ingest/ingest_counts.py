"""Counts where the records that reached this process went, per topic and partition.

`fetched = folded + trimmed + not mine + given back + waiting`: it must not count what waits, which can be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.engine.batch import LogBatch
from streams.topics import SHARD_TOPICS
from streams.worker.shards.owned_shard import OwnedShard

Place = tuple[str, int]  # topic without prefix, partition


@dataclass(slots=True)
class TopicCounts:
    """Records since the process began."""

    fetched: int = 0
    folded: int = 0  # into a shard, for the first time
    trimmed: int = 0  # read again though they were folded before
    not_mine: int = 0  # of shards that had left when they came, or left while they waited
    given_back: int = 0  # dropped unread, and read again: behind a hole, or after a rebalance


class IngestCounts:
    """Counts batches as they come and go."""

    def __init__(self) -> None:
        self.flows: dict[Place, TopicCounts] = {}

    def of(self, topic: str, number: int) -> TopicCounts:
        """The counts of one topic and partition."""
        return self.flows.setdefault((topic, number), TopicCounts())

    def add_fetched(self, batch: LogBatch, *, mine: bool) -> None:
        """A batch was fetched."""
        flow = self.of(batch.topic, batch.partition)
        flow.fetched += len(batch.records)
        if not mine:
            flow.not_mine += len(batch.records)

    def fed(self, owned: OwnedShard, batch: LogBatch, trimmed: int) -> None:
        """A batch was folded, but for the first records of it."""
        flow = self.of(batch.topic, batch.partition)
        folded = len(batch.records) - trimmed
        flow.folded += folded
        flow.trimmed += trimmed
        owned.folded[batch.topic] += folded

    def gave_back(self, batch: LogBatch) -> None:
        """A batch could not be taken; its records will come again."""
        self.of(batch.topic, batch.partition).given_back += len(batch.records)

    def reset(self, owned: OwnedShard) -> None:
        """What waits for the shard is about to be forgotten and read again."""
        for topic in map(str, SHARD_TOPICS):
            waiting = owned.align.waiting(topic)
            if waiting:
                self.of(topic, owned.number).given_back += waiting

    def left(self, owned: OwnedShard) -> None:
        """The shard is no longer ours, nor what waits for it."""
        for topic in map(str, SHARD_TOPICS):
            waiting = owned.waiting_records(topic)
            if waiting:
                self.of(topic, owned.number).not_mine += waiting

    @property
    def not_mine(self) -> int:
        """All records that came for shards that had left."""
        return sum(flow.not_mine for flow in self.flows.values())
