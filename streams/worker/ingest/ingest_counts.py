"""Counts where the records that reached this process went, per topic and partition.

`fetched = folded + trimmed + not mine + given back + waiting`.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.engine.batch import LogBatch
from streams.topics import SHARD_TOPICS
from streams.worker.shards.owned_shard import OwnedShard

Place = tuple[str, int]  # topic without prefix, partition


@dataclass(slots=True)
class TopicCounts:
    """Records since the process started."""

    fetched: int = 0
    folded: int = 0  # into a shard, for the first time
    trimmed: int = 0  # fetched again after they were folded
    not_mine: int = 0  # of shards that were revoked before or while they waited
    given_back: int = 0  # dropped and fetched again: behind a hole, or after a rebalance


class IngestCounts:
    """Counts batches on arrival and on the way out."""

    def __init__(self) -> None:
        self.flows: dict[Place, TopicCounts] = {}

    def of(self, topic: str, number: int) -> TopicCounts:
        """The counts of one topic and partition."""
        return self.flows.setdefault((topic, number), TopicCounts())

    def add_fetched(self, batch: LogBatch, *, mine: bool) -> None:
        """Count a fetched batch."""
        flow = self.of(batch.topic, batch.partition)
        flow.fetched += len(batch.records)
        if not mine:
            flow.not_mine += len(batch.records)

    def fed(self, owned: OwnedShard, batch: LogBatch, trimmed: int) -> None:
        """Count a folded batch, without its first `trimmed` records."""
        flow = self.of(batch.topic, batch.partition)
        folded = len(batch.records) - trimmed
        flow.folded += folded
        flow.trimmed += trimmed
        owned.folded[batch.topic] += folded

    def gave_back(self, batch: LogBatch) -> None:
        """Count a batch that could not be queued and will be fetched again."""
        self.of(batch.topic, batch.partition).given_back += len(batch.records)

    def reset(self, owned: OwnedShard) -> None:
        """Count what waits for the shard as given back; the caller drops it and fetches it again."""
        for topic in map(str, SHARD_TOPICS):
            waiting = owned.align.waiting(topic)
            if waiting:
                self.of(topic, owned.number).given_back += waiting

    def left(self, owned: OwnedShard) -> None:
        """Count what waits for a revoked shard as not ours."""
        for topic in map(str, SHARD_TOPICS):
            waiting = owned.waiting_records(topic)
            if waiting:
                self.of(topic, owned.number).not_mine += waiting

    @property
    def not_mine(self) -> int:
        """How many records arrived for revoked shards."""
        return sum(flow.not_mine for flow in self.flows.values())
