"""What a measurement stands on: a real broker with our topics, and the machine."""

from __future__ import annotations

import os
import platform
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import FrameType

from streams.config.settings import ClickHouseSettings, KafkaSettings, Settings
from streams.transport.admin import connect, create_topics
from tests.kafka.broker import VERSION, KafkaBroker, why_not

ROOT = Path(__file__).resolve().parent.parent
PARTITIONS = 8
START_S = 300.0  # it may compile its kernels first


class WorldError(Exception):
    """The run cannot be done here; the message says why."""


@contextmanager
def broker(directory: Path) -> Iterator[KafkaBroker]:
    """Run a broker with a log of its own."""
    reason = why_not()
    if reason is not None:
        raise WorldError(reason)
    directory.mkdir(parents=True)
    running = KafkaBroker(directory)
    running.start()
    try:
        yield running
    finally:
        running.stop()


def settings_for(bootstrap_servers: str, data_dir: Path) -> Settings:
    """Create the topics; the worker's settings for them: all defaults but where things are."""
    kafka = KafkaSettings(bootstrap_servers=bootstrap_servers, partitions=PARTITIONS)
    create_topics(kafka, connect(kafka))
    return Settings(kafka=kafka, clickhouse=ClickHouseSettings(data_dir=data_dir))


def end_in_order() -> None:
    """Let SIGTERM end this process as Ctrl-C does: a broker and a worker would go on by themselves."""

    def end(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    signal.signal(signal.SIGTERM, end)


def machine() -> dict[str, object]:
    """What the figures depend on besides our code."""
    return {
        "cpu": _first("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": os.cpu_count(),
        "memory_mib": int((_first("/proc/meminfo", "MemTotal") or "0 kB").split()[0]) // 1024,
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "python": platform.python_version(),
        "kafka": VERSION,
        **{
            name: version(name)
            for name in ("chdb-core", "faust-streaming", "aiokafka", "confluent-kafka", "numba")
        },
    }


def _first(path: str, name: str) -> str | None:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), None)
