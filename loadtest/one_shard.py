"""How fast one shard meters on this machine: decode, fold and rows, without Kafka and ClickHouse.

It prints what it measured, and the load it measured it under.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence

from schemas.decode import decode
from schemas.events import PriceEvent
from streams.engine.batch import LogBatch, LogRecord
from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.shard import Shard

T0_MS = 1_772_366_400_000
GPUS = 8
INTERVAL_MS = 10_000
BATCH = 2_000


def main(argv: Sequence[str] | None = None) -> int:
    """Print records and GPU seconds per second of each kind of work."""
    parser = argparse.ArgumentParser(prog="one_shard", description=__doc__)
    parser.add_argument(
        "--records", type=int, default=60_000, help="GPU records, of eight GPUs for ten seconds each"
    )
    parser.add_argument("--jobs", type=int, default=1_000, help="jobs that the records belong to")
    options = parser.parse_args(argv)
    rounds = max(1, options.records // options.jobs)
    sys.stdout.write(
        f"one shard, {options.jobs} jobs of {GPUS} GPUs, {rounds} samples each; load {os.getloadavg()[0]:.1f} "
        f"on {os.cpu_count()} cores\n"
    )
    _fold(_shard(), "gpu", _samples(1, 1))  # compiles, or loads what is compiled
    shard = _shard()
    lifecycle = list(_lifecycle(options.jobs))
    _report("jobs: decode and fold", len(lifecycle), lambda: _fold(shard, "jobs", lifecycle))
    samples = list(_samples(options.jobs, rounds))
    took_s = _report("gpu: decode and fold", len(samples), lambda: _fold(shard, "gpu", samples))
    seconds = len(samples) * GPUS * INTERVAL_MS // 1000
    sys.stdout.write(f"{'gpu: GPU-seconds':28}{seconds:>10} {seconds / took_s:>14,.0f} /s\n")
    as_of_ms = T0_MS + (rounds + 1) * INTERVAL_MS
    started_s = time.perf_counter()
    rows = shard.checkpoint(as_of_ms, 1, open_attempts=True).rows
    _line("rows of a checkpoint", rows, time.perf_counter() - started_s)
    return 0


def _shard() -> Shard:
    price = json.dumps(
        {
            "source": "bench", "id": "p", "time_ms": T0_MS, "sku": "h100", "component": "gpu", "usd": "2.5",
            "per": "gpu_hour", "effective_ms": 0, "gpu_type": "H100",
        }
    ).encode()  # fmt: skip
    event = decode("prices", price, (), T0_MS)
    if not isinstance(event, PriceEvent):
        raise SystemExit(f"one_shard: its own price was refused: {event}")
    return Shard(0, ShardSettings(), PriceBook.empty().with_events([event]))


def _lifecycle(jobs: int) -> Iterator[bytes]:
    for number in range(jobs):
        yield json.dumps(
            {
                "source": "bench", "id": f"{number}", "time_ms": T0_MS, "job_id": f"job-{number}",
                "type": "started", "nodes": {f"node-{number}": GPUS}, "gpu_type": "H100",
            }
        ).encode()  # fmt: skip


def _samples(jobs: int, rounds: int) -> Iterator[bytes]:
    gpus = [f"GPU-{number}" for number in range(GPUS)]
    for turn in range(1, rounds + 1):
        for number in range(jobs):
            util = [(turn * 37 + number * 11 + gpu * 7) % 1000 / 1000 for gpu in range(GPUS)]
            yield json.dumps(
                {
                    "source": "bench", "time_ms": T0_MS + turn * INTERVAL_MS, "interval_ms": INTERVAL_MS,
                    "node": f"node-{number}", "job_id": f"job-{number}", "gpus": gpus, "util_ratio": util,
                }
            ).encode()  # fmt: skip


def _fold(shard: Shard, topic: str, values: Sequence[bytes] | Iterator[bytes]) -> None:
    values = list(values)
    for start in range(0, len(values), BATCH):
        part = values[start : start + BATCH]
        # Log time is years ahead, so that no sample is of the future.
        records = [LogRecord(start + at, 2 * T0_MS, value) for at, value in enumerate(part)]
        if shard.fold(LogBatch(topic, 0, start, start + len(part), records)) is not None:
            raise SystemExit("one_shard: the shard asks for records again")


def _report(what: str, count: int, work: Callable[[], None]) -> float:
    started_s = time.perf_counter()
    work()
    took_s = time.perf_counter() - started_s
    _line(what, count, took_s)
    return took_s


def _line(what: str, count: int, took_s: float) -> None:
    sys.stdout.write(f"{what:28}{count:>10} {count / took_s:>14,.0f} /s\n")


if __name__ == "__main__":
    sys.exit(main())
