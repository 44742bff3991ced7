"""Makes the parts of a meter of settings: its engine, its store, its notifier.

It must not load the page or the Faust app: a replay has no use for them.
"""

from __future__ import annotations

import logging
import secrets
from dataclasses import replace

from schemas.durations import DAY_MS
from sinks.clickhouse import ClickHouseStore, Embedded, Target
from sinks.port import Store
from streams.clock import Clock
from streams.config.settings import ClickHouseSettings, MeterSettings, Settings
from streams.config.store_server import server_of
from streams.engine.kernels._jit import are_compiled
from streams.engine.kernels.warm import compile_all
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard
from streams.notify.from_settings import notifier_options
from streams.notify.notifier import Notifier
from streams.worker.meter import NotifierOf
from streams.worker.shards.ports import ShardFactory

logger = logging.getLogger(__name__)


def engine(settings: ShardSettings) -> ShardFactory:
    """The factory of engine shards, with compiled kernels: compiling later would delay heartbeats."""
    if not are_compiled():
        logger.info("compiling the kernels, once for each version: this takes about a minute of a core")
    compile_all()
    return lambda number, book, blobs: Shard.restore(number, settings, book, blobs, secrets.token_bytes(16))


def target_of(clickhouse: ClickHouseSettings, retry_for_s: float = 10.0) -> Target:
    """Where the configured store is: a server, or a directory."""
    if clickhouse.data_dir is not None:
        return Embedded(data_dir=clickhouse.data_dir, database=clickhouse.database, retry_for_s=retry_for_s)
    return server_of(clickhouse, retry_for_s)


def open_store(clickhouse: ClickHouseSettings) -> ClickHouseStore:
    """Open the configured store.

    Raises:
        SinkError: It cannot be opened.
    """
    return ClickHouseStore(target_of(clickhouse))


def shard_settings(meter: MeterSettings, run_start_ms: int | None = None) -> ShardSettings:
    """The engine's part of the settings."""
    return ShardSettings(
        job_horizon_ms=meter.job_horizon_ms,
        late_horizon_ms=meter.late_horizon_ms,
        dedupe_horizon_ms=meter.dedupe_horizon_ms,
        run_start_ms=run_start_ms,
        max_idle_gpus=meter.max_idle_gpus,
        # The bad lines of a file are limited by the file; a log has no end.
        dead_letters_per_minute=meter.dead_letters_per_minute if run_start_ms is None else None,
    )


def notifier_of(
    settings: Settings, store: Store, clock: Clock, *, resolved_horizon_ms: int | None = DAY_MS
) -> NotifierOf:
    """A function that builds the meter's notifier, given the lookup of addresses."""
    options = replace(notifier_options(settings), resolved_horizon_ms=resolved_horizon_ms)
    return lambda addresses: Notifier(store, addresses, options, clock)
