"""What a fleet needs: `python -m loadtest.sizing --gpus 100000`. Arithmetic with figures that were measured; nothing is run.

docs/sizing.md has the figures with where they are from, and a table that this prints.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from typing import Final, NamedTuple

# docs/performance.md and docs/performance_at_size.md: measured.
CPU_US_A_MESSAGE: Final = 30  # live, with the store's part
CPU_AT_REST: Final = 0.012  # cores of a worker
WORKER_MIB: Final = 900  # before any GPU
GPU_BYTES: Final = 1_330
JOB_BYTES: Final = 10_000
NODE_BYTES: Final = 1_200 + 1_440 * 13  # with a day of its minutes
ROW_BYTES: Final = 5  # on disk
GPUS_A_PARTITION: Final = 20_000
MESSAGE_BYTES: Final = 320
BROKER_BYTES_S: Final = 100e6

# Chosen: change them to yours.
GPUS_A_NODE: Final = 8
SPARE: Final = 2  # half load
EVENT_OF_A_JOB_S: Final = 6  # a heartbeat each 15 s, traffic each 10 s
RETENTION_DAYS: Final = 90
USD_A_CPU_HOUR: Final = 0.04  # with 2 GB of memory
USD_A_GB_MONTH: Final = 0.08
HOURS_A_MONTH: Final = 730
#: From here on there are three of each service, so that one may fail: below it one machine has all of it (`trainfare serve`).
GPUS_OF_ONE_MACHINE: Final = 2_000
CPUS_OF_A_WORKER, CPUS_OF_A_BROKER, CPUS_OF_A_STORE = 2, 2, 4


class Sizing(NamedTuple):
    """What a fleet needs; `disk_gb` is of one ClickHouse server."""

    gpus: int
    interval_s: int
    messages_s: float
    cpu: float
    workers: int
    worker_gib: float
    partitions: int
    brokers: int
    stores: int
    disk_gb: float
    usd_a_month: float

    def row(self) -> str:
        """A row of the table of docs/sizing.md."""
        told = (
            f"{self.gpus:,}", f"{self.interval_s} s", f"{self.messages_s:,.0f}", f"{self.cpu:.2f}",
            f"{self.workers} x {self.worker_gib:.1f} GiB", f"{self.partitions}", f"{self.brokers or 'none'}",
            f"{self.stores or 'embedded'}", f"{self.disk_gb:,.0f} GB", f"${self.usd_a_month:,.0f}",
        )  # fmt: skip
        return f"| {' | '.join(told)} |"


def sizing(gpus: int, jobs: int, interval_s: int) -> Sizing:
    """What a fleet needs whose nodes report each `interval_s`, with so many jobs at a time."""
    nodes = math.ceil(gpus / GPUS_A_NODE)
    messages_s = nodes / interval_s + jobs / EVENT_OF_A_JOB_S
    cpu = messages_s * CPU_US_A_MESSAGE / 1e6
    is_small = gpus <= GPUS_OF_ONE_MACHINE
    workers = 1 if is_small else max(2, math.ceil(cpu * SPARE))
    cpu += workers * CPU_AT_REST
    state_bytes = gpus * GPU_BYTES + jobs * JOB_BYTES + nodes * NODE_BYTES
    # Of several workers one may fail: the others take its shards.
    share = state_bytes / max(workers - 1, 1)
    worker_gib = (WORKER_MIB * 2**20 + share) / 2**30
    partitions = max(8, 2 ** math.ceil(math.log2(gpus / GPUS_A_PARTITION)))
    brokers = 0 if is_small else max(3, math.ceil(3 * messages_s * MESSAGE_BYTES / BROKER_BYTES_S))
    stores = 0 if is_small else 3
    rows = nodes * 2 * 1_440 * RETENTION_DAYS
    disk_gb = max(rows * ROW_BYTES / 1e9, 1)
    cpus = workers * CPUS_OF_A_WORKER + brokers * CPUS_OF_A_BROKER + stores * CPUS_OF_A_STORE
    usd = cpus * USD_A_CPU_HOUR * HOURS_A_MONTH + disk_gb * max(stores, 1) * USD_A_GB_MONTH
    return Sizing(
        gpus, interval_s, messages_s, cpu, workers, worker_gib, partitions, brokers, stores, disk_gb, usd
    )


def main(arguments: Sequence[str] | None = None) -> None:
    """Print one row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpus", type=int, required=True)
    parser.add_argument("--jobs", type=int, help="at a time; a tenth of the GPUs by default")
    parser.add_argument("--interval-s", type=int, default=15)
    given = parser.parse_args(arguments)
    if given.gpus < 1 or given.interval_s < 1 or (given.jobs is not None and given.jobs < 0):
        parser.error("--gpus and --interval-s are at least 1, --jobs at least 0")
    jobs = given.gpus // 10 if given.jobs is None else given.jobs
    sys.stdout.write(sizing(given.gpus, jobs, given.interval_s).row() + "\n")


if __name__ == "__main__":
    main()
