"""Keeps the shards that Faust assigns to this worker: restored, fed, priced, stored, handed over.

It must not know how a record is metered, nor anything private of Faust.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from faust.types import TP

from sinks.errors import SinkError
from sinks.port import Store
from streams.agents.assignment import awaited, check_assignment
from streams.agents.checkpointer import Checkpointer
from streams.agents.claim import claim
from streams.agents.deadletters import DeadLetterSink
from streams.agents.extras import reference_rows, refused_rows
from streams.agents.feeding import Feeding
from streams.agents.held import Held, Taken
from streams.agents.options import KeeperOptions
from streams.agents.paydays import Paydays
from streams.agents.ports import HorizonSource, LogConsumer, ShardFactory
from streams.agents.recall import Recall
from streams.agents.reference import News
from streams.agents.restore import Attempts, restore
from streams.agents.room import Room
from streams.agents.sweep import sweep
from streams.errors import TrainfareError
from streams.pipeline.batch import LogBatch
from streams.pipeline.reference import ReferenceLog
from streams.pipeline.tables import DeadLetter
from streams.pricing.book import PriceBook

logger = logging.getLogger(__name__)


class Keeper:
    """All state is touched in the event loop only; every fault ends in `fail`, none in Faust's supervisor."""

    def __init__(
        self,
        store: Store,
        factory: ShardFactory,
        consumer: Callable[[], LogConsumer],
        options: KeeperOptions,
        dead_letters: DeadLetterSink | None = None,
        horizons: HorizonSource | None = None,
        reference: ReferenceLog | None = None,
    ) -> None:
        self._store, self._consumer, self._options = store, consumer, options
        self.checkpointer = Checkpointer(store, consumer, options, dead_letters)
        self._recall = Recall(store, self.checkpointer, lambda: self.fault is not None)
        load = partial(restore, store, factory, self._recall.put)
        self._claim = partial(claim, self._recall, consumer, load)
        self._wanted, self._generation = set[int](), -1
        self._paydays = Paydays(options.open_attempts_interval_ms)
        self._one_restore, self._one_book = asyncio.Lock(), asyncio.Lock()
        self.room = Room(options.backlog_max_bytes)
        self.reference = ReferenceLog() if reference is None else reference
        self.book = self.reference.book
        self.reference_next: Mapping[str, int] = {}  # of prices and controls, what the shards know of
        self.held: dict[int, Held] = {}
        self.feeding = Feeding(self._recall, consumer, options, horizons, self.held, self._tell)
        self.fault: BaseException | None = None
        self.failed = asyncio.Event()
        self.totals = self.checkpointer.totals

    def fail(self, fault: BaseException) -> None:
        """Stop metering for good: the state of a shard may be half changed, so nothing more is stored."""
        if self.fault is None:
            known = isinstance(fault, (TrainfareError, SinkError))
            logger.error("metering stops: %s", fault, exc_info=None if known else fault)
            self.fault = fault
            self.room.open()
            self.failed.set()

    # -- assignment ----------------------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[TP], generation: int) -> None:
        """Faust has new partitions for us; what others may have had in between is dropped."""
        numbers = check_assignment(partitions, self._options.topic_prefix)
        self.totals.rebalances += 1
        # Nobody else can have owned a partition between two generations of which we were in both.
        kept = numbers if generation == self._generation + 1 else set()
        for number in list(self.held):
            if number not in kept:
                self.feeding.intake.left(self.held[number])
                self.checkpointer.forget(self.held.pop(number))
                self.checkpointer.teller.release([number])
        self._wanted, self._generation = numbers, generation
        for held in self.held.values():
            held.versions.enter(generation, self._options.log_time.now_ms())
            self.feeding.intake.reset(held)
            held.read_again()

    async def restore_missing(self) -> None:
        """Load every shard that is ours and not in memory; due before the flow resumes."""
        async with self._one_restore:
            while missing := self._wanted - set(self.held):
                number = min(missing)
                generation, began_ms = self._generation, self._options.now_ms()
                attempts = Attempts(number, generation, self.book, self._options.log_time.now_ms())
                restored = await self._claim(attempts, self._is_generation)
                async with self._one_book:
                    if restored is None or generation != self._generation:
                        return  # Another rebalance came, and calls again.
                    held = self.held[number] = restored.held
                    held.view = self.reference.view()
                    self.feeding.began(held)
                    held.sweep_due_ms = self._options.now_ms() + self._options.sweep_after_ms
                    self.checkpointer.teller.resume([number])
                    await self._price(held)
                rows = restored.rows_put_right
                self.totals.restored(number, rows, began_ms, self._options.now_ms())
                logger.info("shard %d begins at %s, %d rows put right", number, held.shard.next, rows)

    def _is_generation(self, generation: int) -> bool:
        return generation == self._generation and self.fault is None

    def start_offsets(self, partitions: Iterable[TP]) -> dict[TP, int]:
        """Where reading starts: at what the shards await, whatever was committed."""
        return awaited(self.held, partitions, self._options.topic_prefix)

    # -- feeding -------------------------------------------------------------------------------------------

    async def take(self, *batches: LogBatch) -> None:
        """Meter what came of one shard."""
        try:
            await self.room.wait()
            held = None if self.fault is not None else self.held.get(batches[0].partition)
            for batch in batches:
                self.feeding.intake.came(batch, mine=held is not None)
            if held is not None:
                await self.feeding.take(held, *batches)
                self._keep_room()
        except Exception as fault:  # noqa: BLE001 - Faust would take the batch for done and go on behind it
            self.fail(fault)

    def _tell(self, held: Held) -> None:
        if self.fault is None:
            self.checkpointer.tell_at_once(held, self.fail)

    async def judge_due(self) -> None:
        """Judge the shards whose next tick has come."""
        if not self.room.is_open:
            return  # a tick's rows would only wait with the others
        try:
            await self.feeding.advance_all()
            self._keep_room()
        except Exception as fault:  # noqa: BLE001 - as in `take`
            self.fail(fault)

    # -- prices --------------------------------------------------------------------------------------------

    async def set_book(self, book: PriceBook) -> None:
        """Take a newer price book; what it changes is derived again with the next checkpoint."""
        self.book = book
        async with self._one_book:
            for held in list(self.held.values()):
                await self._price(held)

    def news(self, news: News) -> asyncio.Task[None]:
        """Take what the reference reader read: rows for the store, the book for the shards."""
        for extra in reference_rows(news):
            self.checkpointer.add(extra)
        # Ticks look at this log, whatever the shards' own books wait for.
        self.feeding.came_elsewhere(news.price_log, news.control_log)
        self.reference.extend(news.price_log, news.control_log, news.book, news.controls)
        return asyncio.ensure_future(self._take_news(news))

    async def _take_news(self, news: News) -> None:
        await self.set_book(news.book)
        # Only now: whoever waits for the last price waits for its effect.
        self.reference_next = news.positions

    def refuse(self, letters: Sequence[DeadLetter], source: str) -> None:
        """Store what never came to a shard, with the next checkpoint."""
        self.checkpointer.add(refused_rows(letters, source))

    async def settled(self) -> None:
        """Return when all shards have the newest book."""
        async with self._one_book:
            return

    async def _price(self, held: Held) -> None:
        """Give a shard the newest book.

        No checkpoint may be taken before the archived jobs that it reprices are adopted: its snapshot would say
        that the book is known, and a new owner would not look for them.
        """
        try:
            news = held.shard.set_prices(self.book)
            if news is None:
                return
            held.repricing = True
            held.repricing = not await self._recall.for_prices(held, news)
        except Exception as fault:  # noqa: BLE001 - a task of the loop would only log it
            self.fail(fault)

    # -- storing -------------------------------------------------------------------------------------------

    async def tick(self) -> None:
        """Store what was metered since the last tick, or try again what could not be stored."""
        for held in self._paydays.due(self.held.values(), self._options.now_ms()):
            held.owe_open(self._options.as_of_ms())
        stored = await self.checkpoint(open_attempts=False)
        while stored and self._left_over():
            await asyncio.sleep(0)
            stored = await self.checkpoint(open_attempts=False)
        try:
            await self.feeding.fill_holes()
            await self._sweep()
        except Exception as fault:  # noqa: BLE001 - as in `take`
            self.fail(fault)

    async def _sweep(self) -> None:
        """Sweep one shard that is due: all in one tick would keep the next checkpoint waiting for seconds."""
        now_ms = self._options.now_ms()
        for held in self.held.values():
            if held.sweep_due_ms is not None and now_ms >= held.sweep_due_ms:
                self.totals.rows_swept += await sweep(self._store, self._recall, held)
                return

    async def checkpoint(self, *, open_attempts: bool) -> bool:
        """One checkpoint of all shards that need it; False if it is not stored (yet)."""
        if self.fault is not None:
            return False
        try:
            stored = await self.checkpointer.run(lambda: self._due(open_attempts))
        except Exception as fault:  # noqa: BLE001 - a timer of Faust's would swallow or repeat it
            self.fail(fault)
            return False
        self._keep_room()
        return stored

    async def hand_over(self) -> bool:
        """The last checkpoint before a rebalance or a stop; what it does not reach, the next owner replays."""
        if self.fault is not None or not self.held or not self._consumer().is_member():
            return False
        for held in self.held.values():
            held.shard.owe_books()
        storing = asyncio.ensure_future(self.store_all())
        await asyncio.wait({storing}, timeout=self._options.handover_timeout_ms / 1000)
        return storing.done() and storing.result()

    async def store_all(self, *, open_attempts: bool = False) -> bool:
        """A flight under way, then what came since, until nothing is left."""
        stored = await self.checkpoint(open_attempts=False)
        if stored and open_attempts:
            stored = await self.checkpoint(open_attempts=True)
        while stored and self._left_over():
            await asyncio.sleep(0)
            stored = await self.checkpoint(open_attempts=False)
        return stored

    def _left_over(self) -> bool:
        """Whether another checkpoint would store more now: a shard that waits for archived jobs gives none."""
        return any(held.left_over and not held.repricing for held in self.held.values())

    async def store_until_done(self) -> None:
        """The last checkpoint of a log that has ended; returns when it is stored, raises if it never can be."""
        while not await self.store_all(open_attempts=True):
            if self.fault is not None:
                raise self.fault
            await asyncio.sleep(1)

    def _due(self, open_attempts: bool) -> Iterator[Taken]:
        """Checkpoints of the shards whose turn it is, as many as one flight may weigh; the others are next."""
        as_of_ms, weight_bytes = self._options.as_of_ms(), 0
        for held in list(self.held.values()):
            if self.held.get(held.number) is not held:
                continue
            if open_attempts:
                held.open_as_of_ms = as_of_ms  # also if it still owes a payment up to an earlier instant
            if weight_bytes > self._options.flight_max_bytes:
                held.left_over = held.owes(as_of_ms)
                continue
            if self._options.look_between_ticks:
                held.look(as_of_ms)
            while (taken := held.checkpoint(as_of_ms)) is not None:
                weight_bytes += taken.size_bytes
                self.held[held.number] = self.held.pop(held.number)  # last in the next flight
                yield taken
                has_room = self._options.fill_flights and weight_bytes <= self._options.flight_max_bytes
                if not (has_room and held.left_over and self.held.get(held.number) is held):
                    break

    @property
    def backlog_bytes(self) -> int:
        """What was read and is not stored."""
        return self.checkpointer.waiting_bytes + sum(held.waiting_bytes for held in self.held.values())

    def _keep_room(self) -> None:
        """Reading pauses while too much waits; half of that is stored at once, so that it need not."""
        if self.fault is None and self.room.keep(self.backlog_bytes):
            self.feeding.urgent.set()
