"""A worker process with counting shards and a store of files: `python -m tests.kafka.worker SETTINGS_JSON STORE_DIR`.

It must end only by a signal, or by a fault.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from pathlib import Path

from streams.clock import SystemClock
from streams.config.settings import KafkaSettings
from streams.engine.settings import ShardSettings
from streams.worker.log_time import LogTime
from streams.worker.meter import Meter
from streams.worker.options import ShardManagerOptions
from streams.worker.startup import stopped_by_signals
from tests.worker.fakes import counting_shards, file_store


def main() -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    kafka = KafkaSettings.model_validate_json(sys.argv[1])
    options = ShardManagerOptions(
        topic_prefix=kafka.topic_prefix,
        as_of_ms=lambda: 0,
        now_ms=lambda: time.monotonic_ns() // 1_000_000,
        log_time=LogTime(SystemClock()),
        checkpoint_interval_ms=300,
    )

    async def go() -> None:
        store = file_store(Path(sys.argv[2]))
        stop = asyncio.Event()

        async def stopped() -> None:
            await stop.wait()

        async with stopped_by_signals(stop):
            await Meter(kafka, ShardSettings(), options, store, counting_shards()).run(stopped)

    asyncio.run(go())


if __name__ == "__main__":
    main()
