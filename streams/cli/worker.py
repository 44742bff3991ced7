"""`trainfare worker`: the meter against the configured Kafka and ClickHouse, until it is stopped.

It must not wire anything: `streams.app` does.
"""

from __future__ import annotations

from streams.cli.options import DataOption, settings_for
from streams.log import configure_logging


def worker(data: DataOption = None) -> None:
    """Run the meter; start as many as you like, up to kafka.partitions of them share the work."""
    settings = settings_for(data)
    configure_logging(settings.log)
    from streams.app import run_worker  # loads Faust, Kafka, ClickHouse and the kernels

    run_worker(settings)
