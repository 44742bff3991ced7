"""The Faust app of every meter: our transport, no tables, no web server, nothing on disk."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

import faust
import faust.app.base
from faust.sensors import Monitor
from faust.tables.manager import TableManager

from streams.config.settings import KafkaSettings
from streams.engine.batch import LogBatch
from streams.topics import SHARD_TOPICS, full_name, partition_count
from streams.transport.allocator import keep_freed_memory
from streams.transport.assignor import MeterAssignor
from streams.transport.consumer import Consumer, Transport
from streams.transport.faust_types import TP
from streams.transport.options import FetchOptions
from streams.transport.security import faust_brokers, faust_credentials
from streams.transport.versions import refuse_other_versions

_BATCHES_BUFFERED = 32  # Faust counts messages, and each of ours is a whole fetch of a shard
_PARTITION_FETCH_BYTES = 2 * 2**20


class NoTables(TableManager):
    """Faust's table manager drives the end of every rebalance; without tables it has nothing to wait for."""

    async def on_start(self) -> None:
        """Start as Faust does, without its one-second wait for tables."""
        await self._update_channels()
        await self.recovery.start()


class NoMonitor(Monitor):
    """Disables Faust's monitor, which records each message; our metrics come from the shard manager."""

    def on_message_in(self, tp: TP, offset: int, message: Any) -> None:
        """Do nothing."""

    def on_stream_event_in(self, tp: TP, offset: int, stream: Any, event: Any) -> None:
        """Do nothing."""

    def on_stream_event_out(self, tp: TP, offset: int, stream: Any, event: Any, state: Any = None) -> None:
        """Do nothing."""

    def on_message_out(self, tp: TP, offset: int, message: Any) -> None:
        """Do nothing."""


@dataclass(frozen=True)
class Hooks:
    """The callbacks of the app."""

    take: Callable[[*tuple[LogBatch, ...]], Awaitable[None]]  # batches of one shard, of different topics
    background: Callable[[], Awaitable[None]]  # once, from the first assignment on
    assigned: Callable[[set[TP]], Awaitable[None]]  # in a rebalance, when the new partitions are known
    complete: Callable[[], Awaitable[None]]  # at its end, before seeking and fetching
    leaving: Callable[
        [], Awaitable[None]
    ]  # before a rebalance and before the stop, while commits are possible


class MeterApp(faust.App):
    """`before_reading` is awaited once, before any Kafka client runs."""

    fetch_options: FetchOptions
    wanted_partitions: Mapping[
        str, int
    ]  # full topic name -> partitions: an assignment without any of them is none
    before_reading: Callable[[], Awaitable[None]] | None = None
    _handlers: tuple[object, ...] = ()

    def wire(self, hooks: Hooks) -> None:
        """Create the only agent, on one channel over all topics of a shard; Faust acknowledges nothing of it."""
        names = [full_name(topic, self.fetch_options.topic_prefix) for topic in SHARD_TOPICS]
        channel = self.topic(*names, key_type=None, value_type=None, value_serializer=None, acks=False)

        async def meter(stream: Any) -> None:
            async for batches in stream:
                # A fold blocks the event loop: let Faust request the next fetch before it.
                await asyncio.sleep(0)
                for _, of_one_shard in groupby(batches, key=attrgetter("partition")):
                    await hooks.take(*of_one_shard)

        async def assigned(_app: Any, assigned: set[TP], **_: Any) -> None:
            await hooks.assigned(assigned)

        async def complete(_app: Any, **_: Any) -> None:
            await hooks.complete()

        async def revoked(_app: Any, revoked: set[TP], **_: Any) -> None:
            await hooks.leaving()

        async def stopping(_app: Any, **_: Any) -> None:
            await hooks.leaving()

        # Faust looks up where its own decorators are defined, among all modules; with its file known that is found at once.
        inspect.modulesbyfile.setdefault(inspect.getabsfile(faust.app.base), faust.app.base.__name__)
        self.agent(channel, name="meter")(meter)
        self.task(hooks.background)
        for name, handler in {
            "on_partitions_assigned": assigned,
            "on_rebalance_complete": complete,
            "on_partitions_revoked": revoked,
            "on_before_shutdown": stopping,
        }.items():
            getattr(self, name).connect(handler)
        # Faust holds its signal handlers by weak references.
        self._handlers = (assigned, complete, revoked, stopping)

    def _new_transport(self) -> Any:
        return Transport(self.conf.broker_consumer, self)

    async def on_first_start(self) -> None:
        """Delay everything until the reference topics are read; Faust's data directory is not created."""
        if self.before_reading is not None:
            await self.before_reading()

    @property
    def meter_consumer(self) -> Consumer:
        """Our consumer with its own type."""
        consumer = self.consumer
        assert isinstance(consumer, Consumer)
        return consumer


def new_meter_app(kafka: KafkaSettings, options: FetchOptions) -> MeterApp:
    """Create an app for one group; it is not started and has no agent yet."""
    refuse_other_versions()
    keep_freed_memory()
    app = MeterApp(
        kafka.group_id,
        broker=faust_brokers(kafka),
        broker_credentials=faust_credentials(kafka),
        broker_session_timeout=kafka.session_timeout_ms / 1000,
        broker_heartbeat_interval=kafka.heartbeat_interval_ms / 1000,
        consumer_group_instance_id=kafka.group_instance_id,
        consumer_max_fetch_size=_PARTITION_FETCH_BYTES,
        # An offset that was deleted by retention stops the worker; any other policy would skip records silently.
        consumer_auto_offset_reset="none",
        # Faust's own assignor, which keeps equal partition numbers together, is used only with standby replicas.
        table_standby_replicas=1,
        stream_buffer_maxsize=_BATCHES_BUFFERED,
        stream_wait_empty=False,
        store="memory://",
        PartitionAssignor=MeterAssignor,
        TableManager=NoTables,
        Monitor=NoMonitor,
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        web_enabled=False,
        worker_redirect_stdouts=False,
    )
    app.fetch_options = options
    app.wanted_partitions = {
        full_name(topic, kafka.topic_prefix): partition_count(topic, kafka.partitions)
        for topic in SHARD_TOPICS
    }
    return app
