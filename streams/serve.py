"""Wires `trainfare serve`: a broker on a log in the data directory, and the worker of production on it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from schemas.durations import DAY_MS
from streams.app import run_worker
from streams.broker.broker import LocalBroker
from streams.broker.writers import LocalRecordLog
from streams.clock import Clock, SystemClock
from streams.config.live import ServeSettings
from streams.config.settings import Settings
from streams.segmented_log.log import LogOptions
from streams.web.record_log import Writers

_IN_THE_CLEAR: Final = "Sending username and password in the clear"  # within this process


def run_serve(settings: Settings, data: Path, clock: Clock | None = None) -> None:
    """Take events, keep them in the log of `data`, and meter them, until SIGTERM or SIGINT.

    Raises:
        TrainfareError: A fault that an operator must fix.
        SinkError: The directory is in use, or not this user's.
    """
    clock = SystemClock() if clock is None else clock
    logging.getLogger("aiokafka.conn").addFilter(lambda record: record.msg != _IN_THE_CLEAR)
    with LocalBroker(data, settings.kafka, log_options(settings.serve), clock) as broker:
        kafka = broker.worker_settings()
        writers = Writers(
            LocalRecordLog(broker.log, kafka.partitions, "events"),
            LocalRecordLog(broker.log, kafka.partitions, "controls"),
        )
        run_worker(settings.model_copy(update={"kafka": kafka}), clock, writers)


def log_options(serve: ServeSettings) -> LogOptions:
    """How long events are kept; 0 in the settings is forever."""
    return LogOptions(
        retention_ms=serve.retention_days * DAY_MS or None, retention_bytes=serve.retention_bytes or None
    )
