"""The Faust consumer that delivers one object per shard and fetch, and starts at offsets that it is given.

The private names of Faust and aiokafka that it uses are in tests/transport/pins.py.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from typing import Any, Final, cast

from aiokafka import TopicPartition
from aiokafka.errors import KafkaError, NoOffsetForPartitionError
from faust.transport.drivers import aiokafka as driver
from faust.types.tuples import ConsumerMessage

from streams.engine.batch import LogBatch, LogRecord
from streams.engine.raw_records import RawRecords
from streams.errors import TrainfareError
from streams.transport import large_responses, raw_fetch
from streams.transport.answers import Answers, LogEnd
from streams.transport.asking_again import AskingAgain
from streams.transport.bootstrap import Bootstrap
from streams.transport.decompressed import DecompressedBytes
from streams.transport.faust_types import TP
from streams.transport.fetch_wait import FetchWait, OtherPartitionsError, finish_waits, readable_end
from streams.transport.membership import NO_GENERATION, Membership
from streams.transport.messages import NoReadOffsets, messages_of
from streams.transport.momentary import Momentary
from streams.transport.options import FetchOptions
from streams.transport.whole_metadata import WholeMetadata

logger = logging.getLogger(__name__)

#: What mode logs as an error wherever its loop had no turn for three seconds, as in a replay that computes.
LATE_TURN: Final = "Thread keepalive is not responding..."


def say_late_turns(record: logging.LogRecord) -> bool:
    """Log a late turn of the event loop as what it is, where the log has such notes; nothing is lost by it."""
    if LATE_TURN not in str(record.msg):
        return True
    record.levelno, record.levelname = logging.INFO, logging.getLevelName(logging.INFO)
    record.msg, record.args = (
        "the event loop had no turn for 3 s: the machine is busy, or was suspended; reading goes on",
        (),
    )
    return logger.isEnabledFor(logging.INFO)


logger.addFilter(say_late_turns)

_BUSY_POLL_S = 0.005  # while a partition's buffer is full; Faust would sleep a second
_IDLE_POLL_S = 1.0  # no buffer is full: a fetch response wakes the wait
_HELD_POLL_S = 0.25  # while a partition is paused for being too far ahead, or after a fault
_CONFIRM_POLL_S = 0.02
_HANDED_OVER_S = 0.05  # longer than any batch takes from the fetcher to `_fetched_to`


class ConsumerThread(driver.AIOKafkaConsumerThread):
    """Runs in the consumer thread's loop; `_fetched_to` is changed only there, in the same step as a fetch or seek."""

    fetch_options: FetchOptions
    _fetched_to: dict[TP, int]
    membership: Membership
    _whole: WholeMetadata
    _asking_again: AskingAgain
    _answers: Answers
    _decoded: DecompressedBytes
    _behind: dict[TP, tuple[int, int, float]]  # (position, offset delivered, since when)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fetch_options = cast("Any", self.app).fetch_options
        self._fetched_to = {}
        conf = self.app.conf
        self.membership = Membership(
            conf.broker_session_timeout, conf.consumer_group_instance_id, self._displaced
        )
        app = cast("Any", self.app)
        self._whole = WholeMetadata(app.wanted_partitions, self._displaced)
        self._asking_again = AskingAgain(app.assignor, conf.broker_session_timeout, self._whole)
        self._behind = {}
        self._answers, self._decoded = Answers(), DecompressedBytes(self.fetch_options.decoded_max_bytes)

    async def on_start(self) -> None:
        """Start the consumer, and track its membership from then on."""
        await super().on_start()
        consumer = self._ensure_consumer()
        self.membership.watch(consumer._coordinator)
        self._asking_again.watch(consumer._coordinator)
        if self.fetch_options.raw_batches:
            raw_fetch.watch(consumer._fetcher)
        if self.fetch_options.fetch_min_bytes > 1:
            FetchWait(self.fetch_options.checkpoint_in_ms, self.fetch_options.log_now_ms).watch(
                consumer._fetcher
            )
        self._answers.watch(consumer._fetcher)
        self._decoded.watch(consumer._fetcher)

    def _displaced(self, fault: TrainfareError) -> None:
        self.app.loop.call_soon_threadsafe(self.fetch_options.ends_with, fault)

    def _create_worker_consumer(self, transport: driver.Transport) -> Any:
        consumer = super()._create_worker_consumer(transport)
        # AIOKafkaConsumer.start() reads these later.
        consumer._isolation_level = self.fetch_options.isolation_level
        consumer._fetch_max_wait_ms = self.fetch_options.fetch_max_wait_ms
        consumer._fetch_min_bytes = self.fetch_options.fetch_min_bytes
        consumer._fetch_max_bytes = self.fetch_options.fetch_max_bytes
        Bootstrap(lambda: self.should_stop).watch(consumer._client)
        self._whole.watch(consumer._client)
        Momentary().watch(consumer._client)
        if self.fetch_options.raw_batches:
            large_responses.watch(consumer._client)
            consumer._value_deserializer = raw_fetch.AsRaw(self._decoded, self._read_ahead)
        # How often to check for fetches without another trigger; 0.2 s by default.
        consumer._consumer_timeout = _IDLE_POLL_S
        return consumer

    def _read_ahead(self, tp: TP, records: RawRecords) -> None:
        topic = tp.topic.removeprefix(self.fetch_options.topic_prefix)
        self.fetch_options.read_ahead(topic, tp.partition, records)

    async def on_partitions_revoked(self, revoked: set[TP]) -> None:
        """Deliver nothing of these partitions before they are sought again."""
        self._fetched_to.clear()
        finish_waits(self._ensure_consumer()._fetcher)
        await super().on_partitions_revoked(revoked)

    async def on_partitions_assigned(self, assigned: set[TP], generation_id: int = 0) -> None:
        """Record that joining succeeded, which counts as a heartbeat."""
        self.membership.joined()
        self._asking_again.assigned()
        self.fetch_options.assigned({tp.partition for tp in assigned})
        finish_waits(self._ensure_consumer()._fetcher)
        await super().on_partitions_assigned(assigned, generation_id)

    @property
    def generation(self) -> int:
        """The group generation; -1: none."""
        coordinator = self._ensure_consumer()._coordinator
        # While it stops, the consumer has no coordinator any more, and is a member of no group.
        return NO_GENERATION if coordinator is None else int(coordinator.generation)

    def is_member(self) -> bool:
        """Whether the group may still count us as a member: a worker frozen past its session must write nothing."""
        return self.generation != NO_GENERATION and self.membership.is_recent()

    def ask_again(self) -> None:
        """Join the group again, so that its leader assigns anew; any thread may call it."""
        self.thread_loop.call_soon_threadsafe(self._asking_again.ask)

    async def _seek_wait(self, consumer: Any, partitions: Mapping[TP, int]) -> None:
        self._fetched_to.update(partitions)
        await super()._seek_wait(consumer, partitions)

    async def _fetch_records(
        self,
        consumer: Any,
        active_partitions: set[TP],
        timeout: float | None = None,  # noqa: ASYNC109 - Faust's signature
        max_records: int | None = None,
    ) -> Any:
        try:
            fetched = await super()._fetch_records(consumer, active_partitions, timeout, max_records)
        except OtherPartitionsError:
            return {}
        except NoOffsetForPartitionError:
            # The reset policy is 'none', and a fetch was in flight while a newly assigned partition was not sought yet.
            if consumer.assignment() - set(self._fetched_to):
                return {}
            raise
        batches: list[tuple[TP, LogBatch]] = []
        assignment = consumer._subscription.subscription.assignment
        for tp, records in fetched.items():
            if not records or tp not in self._fetched_to:
                continue
            start = self._fetched_to[tp]
            end = self._fetched_to[tp] = assignment.state_value(tp).position
            batches.append((tp, self._batch(tp, start, end, records)))
        return messages_of(batches)

    def _batch(self, tp: TP, start: int, end: int, records: list[Any]) -> LogBatch:
        base = self.fetch_options.base.get(tp, 0)
        raw = raw_fetch.only_raw(records)
        if raw is not None:
            raw.offsets += base
        elif base:
            records = [LogRecord(r.offset + base, r.timestamp, r.value, r.headers) for r in records]
        topic = tp.topic.removeprefix(self.fetch_options.topic_prefix)
        return LogBatch(topic, tp.partition, start + base, end + base, records if raw is None else raw)

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of the partition as of the last fetch response; any thread may call it."""
        subscription = self._ensure_consumer()._subscription.subscription
        assignment = None if subscription is None else subscription.assignment
        state = None if assignment is None else assignment.state_value(tp)
        fetched_to = self._fetched_to.get(tp)
        if state is None or state.timestamp is None or not state.has_valid_position or fetched_to is None:
            return None
        # Read the instant first, as the other thread sets it last: a response in between is then returned with the
        # earlier instant, never an old end with a new instant.
        answered_ms = self._answers.at_ms(tp)
        if answered_ms is None:
            return None
        end, high_watermark = readable_end(state), int(state.highwater)
        position = int(state.position)
        if fetched_to < end <= position:
            # Only markers, which make no batch; or a batch that the other thread is delivering.
            seen = self._behind.setdefault(tp, (position, fetched_to, time.monotonic()))
            if seen[:2] != (position, fetched_to):
                del self._behind[tp]
            elif time.monotonic() - seen[2] > _HANDED_OVER_S:
                read_all = position >= high_watermark
                return LogEnd(fetched_to, fetched_to if read_all else high_watermark, answered_ms)
            return None
        return LogEnd(end, high_watermark, answered_ms)

    async def commit_next(self, offsets: Mapping[TP, int], timeout_s: float) -> bool:
        """Commit offsets of partitions that are still ours; return False if refused. Never raises."""

        async def send() -> bool:
            try:
                consumer = self._ensure_consumer()
                assigned = consumer.assignment()
                ours = {TopicPartition(*tp): offset for tp, offset in offsets.items() if tp in assigned}
                if not ours:
                    return False
                await asyncio.wait_for(consumer.commit(ours), timeout_s)
            except (KafkaError, TimeoutError) as error:
                logger.warning(
                    "commit refused",
                    extra={"reason": repr(error), "runbook": "docs/trouble.md#kafka-unavailable"},
                )
                return False
            return True

        return bool(await self.call_thread(send))


class Consumer(driver.Consumer):
    """Faust's consumer with whole fetches as messages, its own start offsets and no tracking of acknowledgements."""

    _thread: ConsumerThread

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._read_offset = NoReadOffsets()

    def _new_consumer_thread(self) -> ConsumerThread:
        return ConsumerThread(self, loop=self.loop, beacon=self.beacon)

    def _to_message(self, tp: TP, record: Any) -> ConsumerMessage:
        batches = cast("list[LogBatch]", record)
        last = batches[0].records[-1]
        # Faust compares message offsets with its seek positions, which are the broker's offsets.
        offset = last.offset - self._thread.fetch_options.base.get(tp, 0)
        return ConsumerMessage(
            tp.topic,
            tp.partition,
            offset,
            last.timestamp / 1000.0,
            0,
            [],
            None,
            cast("Any", batches),
            None,
            0,
            0,
            tp,
            generation_id=self.app.consumer_generation_id,
        )

    async def _wait_next_records(  # Faust's signature
        self,
        timeout: float,  # noqa: ASYNC109 - Faust's signature
    ) -> tuple[Any, set[TP] | None]:
        """Wait as Faust does, without its sleeps of one second."""
        if not self.flow_active:
            await self.wait(cast("Any", self.can_resume_flow))
        held_back = self._thread.fetch_options.too_far_ahead()
        active = self._get_active_partitions() - held_back
        poll_s = _BUSY_POLL_S if self._buffered_partitions else _HELD_POLL_S if held_back else _IDLE_POLL_S
        if not active:
            await self.sleep(_BUSY_POLL_S)
            return {}, active
        try:
            return await self._getmany(active_partitions=active, timeout=min(timeout, poll_s)), active
        except KafkaError as fault:
            if not self._thread.fetch_options.ends_with(fault):
                raise
            await self.sleep(_HELD_POLL_S)
            return {}, active

    async def seek_to_committed(self) -> Mapping[TP, int]:
        """Seek to our own positions; Faust calls this at the end of every rebalance, for retained partitions, too."""
        start = dict(self._thread.fetch_options.start_offsets(self.assignment()))
        if start:
            await self.seek_wait(start)
        return start

    async def verify_all_partitions_active(self) -> None:
        """Do nothing: Faust's check knows acknowledgements only, and would report a paused partition as a fault."""

    async def refetch(self, tp: TP, log_offset: int) -> None:
        """Seek `tp` to an offset of the log."""
        try:
            await self.seek_wait({tp: log_offset - self._thread.fetch_options.base.get(tp, 0)})
        except KafkaError:
            logger.debug(
                "partition was revoked before it could be read again",
                extra={"topic": tp.topic, "partition": tp.partition, "offset": log_offset},
            )

    async def commit_next(self, next_offsets: Mapping[TP, int], timeout_s: float = 5.0) -> bool:
        """Commit {partition: next log offset to read}; unlike Faust's `_commit` it never stops the worker."""
        base = self._thread.fetch_options.base
        return await self._thread.commit_next(
            {tp: offset - base.get(tp, 0) for tp, offset in next_offsets.items()}, timeout_s
        )

    def is_member(self) -> bool:
        """Whether the group may still count us as a member."""
        return self._thread.is_member()

    def ask_again(self) -> None:
        """Join the group again: shards were seen without an owner."""
        self._thread.ask_again()

    async def confirm(self, generation: int) -> bool:
        """Wait for a heartbeat response; return whether the group is in this generation at some instant from now on."""
        since_s = time.monotonic()
        while not self._thread.membership.confirmed(generation, since_s):
            if not self.is_member() or self._thread.generation != generation:
                return False
            await asyncio.sleep(_CONFIRM_POLL_S)
        return True

    def log_end(self, tp: TP) -> LogEnd | None:
        """The end of the partition in the log as of the last fetch response."""
        end, base = self._thread.log_end(tp), self._thread.fetch_options.base.get(tp, 0)
        return end and LogEnd(end.readable + base, end.high_watermark + base, end.answered_ms)


class Producer(driver.Producer):
    """Faust starts one with every app; nothing is sent with it."""

    def _new_producer(self, transactional_id: str | None = None) -> Any:
        producer = super()._new_producer(transactional_id)
        Bootstrap(lambda: self.should_stop).watch(producer.client)
        return producer


class Transport(driver.Transport):
    """Faust's aiokafka transport with the consumer and producer above."""

    Consumer = Consumer
    Producer = Producer
