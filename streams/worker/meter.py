"""Starts and stops the parts of one worker's meter together: the Faust app, the shard manager and the reference reader."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.events import ControlEvent
from sinks.port import Store
from streams.address_keys import AddressKeys
from streams.config.settings import KafkaSettings
from streams.engine.alerts.alert import Address
from streams.engine.pricing.book import PriceBook
from streams.engine.reference_log import ReferenceLog
from streams.engine.settings import ShardSettings
from streams.engine.shard.columns_ahead import ColumnsAhead
from streams.notify.notifier import Notifier
from streams.transport.faults import explained, is_explained
from streams.transport.faust_types import TP
from streams.transport.meter_app import Hooks, MeterApp, new_meter_app
from streams.transport.options import FetchOptions
from streams.transport.security import librdkafka_config
from streams.worker.ingest.watermarks import KafkaWatermarks, ReplayWatermarks
from streams.worker.newest_controls import NewestControls
from streams.worker.options import ShardManagerOptions
from streams.worker.reference.reference_reader import ReferenceChanges, ReferenceReader
from streams.worker.shard_manager import ShardManager
from streams.worker.shards.ports import ShardFactory
from streams.worker.storing.checkpoint_schedule import CheckpointSchedule
from streams.worker.storing.dead_letters import DeadLetterSink
from streams.worker.supervise import beside

logger = logging.getLogger(__name__)

# Longer than a final checkpoint takes, shorter than an orchestrator waits: an unreachable broker would block the stop
# forever.
_STOP_TIMEOUT_S = 15.0
_NO_TICK_MS = 1_000  # how often to poll while no shard has a next tick


@dataclass(frozen=True)
class LogOrigin:
    """Where the log of an embedded broker continues an earlier log; the log of any other broker begins at 0."""

    book: PriceBook = field(default_factory=PriceBook.empty)  # prices read from the earlier log
    reference: Mapping[str, int] = field(
        default_factory=dict
    )  # topic -> number of records in the earlier log
    # The broker received only records that the shards have not folded, so its first record is the next that each
    # awaits.
    at_next: bool = False
    controls: Mapping[bytes, ControlEvent] = field(default_factory=dict)  # controls read from the earlier log
    # Set by whoever feeds the log; None: watermarks come from the brokers' high watermarks.
    watermarks: ReplayWatermarks | None = None


#: Builds a notifier, given a function that looks up an owner's addresses.
NotifierOf = Callable[[Callable[[str], Sequence[Address]]], Notifier]


class Meter:
    """One worker's meter. Call `run` once."""

    def __init__(
        self,
        kafka: KafkaSettings,
        shard: ShardSettings,
        options: ShardManagerOptions,
        store: Store,
        factory: ShardFactory,
        *,
        dead_letters: DeadLetterSink | None = None,
        origin: LogOrigin | None = None,
        notifier: NotifierOf | None = None,
        address_keys: AddressKeys | None = None,
    ) -> None:
        self._kafka = kafka
        self._pace = CheckpointSchedule(options.checkpoint_interval_ms, options.now_ms())
        self._origin = origin = LogOrigin() if origin is None else origin
        # Shared with the consumer's thread. An entry is made before the partition is first sought, and never removed.
        self._base: dict[TP, int] = {}
        # tasks that apply reference changes; the event loop keeps only weak references
        self._taking: set[asyncio.Task[None]] = set()
        ahead = ColumnsAhead(shard.partitions)
        fetch = FetchOptions(
            topic_prefix=kafka.topic_prefix,
            start_offsets=self._start_offsets,
            fetch_min_bytes=kafka.fetch_min_bytes,
            fetch_max_wait_ms=kafka.fetch_max_wait_ms,
            checkpoint_in_ms=lambda: self._pace.left_ms(options.now_ms()),
            raw_batches=kafka.raw_batches,
            read_ahead=ahead.read,
            assigned=ahead.keep_only,
            base=self._base,
            log_now_ms=options.log_time.now_ms,
            decoded_max_bytes=options.max_backlog_bytes,
            too_far_ahead=lambda: self.shard_manager.ingest.too_far_ahead(),
            ends_with=self._ends_with,
        )
        self.app: MeterApp = new_meter_app(kafka, fetch)
        watermarks = origin.watermarks or KafkaWatermarks(
            lambda: self.app.meter_consumer, kafka.topic_prefix, options.log_time
        )
        reference = ReferenceLog(origin.book, origin.controls)
        self.shard_manager = ShardManager(
            store, factory, lambda: self.app.meter_consumer, options, dead_letters, watermarks, reference
        )
        self.addresses = NewestControls(self.shard_manager.reference, options.log_time.now_ms, address_keys)
        self.notifier = None if notifier is None else notifier(self.addresses.of)
        if self.notifier is not None:
            self.notifier.look_up_acknowledged(self.addresses.is_acknowledged)
            self.notifier.look_up_silenced(self.addresses.is_silenced)
            self.notifier.look_up_incidents(self.addresses.incident_of)
            self.notifier.look_up_teams(self.addresses.of_team)
            if origin.watermarks is None:  # nobody acknowledges what a log of the past tells
                self.notifier.look_up_escalations(self.addresses.escalation_of)
            self.shard_manager.checkpointer.alert_sink = self.notifier
        self.reader = ReferenceReader(
            librdkafka_config(kafka),
            kafka.topic_prefix,
            shard.newest_allowed_ms,
            self._on_reference_changes,
            self.shard_manager.fail,
            book=origin.book,
            controls=origin.controls,
            base=origin.reference,
            letters_per_minute=shard.dead_letters_per_minute,
            canary=shard.canary,
            backpressure=lambda: self.shard_manager.backpressure.is_open,
            # With fetch_min_bytes = 1 the broker is embedded and answers only when its wait is over.
            patient=kafka.fetch_min_bytes > 1,
        )
        self._wire(options)

    def _on_reference_changes(self, news: ReferenceChanges) -> None:
        """Apply changes from the reference reader. The event loop calls it and would only log an exception."""
        with self._no_escape():
            taking = self.shard_manager.on_reference_changes(news)
            self._taking.add(taking)
            taking.add_done_callback(self._taken)
            self.addresses.refresh()
            if self._origin.watermarks is not None:
                self._origin.watermarks.reference_next = news.positions

    def _taken(self, taking: asyncio.Task[None]) -> None:
        self._taking.discard(taking)
        if not taking.cancelled() and (fault := taking.exception()) is not None:
            self.shard_manager.fail(fault)

    def _ends_with(self, fault: Exception) -> bool:
        """Whether the fault has an explanation for users, and stop the meter with it."""
        if not is_explained(fault, self._kafka):
            return False
        self.shard_manager.fail(explained(fault, self._kafka))
        return True

    def _start_offsets(self, partitions: Iterable[TP]) -> Mapping[TP, int]:
        starts = self.shard_manager.start_offsets(partitions)
        if self._origin.at_next:
            for tp, offset in starts.items():
                self._base.setdefault(tp, offset)
        return {tp: offset - self._base.get(tp, 0) for tp, offset in starts.items()}

    def _wire(self, options: ShardManagerOptions) -> None:
        app, shard_manager = self.app, self.shard_manager
        app.before_reading = self.reader.start

        async def checkpoints() -> None:
            self._pace.start(options.now_ms())
            while not app.should_stop:
                if await self._checkpoint_is_due(options) and not app.rebalancing and not app.should_stop:
                    await shard_manager.tick(self._pace.snapshots_every)

        async def ticks() -> None:
            while options.tick_poll_ms is not None and not app.should_stop:
                until_ms = shard_manager.ingest.until_tick_ms()
                rest_ms = _NO_TICK_MS if until_ms is None else min(until_ms, _NO_TICK_MS)
                await app.sleep(max(rest_ms, options.tick_poll_ms) / 1000)
                if not app.rebalancing and not app.should_stop:
                    await shard_manager.judge_due()

        async def background() -> None:
            await asyncio.gather(checkpoints(), ticks())

        async def assigned(partitions: set[TP]) -> None:
            with self._no_escape():
                shard_manager.assigned(partitions, app.consumer_generation_id)

        async def complete() -> None:
            with self._no_escape():
                await shard_manager.restore_missing()

        async def leaving() -> None:
            with self._no_escape():
                await shard_manager.final_checkpoint()

        app.wire(Hooks(shard_manager.ingest_batches, background, assigned, complete, leaving))

    async def _checkpoint_is_due(self, options: ShardManagerOptions) -> bool:
        """Wait until the next checkpoint is due; return False if it can be postponed."""
        pace, ingest = self._pace, self.shard_manager.ingest
        stored_in_ms = self.shard_manager.checkpointer.stored_in_ms
        urgent = await ingest.rest(pace.plan(options.now_ms(), stored_in_ms) / 1000)
        if not urgent and (late_ms := pace.late_ms(options.now_ms(), ingest.fed_bytes)):
            urgent = await ingest.rest(late_ms / 1000)
        read, behind = (options.now_ms(), ingest.fed_bytes), ingest.is_behind()
        due = urgent or not pace.can_wait(*read, behind=behind)
        if due:
            pace.begins(*read, behind=behind)
        ingest.awaits_end = pace.is_slow
        return due

    @contextlib.contextmanager
    def _no_escape(self) -> Iterator[None]:
        """Stop the meter when a hook of Faust raises: Faust itself would crash without a clear message."""
        try:
            yield
        except Exception as fault:  # noqa: BLE001 - the point of it
            self.shard_manager.fail(fault)

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Start the meter, await `work`, stop the meter.

        Raises:
            TrainfareError: A fault with a known cause, explained in words.
            Exception: Any other fault, as it was raised.
        """
        notifier = self.notifier
        try:
            await beside(
                self._run(work), {} if notifier is None else {"the notifier of alerts": notifier.run()}
            )
        finally:
            if notifier is not None:
                await notifier.stop()  # after the final checkpoint, which may produce alerts

    async def _run(self, work: Callable[[], Awaitable[None]]) -> None:
        starting = asyncio.ensure_future(self.app.start())
        working = asyncio.ensure_future(work())
        failed = asyncio.ensure_future(self.shard_manager.failed.wait())
        try:
            await self._watch(starting, working, failed)
        finally:
            await self._stop(starting, failed)
            if not working.done():
                working.cancel()
            await asyncio.gather(working, failed, return_exceptions=True)
        if self.shard_manager.fault is not None:
            raise explained(self.shard_manager.fault, self._kafka)
        working.result()

    async def _watch(self, starting: asyncio.Future[None], *others: asyncio.Future[Any]) -> None:
        """Return when `work` is done or any other task has failed."""
        await asyncio.wait({starting, *others}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done() and not starting.cancelled() and starting.exception() is not None:
            self.shard_manager.fail(starting.exception())  # type: ignore[arg-type]  # checked in the line above
        if any(other.done() for other in others):
            return
        ended = asyncio.ensure_future(self.app.wait_until_stopped())
        await asyncio.wait({ended, *others}, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if self.app.crash_reason is not None:
            self.shard_manager.fail(self.app.crash_reason)

    async def _stop(self, *tasks: asyncio.Future[Any]) -> None:
        self.reader.request_stop()
        try:
            await asyncio.wait_for(self.app.stop(), _STOP_TIMEOUT_S)
        except Exception as fault:  # noqa: BLE001 - everything is either stored or will be replayed
            logger.warning("app did not stop in order", extra={"reason": repr(fault)})
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self.reader.stop()
