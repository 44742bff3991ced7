"""Wires `trainfare serve`: a broker on a log in the data directory, and the worker of production on it."""

from __future__ import annotations

import logging
from contextlib import closing
from pathlib import Path
from typing import Final

from schemas.durations import DAY_MS
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.errors import StoreMismatch
from streams.app import run_worker
from streams.broker.broker import LocalBroker
from streams.broker.writers import LocalRecordLog
from streams.clock import Clock, SystemClock
from streams.config.serving import ServeSettings
from streams.config.settings import Settings
from streams.from_settings import target_of
from streams.segmented_log.directory import DIRECTORY, how_to_go_on, lacks_log
from streams.segmented_log.log import LogOptions
from streams.web.record_log import Writers

_IN_THE_CLEAR: Final = "Sending username and password in the clear"  # within this process


def run_serve(settings: Settings, data: Path, clock: Clock | None = None) -> None:
    """Take events, keep them in the log of `data`, and meter them, until SIGTERM or SIGINT.

    Raises:
        TrainfareError: A fault that an operator must fix.
        SinkError: The directory is in use, not this user's, or has a store of another log.
    """
    clock = SystemClock() if clock is None else clock
    _check_store(settings, data)
    logging.getLogger("aiokafka.conn").addFilter(lambda record: record.msg != _IN_THE_CLEAR)
    with LocalBroker(data, settings.kafka, log_options(settings.serve), clock) as broker:
        kafka = broker.worker_settings()
        writers = Writers(
            LocalRecordLog(broker.log, kafka.partitions, "events"),
            LocalRecordLog(broker.log, kafka.partitions, "controls"),
        )
        run_worker(settings.model_copy(update={"kafka": kafka}), clock, writers)


def _check_store(settings: Settings, data: Path) -> None:
    """Check, before a log is made beside it, that a store was not made from another log.

    Raises:
        StoreMismatch: It was, e.g. from replayed files.
    """
    target = target_of(settings.clickhouse)
    if not isinstance(target, Embedded) or (data / DIRECTORY).exists() or not target.engine_dir.is_dir():
        return
    with closing(ClickHouseStore(target)) as store:
        log = store.meta.get("log")
    if log is None:
        return
    shows = f"`trainfare serve --data {data} --read-only` shows this one on the page"
    if lacks_log(data, log):
        raise StoreMismatch(
            f"{data} has a store without its log, which `serve` goes on from: {how_to_go_on(data)}; {shows}"
        )
    raise StoreMismatch(
        f"{data} has a store of another log ({log}), which `serve` cannot go on with: give it a directory of its own; {shows}"
    )


def log_options(serve: ServeSettings) -> LogOptions:
    """How long events are kept; 0 in the settings is forever."""
    return LogOptions(
        retention_ms=serve.retention_days * DAY_MS or None, retention_bytes=serve.retention_bytes or None
    )
