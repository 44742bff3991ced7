"""The whole meter wired: Faust's app, the keeper of shards, the reference reader and the store.

It must not hold logic of its own: what happens to a record is `streams.pipeline`, when it is stored `streams.agents`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from sinks.clickhouse import ClickHouseStore, Embedded, Server, Target
from sinks.meta import Meta
from streams.agents.deadletters import DeadLetterProducer
from streams.agents.meter import Meter, until_signalled
from streams.agents.options import KeeperOptions
from streams.agents.ports import ShardFactory
from streams.clock import Clock, SystemClock
from streams.config import ClickHouseSettings, KafkaSettings, MeterSettings, Settings
from streams.kernels.warm import compile_all
from streams.pipeline.settings import ShardSettings
from streams.pipeline.shard import Shard
from streams.pricing.book import PriceBook
from streams.topics import full_name
from streams.transport.admin import DEAD_LETTER_TOPIC, check_topics, connect
from streams.transport.security import librdkafka_config


def engine(settings: ShardSettings) -> ShardFactory:
    """The shards of the real engine, compiled: doing so later would hold up heartbeats."""
    compile_all()

    def make(number: int, book: PriceBook, blobs: Any) -> Shard:
        return Shard.restore(number, settings, book, blobs)

    return make


def open_store(clickhouse: ClickHouseSettings) -> ClickHouseStore:
    """Open the configured store: a server, or the one in a directory."""
    target: Target
    if clickhouse.data_dir is None:
        target = Server(
            url=clickhouse.url,
            database=clickhouse.database,
            user=clickhouse.user,
            password=clickhouse.password.get_secret_value(),
        )
    else:
        target = Embedded(data_dir=clickhouse.data_dir, database=clickhouse.database)
    return ClickHouseStore(target)


def shard_settings(meter: MeterSettings, run_start_ms: int | None = None) -> ShardSettings:
    """The engine's part of the settings."""
    return ShardSettings(
        job_horizon_ms=meter.job_horizon_ms,
        late_horizon_ms=meter.late_horizon_ms,
        dedupe_horizon_ms=meter.dedupe_horizon_ms,
        run_start_ms=run_start_ms,
    )


def claim(meta: Meta, kafka: KafkaSettings, cluster_id: str) -> None:
    """A store belongs to one log, and a job to one shard: another cluster or partition count would mix them up."""
    log = f"topics {kafka.topic_prefix}* of Kafka cluster {cluster_id}"
    meta.claim("log", log, "give each log a store of its own")
    meta.claim("partitions", str(kafka.partitions), "the partition count of a log cannot change")


def run_worker(settings: Settings, clock: Clock | None = None) -> None:
    """Meter the configured log until SIGTERM or SIGINT; raises TrainfareError for what a person can mend."""
    the_clock = SystemClock() if clock is None else clock
    kafka, meter = settings.kafka, settings.meter
    client = connect(kafka)
    check_topics(kafka, client)
    store = open_store(settings.clickhouse)
    try:
        claim(store.meta, kafka, str(client.list_topics(timeout=10).cluster_id))
        options = KeeperOptions(
            topic_prefix=kafka.topic_prefix,
            as_of_ms=(lambda: the_clock.now_ms())
            if meter.as_of_ms is None
            else (lambda: meter.as_of_ms or 0),
            now_ms=the_clock.monotonic_ms,
            checkpoint_interval_ms=meter.checkpoint_interval_ms,
            backlog_max_bytes=meter.backlog_max_bytes,
        )
        dead_letters = DeadLetterProducer(
            librdkafka_config(kafka), full_name(DEAD_LETTER_TOPIC, kafka.topic_prefix)
        )

        shard = shard_settings(meter)

        async def serve() -> None:
            worker = Meter(kafka, shard, options, store, engine(shard), dead_letters=dead_letters)
            await worker.run(until_signalled)

        asyncio.run(serve())
    finally:
        store.close()
