"""`trainfare prices load FILE`: publishes price records.

It must not publish part of a file with any fault.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from streams.cli.files import must_exist
from streams.cli.options import settings_for
from streams.cli.price_files import price_records
from streams.clock import SystemClock
from streams.topics import Topic


def load(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="JSON lines, a JSON array, or CSV with a header.")
    ],
) -> None:
    """Publish price records; workers apply them immediately, also to usage already metered."""
    settings = settings_for()
    must_exist([file])
    records = price_records(file, SystemClock().now_ms())
    from streams.cli.producer import LogProducer  # loads Kafka clients; not needed to refuse a file

    with LogProducer(settings.kafka) as producer:
        for record in records:
            producer.send(Topic.PRICES, record.key, record.value)
    sys.stdout.write(f"{producer.acknowledged} prices acknowledged by {settings.kafka.bootstrap_servers}\n")
