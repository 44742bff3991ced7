"""`trainfare worker`: the meter against the configured Kafka and ClickHouse, until it is stopped."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path
from types import FrameType

from streams.cli.cycles import collect_rarely
from streams.cli.faults import DONE
from streams.cli.options import DataOption, PortOption, require_store
from streams.config.load import former_names, load_settings
from streams.config.settings import Settings
from streams.log import configure_logging

logger = logging.getLogger(__name__)


def worker(data: DataOption = None, port: PortOption = None) -> None:
    """Run a worker; up to kafka.partitions workers share the load."""
    exit_quietly_while_loading()
    settings = settings_of_service(data, port)
    from streams.worker.health.memory import share_arenas

    share_arenas()
    from streams.web.descriptors import raise_limit

    raise_limit()
    from streams.app import run_worker  # loads Faust, Kafka, ClickHouse and the kernels

    collect_rarely()
    run_worker(settings)


def settings_of_service(data: Path | None, port: int | None) -> Settings:
    """The settings of what runs until it is stopped, its log configured: that has a line for each former name of a setting.

    Raises:
        SettingsError: One or more settings are invalid.
        EngineMissing: The store is a directory, and the embedded ClickHouse is not installed.
    """
    settings = load_settings(os.environ, overrides={"clickhouse.data_dir": data, "web.port": port})
    require_store(settings)
    configure_logging(settings.log)
    for renamed, origin in former_names(os.environ):
        logger.warning(
            "a setting has another name now: rename it, the next minor version does not read the former one",
            extra={
                "former": renamed.former,
                "setting": renamed.name,
                "origin": origin,
                "runbook": "docs/upgrade.md#settings",
            },
        )
    return settings


def exit_quietly_while_loading() -> None:
    """Exit with 0 on SIGTERM until the event loop handles it: a cancelled rollout is an orderly end."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(DONE)

    signal.signal(signal.SIGTERM, end)
