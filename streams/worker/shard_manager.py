"""Manages the shards that Faust assigns to this worker: restores, feeds, reprices, checkpoints and releases them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial

from schemas.validate_deeds import is_deed
from schemas.validate_requests import is_request
from schemas.validate_sources import is_source
from schemas.validate_tokens import is_token
from sinks.errors import SinkError
from sinks.port import Store
from streams.engine.batch import LogBatch
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.shard.job_tables import DeadLetter
from streams.errors import TrainfareError
from streams.notify.history import RECEIPT_SHARD
from streams.transport.faust_types import TP
from streams.worker.ingest.assignment import awaited, check_assignment
from streams.worker.ingest.backpressure import BackpressureGate
from streams.worker.ingest.ingest import Ingest
from streams.worker.options import ShardManagerOptions
from streams.worker.reference.reference_reader import ReferenceChanges
from streams.worker.shards.owned_shard import InFlightCheckpoint, OwnedShard
from streams.worker.shards.ports import LogConsumer, ShardFactory, WatermarkSource
from streams.worker.storing.accrual_schedule import AccrualSchedule
from streams.worker.storing.checkpointer import Checkpointer
from streams.worker.storing.dead_letters import DeadLetterSink
from streams.worker.storing.unsharded_rows import reference_rows, refused_rows
from streams.worker.takeover.fence import fence_late_rows
from streams.worker.takeover.ownership import restore_owned
from streams.worker.takeover.rehydrate import Rehydrator
from streams.worker.takeover.restore import Attempts, restore

logger = logging.getLogger(__name__)


class ShardManager:
    """Owns the assigned shards.

    All state belongs to the event loop; every fault ends in `fail`, none in Faust's supervisor.
    """

    def __init__(
        self,
        store: Store,
        factory: ShardFactory,
        consumer: Callable[[], LogConsumer],
        options: ShardManagerOptions,
        dead_letters: DeadLetterSink | None = None,
        watermarks: WatermarkSource | None = None,
        reference: ReferenceLog | None = None,
    ) -> None:
        self._store, self._consumer, self._options = store, consumer, options
        self.checkpointer = Checkpointer(store, consumer, options, dead_letters)
        self._rehydrator = Rehydrator(store, self.checkpointer, lambda: self.fault is not None)
        load = partial(restore, store, factory, self._rehydrator.store_rows)
        self._claim = partial(restore_owned, self._rehydrator, consumer, load)
        self._wanted, self._generation = set[int](), -1
        self._accrual_schedule = AccrualSchedule(options.open_attempts_interval_ms)
        self._one_restore, self._one_book = asyncio.Lock(), asyncio.Lock()
        self.backpressure = BackpressureGate(options.max_backlog_bytes)
        self.reference = ReferenceLog() if reference is None else reference
        self.book = self.reference.book
        self.reference_next: Mapping[
            str, int
        ] = {}  # next offsets of prices and controls that the shards know
        self.owned: dict[int, OwnedShard] = {}
        self.ingest = Ingest(
            self._rehydrator, consumer, options, watermarks, self.owned, self._publish_alerts
        )
        self.fault: BaseException | None = None
        self.failed = asyncio.Event()
        self.totals = self.checkpointer.totals

    def fail(self, fault: BaseException) -> None:
        """Stop metering for good: the state of a shard may be half changed, so nothing more is stored."""
        if self.fault is None:
            known = isinstance(fault, (TrainfareError, SinkError))
            logger.error(
                "metering stops",
                exc_info=None if known else fault,
                extra={"reason": str(fault), "runbook": "docs/trouble.md#metering-stopped"},
            )
            self.fault = fault
            self.backpressure.open()
            self.failed.set()

    # -- assignment ----------------------------------------------------------------------------------------

    def assigned(self, partitions: Iterable[TP], generation: int) -> None:
        """Adopt a new assignment; drop shards that another worker may have owned in between."""
        numbers = check_assignment(partitions, self._options.topic_prefix)
        self.totals.rebalances += 1
        logger.info("shards assigned", extra={"generation": generation, "shards": sorted(numbers)})
        # No other member can have owned a partition between two consecutive generations that both include us.
        kept = numbers if generation == self._generation + 1 else set()
        for number in list(self.owned):
            if number not in kept:
                self.ingest.ingest_counts.left(self.owned[number])
                self.checkpointer.forget(self.owned.pop(number))
                self.checkpointer.alert_sink.release([number])
        self._wanted, self._generation = numbers, generation
        for owned in self.owned.values():
            owned.versions.enter(generation, self._options.log_time.now_ms())
            self.ingest.ingest_counts.reset(owned)
            owned.read_again()

    async def restore_missing(self) -> None:
        """Restore every assigned shard that is not in memory. Must complete before fetching resumes."""
        async with self._one_restore:
            while missing := self._wanted - set(self.owned):
                number = min(missing)
                generation, began_ms = self._generation, self._options.now_ms()
                attempts = Attempts(number, generation, self.book, self._options.log_time.now_ms())
                restored = await self._claim(attempts, self._is_generation)
                async with self._one_book:
                    if restored is None or generation != self._generation:
                        return  # Another rebalance came and calls this again.
                    owned = self.owned[number] = restored.owned
                    owned.view = self.reference.view()
                    self.ingest.began(owned)
                    owned.sweep_due_ms = self._options.now_ms() + self._options.sweep_after_ms
                    self.checkpointer.alert_sink.resume([number])
                    await self._price(owned)
                rows = restored.rows_put_right
                self.totals.restored(number, rows, began_ms, self._options.now_ms())
                logger.info(
                    "shard begins",
                    extra={
                        "shard": number,
                        "offsets": dict(owned.shard.position.next),
                        "rows_put_right": rows,
                    },
                )

    @property
    def begun_ms(self) -> int | None:
        """The log time of the first record of the shards that nobody has read before; None: there are none, or no records."""
        begun = (owned.align.begun_ms for owned in self.owned.values())
        return min((begun_ms for begun_ms in begun if begun_ms is not None), default=None)

    def _is_generation(self, generation: int) -> bool:
        return generation == self._generation and self.fault is None

    def start_offsets(self, partitions: Iterable[TP]) -> dict[TP, int]:
        """The offsets to read from: those that the shards await, whatever was committed."""
        return awaited(self.owned, partitions, self._options.topic_prefix)

    # -- feeding -------------------------------------------------------------------------------------------

    async def ingest_batches(self, *batches: LogBatch) -> None:
        """Meter batches of one shard."""
        try:
            await self.backpressure.wait()
            owned = None if self.fault is not None else self.owned.get(batches[0].partition)
            for batch in batches:
                self.ingest.ingest_counts.add_fetched(batch, mine=owned is not None)
            if owned is not None:
                await self.ingest.accept(owned, *batches)
                self._update_backpressure()
        except Exception as fault:  # noqa: BLE001 - Faust would count the batch as processed and continue behind it
            self.fail(fault)

    def _publish_alerts(self, owned: OwnedShard) -> None:
        if self.fault is None:
            self.checkpointer.publish_alerts(owned, self.fail)

    async def judge_due(self) -> None:
        """Judge the shards whose next tick is due."""
        if not self.backpressure.is_open:
            return  # the rows of a tick would only wait with the others
        try:
            await self.ingest.advance_all()
            self._update_backpressure()
        except Exception as fault:  # noqa: BLE001 - as in `take`
            self.fail(fault)

    # -- prices --------------------------------------------------------------------------------------------

    async def set_book(self, book: PriceBook) -> None:
        """Adopt a newer price book; the next checkpoint derives again what it changes."""
        self.book = book
        async with self._one_book:
            for owned in list(self.owned.values()):
                await self._price(owned)

    def on_reference_changes(self, news: ReferenceChanges) -> asyncio.Task[None]:
        """Apply what the reference reader read: rows go to the store, the price book to the shards."""
        for extra in reference_rows(news):
            self.checkpointer.add(extra)
        # Ticks depend on the reference topics even while the shards still wait for the new book.
        self.ingest.observe_unsharded(news.price_log, news.control_log)
        controls = [
            each
            for each in news.control_log
            if not any(is_apart(*each[1:]) for is_apart in (is_source, is_token, is_request, is_deed))
        ]
        self.reference.extend(news.price_log, controls, news.book, news.controls)
        return asyncio.ensure_future(self._apply_reference_changes(news))

    async def _apply_reference_changes(self, news: ReferenceChanges) -> None:
        await self.set_book(news.book)
        # Only now: whoever waits for the last price waits for its effect.
        self.reference_next = news.positions

    def refuse(self, letters: Sequence[DeadLetter], source: str) -> None:
        """Store dead letters of records that reached no shard, with the next checkpoint."""
        self.checkpointer.add(refused_rows(letters, source))

    async def settled(self) -> None:
        """Return when all shards have the newest price book."""
        async with self._one_book:
            return

    async def _price(self, owned: OwnedShard) -> None:
        """Give a shard the newest price book.

        No checkpoint may be built before the archived jobs that the book reprices are in memory: its snapshot would
        claim that the book is applied, and a new owner would not look for them.
        """
        try:
            news = owned.shard.set_prices(self.book)
            if news is None:
                return
            owned.repricing = True
            owned.repricing = not await self._rehydrator.for_prices(owned, news)
        except Exception as fault:  # noqa: BLE001 - the event loop would only log it
            self.fail(fault)

    # -- storing -------------------------------------------------------------------------------------------

    async def tick(self, snapshots_every: int = 1) -> None:
        """Store what was metered since the last call, or retry what could not be stored; `snapshots_every`: see `checkpoint`."""
        for owned in self._accrual_schedule.due(self.owned.values(), self._options.now_ms()):
            owned.owe_open(self._options.as_of_ms())
        stored = await self.checkpoint(open_attempts=False, snapshots_every=snapshots_every)
        while stored and self._left_over():
            await asyncio.sleep(0)
            stored = await self.checkpoint(open_attempts=False, snapshots_every=snapshots_every)
        try:
            await self.ingest.fill_holes()
            await self._fence_late_rows()
        except Exception as fault:  # noqa: BLE001 - as in `take`
            self.fail(fault)

    async def _fence_late_rows(self) -> None:
        """Fence late rows of one shard that is due: all shards in one tick would delay the next checkpoint by seconds."""
        now_ms = self._options.now_ms()
        for owned in self.owned.values():
            if owned.sweep_due_ms is not None and now_ms >= owned.sweep_due_ms:
                self.totals.rows_swept += await fence_late_rows(self._store, self._rehydrator, owned)
                if owned.number == RECEIPT_SHARD and owned.sweep_due_ms is None and not owned.gone:
                    # Receipts that the former owner stored after the takeover count as issued, and were not read then.
                    self.checkpointer.alert_sink.resume_receipts()
                return

    async def checkpoint(self, *, open_attempts: bool, snapshots_every: int = 1) -> bool:
        """Checkpoint all shards that need it; return False if it is not stored yet.

        `snapshots_every`: so many checkpoints of a shard have one snapshot at least.
        """
        if self.fault is not None:
            return False
        try:
            stored = await self.checkpointer.run(
                lambda: self._due(open_attempts=open_attempts, snapshots_every=snapshots_every)
            )
        except Exception as fault:  # noqa: BLE001 - a timer of Faust would swallow it and call again
            self.fail(fault)
            return False
        self._update_backpressure()
        return stored

    async def final_checkpoint(self) -> bool:
        """Store the last checkpoint before a rebalance or a stop; the next owner replays what it does not include."""
        if self.fault is not None or not self.owned or not self._consumer().is_member():
            return False
        for owned in self.owned.values():
            owned.shard.owe_books()
        storing = asyncio.ensure_future(self.store_all())
        await asyncio.wait({storing}, timeout=self._options.handover_timeout_ms / 1000)
        return storing.done() and storing.result()

    async def store_all(self, *, open_attempts: bool = False) -> bool:
        """Store the flight under way, then everything that came since."""
        stored = await self.checkpoint(open_attempts=False)
        if stored and open_attempts:
            stored = await self.checkpoint(open_attempts=True)
        while stored and self._left_over():
            await asyncio.sleep(0)
            stored = await self.checkpoint(open_attempts=False)
        return stored

    def _left_over(self) -> bool:
        """Whether another checkpoint would store more now; a shard that waits for archived jobs builds none."""
        return any(owned.left_over and not owned.repricing for owned in self.owned.values())

    async def store_until_done(self) -> None:
        """Store the final checkpoint of a log that has ended.

        Raises:
            Exception: The fault that stopped the meter, when the checkpoint can never be stored.
        """
        while not await self.store_all(open_attempts=True):
            if self.fault is not None:
                raise self.fault
            await asyncio.sleep(1)

    def _due(self, *, open_attempts: bool, snapshots_every: int = 1) -> Iterator[InFlightCheckpoint]:
        """Yield checkpoints of the shards that are due, up to the size of one flight; the others come first in the next."""
        as_of_ms, weight_bytes = self._options.as_of_ms(), 0
        for owned in list(self.owned.values()):
            if self.owned.get(owned.number) is not owned:
                continue
            if open_attempts:
                owned.open_as_of_ms = as_of_ms  # even if an accrual up to an earlier instant is unfinished
            if weight_bytes > self._options.flight_max_bytes:
                owned.left_over = owned.owes(as_of_ms)
                continue
            if self._options.look_between_ticks:
                owned.write_interim_rates(as_of_ms)
            while (taken := owned.checkpoint(as_of_ms, snapshots_every)) is not None:
                weight_bytes += taken.size_bytes
                self.owned[owned.number] = self.owned.pop(owned.number)  # moved to the end of the queue
                yield taken
                has_room = self._options.fill_flights and weight_bytes <= self._options.flight_max_bytes
                if not (has_room and owned.left_over and self.owned.get(owned.number) is owned):
                    break

    @property
    def backlog_bytes(self) -> int:
        """The size of what was read and is not stored."""
        return self.checkpointer.waiting_bytes + sum(owned.waiting_bytes for owned in self.owned.values())

    def _update_backpressure(self) -> None:
        """Pause reading while too much waits; start a checkpoint at half of that, so that reading need not pause."""
        if self.fault is None and self.backpressure.update(self.backlog_bytes):
            self.ingest.urgent.set()
