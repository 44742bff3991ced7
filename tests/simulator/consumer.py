"""The consumer of one worker: fetches, loses and repeats batches, commits, and knows whether it is a member.

It must keep what the real one promises: the interval of a batch is what the fetch went over, and after a rebalance
reading starts where the shard manager says.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from streams.engine.batch import LogBatch
from streams.topics import SHARD_TOPICS, full_name
from streams.transport.answers import LogEnd
from streams.transport.faust_types import TP
from tests.simulator.group import Group
from tests.simulator.log import Log, Part
from tests.simulator.process import Process
from tests.simulator.world import US

PREFIX = "t."


@dataclass
class Fetching:
    """How a run's consumers fetch."""

    every_ms: int = 1_000
    most: int = 8  # records of one batch
    dropped: float = 0.0  # batches lost on the way
    repeated: float = 0.0  # positions set back by themselves
    #: Called before and after a commit.
    from_committed: bool = False  # a negative control: start at the committed offsets


@dataclass(eq=False)
class FakeConsumer:
    """What the shard manager sees of Kafka."""

    process: Process
    group: Group
    log: Log
    member: str
    fetching: Fetching
    point: Callable[[str, str], None]
    generation: int = -1
    heard_us: int = -(10**12)  # of the last heartbeat that was answered
    flows: bool = False
    prices_ms: Callable[[], int] = lambda: 0  # up to when prices and controls were read
    positions: dict[TP, int] = field(default_factory=dict)
    answered_ms: dict[TP, int] = field(default_factory=dict)
    ends: dict[TP, int] = field(default_factory=dict)
    queue: deque[tuple[int, LogBatch]] = field(default_factory=deque)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    too_far_ahead: Callable[[], set[TP]] = set
    _parts: list[tuple[TP, Part]] = field(default_factory=list)

    # -- what the shard manager asks ------------------------------------------------------------------------------

    def is_member(self) -> bool:
        """Whether the group may still count on us."""
        silent_us = self.process.world.now_us - self.heard_us
        return self.generation != -1 and silent_us < self.group.session_ms * 1000

    async def confirm(self, generation: int) -> bool:
        """Whether the group is in this generation at some instant from now on."""
        await asyncio.sleep(self.process.world.pause(100, 2_000) / 1000)
        confirmed = self.group.beat(self.member, generation) != "unknown"
        self.process.world.note(
            self.process.name, "asks whether generation", generation, "counts:", confirmed
        )
        return confirmed

    async def refetch(self, tp: TP, log_offset: int) -> None:
        """Read again from an offset of the log."""
        if tp in self.positions:
            self.process.world.note(self.process.name, "refetch", tp, log_offset)
            self.positions[tp] = log_offset

    async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
        """Commit what is still ours."""
        world = self.process.world
        await self._pass("commit", "before")
        await asyncio.sleep(world.pause(0, 50) / 1000)
        ours = {tp: offset for tp, offset in next_offsets.items() if tp in self.positions}
        done = bool(ours) and self.group.commit(self.member, self.generation, ours)
        world.note(self.process.name, "commit", sorted(ours.items()), done)
        await self._pass("commit", "after")
        return done and not world.chance(self.fetching.dropped)

    async def _pass(self, what: str, when: str) -> None:
        self.point(what, when)
        if not self.process.runs:
            await asyncio.sleep(0)  # a frozen process goes on after this, a dead one never

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of the partition as of the last answer."""
        if tp not in self.positions or tp not in self.answered_ms:
            return None
        return LogEnd(self.ends[tp], self.ends[tp], self.answered_ms[tp])

    # -- what the worker does ------------------------------------------------------------------------------

    def stop_flow(self) -> None:
        """A rebalance begins: nothing is delivered until positions were sought again."""
        self.flows = False

    def seek(self, assigned: Iterable[TP], starts: Mapping[TP, int]) -> None:
        """Start where the shard manager says."""
        starts = dict(starts)
        if self.fetching.from_committed:
            starts = {tp: self.group.committed.get(tp, 0) for tp in starts}
        self.positions = {tp: starts[tp] for tp in assigned if tp in starts}
        self._parts = [
            (tp, Part(tp.topic.removeprefix(PREFIX), tp.partition)) for tp in sorted(self.positions)
        ]
        self.answered_ms.clear()
        self.ends.clear()
        self.flows = True
        self.process.world.note(self.process.name, "reads from", sorted(self.positions.items()))

    async def fetch(self) -> None:
        """Fetch for ever."""
        world = self.process.world
        while True:
            await asyncio.sleep(world.pause(self.fetching.every_ms / 4, self.fetching.every_ms * 1.5) / 1000)
            if not self.flows:
                continue
            ahead = self.too_far_ahead()
            for tp, part in self._parts:
                if tp not in ahead:
                    self._fetch(tp, part)
            if self.queue:
                self.arrived.set()

    def _fetch(self, tp: TP, part: Part) -> None:
        world, fetching = self.process.world, self.fetching
        now_ms = world.now_ms
        start = self.positions[tp]
        if start and world.chance(fetching.repeated):
            start = self.positions[tp] = max(0, start - world.rng.randrange(1, 6))
            world.fault(self.process.name, "reads again", part, start)
        self.ends[tp] = log_end = self.log.end(part, now_ms)
        self.answered_ms[tp] = world.now_us // US
        if start == log_end:
            return
        # Nothing is read that is later than the prices that were: ticks would wait for these, but for records that wait.
        upto_ms = min(now_ms, self.prices_ms())
        end, records = self.log.read(part, start, upto_ms, world.rng.randrange(1, fetching.most + 1))
        self.positions[tp] = end
        if world.chance(fetching.dropped):
            world.fault(self.process.name, "loses on the way", part, start, end)
            return
        self.queue.append((self.generation, LogBatch(part.topic, part.partition, start, end, records)))

    async def next_batches(self) -> list[LogBatch]:
        """The next batch of this generation, and what came after it of other topics of its shard."""
        while True:
            while not self.queue:
                self.arrived.clear()
                await self.arrived.wait()
            generation, batch = self.queue.popleft()
            if generation != self.generation:
                continue
            batches = {batch.topic: batch}
            while self.queue:
                generation, also = self.queue[0]
                if (
                    generation != self.generation
                    or also.partition != batch.partition
                    or also.topic in batches
                ):
                    break
                batches[also.topic] = also
                self.queue.popleft()
            return list(batches.values())


def partitions_of(numbers: Iterable[int]) -> set[TP]:
    """All partitions of these shards."""
    return {TP(full_name(topic, PREFIX), number) for number in numbers for topic in SHARD_TOPICS}
