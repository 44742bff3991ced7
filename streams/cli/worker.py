"""`trainfare worker`: the meter against the configured Kafka and ClickHouse, until it is stopped."""

from __future__ import annotations

import signal
import sys
from types import FrameType

from streams.cli.cycles import collect_rarely
from streams.cli.faults import DONE
from streams.cli.options import DataOption, require_store, settings_for
from streams.log import configure_logging


def worker(data: DataOption = None) -> None:
    """Run a worker; up to kafka.partitions workers share the load."""
    exit_quietly_while_loading()
    settings = settings_for(data)
    require_store(settings)
    configure_logging(settings.log)
    from streams.worker.health.memory import share_arenas

    share_arenas()
    from streams.web.descriptors import raise_limit

    raise_limit()
    from streams.app import run_worker  # loads Faust, Kafka, ClickHouse and the kernels

    collect_rarely()
    run_worker(settings)


def exit_quietly_while_loading() -> None:
    """Exit with 0 on SIGTERM until the event loop handles it: a cancelled rollout is an orderly end."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(DONE)

    signal.signal(signal.SIGTERM, end)
