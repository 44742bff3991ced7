"""One life of a worker: the real shard manager in a process of its own, wired as `streams.worker.meter` does it.

Whoever runs it freezes and kills its process.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from sinks.port import Store
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.notify.notifier import Notifier
from streams.worker.ingest.watermarks import KafkaWatermarks
from streams.worker.log_time import LogTime, MessageTime
from streams.worker.options import ShardManagerOptions
from streams.worker.shard_manager import ShardManager
from tests.simulator.consumer import PREFIX, FakeConsumer, partitions_of
from tests.simulator.group import Group, Joined
from tests.simulator.mail import Judge, Mailbox, judge_of, notifier_of
from tests.simulator.process import Process
from tests.simulator.reader import FakeReader
from tests.simulator.world import US, World

_BEAT_MS = 2_500


@dataclass(frozen=True)
class Pace:
    """How often things are done, in ms."""

    checkpoint_ms: int = 5_000
    open_attempts_ms: int = 60_000
    tick_poll_ms: int = 10_000
    max_backlog_bytes: int = 256 * 2**20
    flight_max_bytes: int = 64 * 2**20
    handover_ms: int = 8_000
    bases_kept: int = 2
    sweep_after_ms: int = 30_000
    caught_up_bytes: int | None = None
    snapshots_every: int = 1


@dataclass
class Clocks:
    """Of one worker's machine: the wall clock may be wrong, the other one counts."""

    wall_ms: Callable[[], int]
    world: World

    def now_ms(self) -> int:
        return self.wall_ms()

    def monotonic_ms(self) -> int:
        return self.world.now_us // US


class Until:
    """No tick after this instant is judged, so that all runs of a log judge the same ones."""

    def __init__(
        self,
        world: World,
        clock: KafkaWatermarks,
        read_until_ms: Callable[[], int],
        last_ms: int,
        judges: Callable[[], bool],
    ) -> None:
        self._judges = judges
        self._world = world
        self._clock = clock
        self.live_ms, self.restore, self.observe_batch, self.observe = (
            clock.live_ms,
            clock.restore,
            clock.observe_batch,
            clock.observe,
        )
        self._read_until_ms = read_until_ms
        self._last_ms = last_ms

    def clock_ms(self) -> int:
        if self._judges():
            self._world.note_ahead(self._clock.clock_ms())
        return min(self._clock.clock_ms(), self._last_ms)

    def latest_ms(self) -> int:
        latest_ms = self._clock.latest_ms()
        self._world.doubted |= latest_ms < self._world.now_ms
        return latest_ms

    def quiet_until_ms(self, topic: str, number: int, next_offset: int) -> int:
        quiet_ms = self._clock.quiet_until_ms(topic, number, next_offset)
        # What a worker sees of prices a little later than another, alerts may tell a tick later: a run waits for them.
        return min(quiet_ms, self._read_until_ms(), self._last_ms)


@dataclass(eq=False)
class Worker:
    """Started by `start`; ends when its process is killed or when it has left."""

    process: Process
    group: Group
    consumer: FakeConsumer
    reader: FakeReader
    store: Store
    settings: ShardSettings
    pace: Pace
    member: str
    static: bool
    clock_ms: Callable[[], int]
    as_of_ms: Callable[[int], int]
    last_tick_ms: int
    mailbox: Mailbox | None = None  # None: nobody judges the rules across jobs
    send_odds: Callable[[], float] = lambda: 0.0
    muted_until_us: int = 0  # its heartbeats do not reach the group
    rebalancing: bool = True
    stopping: bool = False
    storing: bool = False  # stops only once all is stored, and says until then that it lives
    left: bool = False
    shard_manager: ShardManager = field(init=False)
    notifier: Notifier | None = None
    ledger_rules: Judge | None = None
    _agent: asyncio.Task[None] | None = None
    _joins: int = 0
    _tasks: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        process = self.process
        log_time = LogTime(Clocks(self.clock_ms, process.world))
        options = ShardManagerOptions(
            PREFIX,
            lambda: self.as_of_ms(log_time.accrue_until_ms()),
            lambda: process.world.now_us // US,
            log_time,
            checkpoint_interval_ms=self.pace.checkpoint_ms,
            open_attempts_interval_ms=self.pace.open_attempts_ms,
            tick_poll_ms=self.pace.tick_poll_ms,
            flight_max_bytes=self.pace.flight_max_bytes,
            max_backlog_bytes=self.pace.max_backlog_bytes,
            handover_timeout_ms=self.pace.handover_ms,
            bases_kept=self.pace.bases_kept,
            sweep_after_ms=self.pace.sweep_after_ms,
            alerts_at_once=True,
            caught_up_bytes=self.pace.caught_up_bytes,
        )
        watermarks = Until(
            process.world,
            KafkaWatermarks(lambda: self.consumer, PREFIX, log_time),
            self._prices_ms,
            self.last_tick_ms,
            lambda: any(owned.align.tick_ms is not None for owned in self.shard_manager.owned.values()),
        )
        settings = self.settings
        self.shard_manager = ShardManager(
            self.store,
            lambda number, book, blobs: Shard.restore(number, settings, book, blobs),
            lambda: self.consumer,
            options,
            None,
            watermarks,
        )
        self.consumer.prices_ms = self._prices_ms
        self.consumer.too_far_ahead = self.shard_manager.ingest.too_far_ahead
        self.reader.shard_manager = self.shard_manager
        if self.mailbox is not None:
            self.notifier = notifier_of(self, self.mailbox, MessageTime(log_time))
            self.shard_manager.checkpointer.alert_sink = self.notifier
            self.ledger_rules = judge_of(self, self.mailbox, log_time, lambda: self.consumer.is_member())

    def _prices_ms(self) -> int:
        """Up to when all prices were read, archived jobs that they touch brought back included."""
        taken = all(
            self.shard_manager.reference_next.get(t, 0) >= n for t, n in self.reader.positions.items()
        )
        return self.reader.read_until_ms if taken else -1

    def start(self) -> None:
        """Begin, within the world."""
        self.process.call_soon(self._start)

    def _start(self) -> None:
        self._tasks.append(asyncio.ensure_future(self._run()))

    async def _run(self) -> None:
        await self.reader.read_all()
        for work in (
            self.reader.follow(), self.consumer.fetch(), self._checkpoints(), self._ticks(), self._membership(),
        ):  # fmt: skip
            self._tasks.append(asyncio.ensure_future(work))
        if self.notifier is not None and self.ledger_rules is not None:
            self._tasks += [
                asyncio.ensure_future(each)
                for each in (
                    self._deliver(self.notifier),
                    self.notifier._ledger.run(),
                    self.ledger_rules.run(),
                )
            ]
        self._agent = asyncio.ensure_future(self._take())

    async def _deliver(self, notifier: Notifier) -> None:
        """What `Notifier.run` does until it is told to stop, which nobody tells the dead."""
        while True:
            notifier._wake.clear()
            await notifier.run_once()
            await notifier._pause()

    async def _take(self) -> None:
        while True:
            batches = await self.consumer.next_batches()
            if not self.rebalancing:
                await self.shard_manager.ingest_batches(*batches)

    async def _checkpoints(self) -> None:
        while not self.stopping:
            await self.shard_manager.ingest.rest(self.pace.checkpoint_ms / 1000)
            if not self.rebalancing and not self.stopping:
                await self.shard_manager.tick(self.pace.snapshots_every)

    async def _ticks(self) -> None:
        while not self.stopping:
            until_ms = self.shard_manager.ingest.until_tick_ms()
            rest_ms = 1_000 if until_ms is None else min(until_ms, 1_000)
            await asyncio.sleep(max(rest_ms, self.pace.tick_poll_ms) / 1000)
            if not self.rebalancing and not self.stopping:
                await self.shard_manager.judge_due()

    # -- the group -----------------------------------------------------------------------------------------

    async def _membership(self) -> None:
        world = self.process.world
        await self._rejoin()
        while not self.stopping or self.storing:
            await asyncio.sleep(world.pause(_BEAT_MS / 2, 1.5 * _BEAT_MS) / 1000)
            if world.now_us < self.muted_until_us:
                continue
            said = self.group.beat(self.member, self.consumer.generation)
            if said == "unknown":
                self.consumer.generation = -1
            else:
                self.consumer.heard_us = world.now_us
            if said != "ok" and not self.stopping:
                await self._rejoin()

    async def _rejoin(self) -> None:
        """What Faust does in a rebalance."""
        world = self.process.world
        self._joins += 1
        self.rebalancing = True
        self.consumer.stop_flow()
        with self._no_escape():
            await self.shard_manager.final_checkpoint()
        if self._agent is not None and world.chance(0.5):
            # Faust does not wait for an agent that is in the middle of a batch.
            self._agent.cancel()
            await asyncio.sleep(0)
            self._agent = asyncio.ensure_future(self._take())
        asked_us = world.now_us
        joined = await self._join()
        self.consumer.queue.clear()
        self.consumer.generation = joined.generation
        self.consumer.heard_us = max(
            self.consumer.heard_us, asked_us
        )  # the answer may have waited for us, frozen
        assigned = partitions_of(joined.numbers)
        with self._no_escape():
            self.shard_manager.assigned(assigned, joined.generation)
        world.note(self.process.name, "is given", sorted(joined.numbers), joined.generation)
        self._tasks.append(asyncio.ensure_future(self._complete(joined, self._joins)))

    async def _join(self) -> Joined:
        answered = self.process.create_future()

        def answer(joined: Joined | None) -> None:
            if not answered.done():
                answered.set_result(joined)

        self.group.join(self.member, answer, static=self.static)
        joined: Joined = await answered
        return joined

    async def _complete(self, joined: Joined, joins: int) -> None:
        with self._no_escape():
            await self.shard_manager.restore_missing()
            if self._joins == joins and not self.stopping:
                assigned = partitions_of(joined.numbers)
                self.consumer.seek(assigned, self.shard_manager.start_offsets(assigned))
                self.rebalancing = False

    def stop(self) -> None:
        """SIGTERM."""
        self.process.call_soon(lambda: self._tasks.append(asyncio.ensure_future(self._leave())))

    async def _leave(self) -> None:
        self.stopping = True
        self.consumer.stop_flow()
        with self._no_escape():
            await self.shard_manager.final_checkpoint()
        if not self.static:
            self.group.leave(self.member)
        self.left = True
        self.process.world.note(self.process.name, "has left")
        self.process.kill()

    @contextlib.contextmanager
    def _no_escape(self) -> Any:
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - as the meter has it
            self.shard_manager.fail(fault)
