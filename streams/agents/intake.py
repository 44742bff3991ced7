"""Where the records that reached this process went, per topic and partition; counts only.

`fetched = folded + trimmed + not mine + given back + waiting`: it must not count what waits, which can be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass

from streams.agents.held import Held
from streams.pipeline.batch import LogBatch
from streams.topics import SHARD_TOPICS

Place = tuple[str, int]  # topic without prefix, partition


@dataclass(slots=True)
class Flow:
    """Records since the process began."""

    fetched: int = 0
    folded: int = 0  # into a shard, for the first time
    trimmed: int = 0  # read again though they were folded before
    not_mine: int = 0  # of shards that had left when they came, or left while they waited
    given_back: int = 0  # dropped unread, and read again: behind a hole, or after a rebalance


class Intake:
    """Counts batches as they come and go."""

    def __init__(self) -> None:
        self.flows: dict[Place, Flow] = {}

    def of(self, topic: str, number: int) -> Flow:
        """The counts of one topic and partition."""
        return self.flows.setdefault((topic, number), Flow())

    def came(self, batch: LogBatch, *, mine: bool) -> None:
        """A batch was fetched."""
        flow = self.of(batch.topic, batch.partition)
        flow.fetched += len(batch.records)
        if not mine:
            flow.not_mine += len(batch.records)

    def fed(self, held: Held, batch: LogBatch, trimmed: int) -> None:
        """A batch was folded, but for the first records of it."""
        flow = self.of(batch.topic, batch.partition)
        folded = len(batch.records) - trimmed
        flow.folded += folded
        flow.trimmed += trimmed
        held.folded[batch.topic] += folded

    def gave_back(self, batch: LogBatch) -> None:
        """A batch could not be taken; its records will come again."""
        self.of(batch.topic, batch.partition).given_back += len(batch.records)

    def reset(self, held: Held) -> None:
        """What waits for the shard is about to be forgotten and read again."""
        for topic in map(str, SHARD_TOPICS):
            waiting = held.align.waiting(topic)
            if waiting:
                self.of(topic, held.number).given_back += waiting

    def left(self, held: Held) -> None:
        """The shard is no longer ours, nor what waits for it."""
        for topic in map(str, SHARD_TOPICS):
            waiting = held.waiting_records(topic)
            if waiting:
                self.of(topic, held.number).not_mine += waiting

    @property
    def not_mine(self) -> int:
        """All records that came for shards that had left."""
        return sum(flow.not_mine for flow in self.flows.values())
