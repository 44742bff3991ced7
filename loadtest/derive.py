"""What the rows of a checkpoint cost: derived, made into tables, snapshots apart; without Kafka and ClickHouse.

`python -m loadtest.derive metered | open | prices | bill`: CPU seconds of this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence

import numpy as np

from loadtest.derive_load import GPUS, SAMPLED_S, Load
from loadtest.saying import say
from streams.cli.cycles import collect_rarely
from streams.engine.kernels.bill import bill_rows
from streams.engine.shard import checkpoint, snapshot_writer

#: What a checkpoint consists of: functions of its module, by the name they are shown under.
_PARTS = {
    "_derive_jobs": "ledger rows",
    "_derive_nodes": "node rows",
    "usage_table": "usage rows",
    "job_tables": "jobs and attempts",
    "_finished": "who has finished",
}


class Timed:
    """CPU seconds spent in a checkpoint's parts."""

    def __init__(self) -> None:
        self.spent_s: dict[str, float] = {}
        for name, shown in _PARTS.items():
            vars(checkpoint)[name] = self._timed(shown, vars(checkpoint)[name])
        vars(snapshot_writer)["build_snapshot"] = self._timed("snapshot", snapshot_writer.build_snapshot)

    def _timed(self, shown: str, work: Callable[..., object]) -> Callable[..., object]:
        def timed(*args: object, **kwargs: object) -> object:
            began_s = time.process_time()
            try:
                return work(*args, **kwargs)
            finally:
                self.spent_s[shown] = self.spent_s.get(shown, 0.0) + time.process_time() - began_s

        return timed

    def checkpoints(self, load: Load, *, open_attempts: bool) -> int:
        """All shards store what they have; how many rows."""
        began_s = time.process_time()
        rows = sum(load.checkpoint(open_attempts=open_attempts).values())
        self.spent_s["all"] = self.spent_s.get("all", 0.0) + time.process_time() - began_s
        return rows

    def report(self, unit: str, count: float) -> None:
        """CPU milliseconds of each part for each of so many units."""
        known = sum(spent_s for name, spent_s in self.spent_s.items() if name != "all")
        self.spent_s["the rest"] = self.spent_s["all"] - known
        but_snapshot_s = self.spent_s["all"] - self.spent_s.get("snapshot", 0.0)
        for name, spent_s in [*self.spent_s.items(), ("all but the snapshot", but_snapshot_s)]:
            say(f"{name:24}{spent_s / count * 1000:>10.2f} ms per {unit}")
        self.spent_s.clear()


def metered(options: argparse.Namespace) -> None:
    """Jobs of one node each, samples only, at so many event seconds between two checkpoints."""
    load, timed = Load(options.shards), Timed()
    for turn in range(options.turns + 1):
        load.samples(options.jobs, options.event_s)
        rows = timed.checkpoints(load, open_attempts=turn % 10 == 9)
        if turn == 0:
            timed.spent_s.clear()  # compiles, and everything is new
    samples = options.jobs * GPUS * options.event_s
    say(
        f"metered: {options.jobs} jobs, {options.shards} shards, {options.event_s} event seconds a checkpoint: "
        f"{samples / 1e6:.2f} million samples, {rows} rows in the last"
    )
    timed.report("million samples", samples * options.turns / 1e6)


def open_attempts(options: argparse.Namespace) -> None:
    """Jobs that go on, each of one node, are paid every ten seconds, samples of all of them between."""
    load, timed = Load(options.shards), Timed()
    load.start(options.jobs)
    for turn in range(options.turns + 1):
        if options.sampled:
            load.samples(options.jobs, SAMPLED_S)
        else:
            load.now_ms += 1000 * SAMPLED_S
        rows = timed.checkpoints(load, open_attempts=True)
        if turn == 0:
            timed.spent_s.clear()
    say(f"open: {options.jobs} attempts, {options.shards} shards, paid each 10 s: {rows} rows in the last")
    timed.report("100,000 attempts paid", options.jobs * options.turns / 1e5)


def prices(options: argparse.Namespace) -> None:
    """One SKU of many changes; then one that every job is priced by."""
    load, timed = Load(options.shards, skus=options.skus), Timed()
    load.start(options.jobs)
    load.now_ms += 600_000
    timed.checkpoints(load, open_attempts=True)
    timed.spent_s.clear()
    for name, sku in (("no job has", 1), ("a thousandth of the jobs has", 0)):
        began_s = time.process_time()
        load.reprice(sku)
        took_s = time.process_time() - began_s
        rows = timed.checkpoints(load, open_attempts=True)
        say(
            f"a price that {name}: {options.skus} SKUs, {options.jobs} jobs: {took_s * 1000:.1f} ms, {rows} rows"
        )
        timed.report("change", 1)


def bill(options: argparse.Namespace) -> None:
    """The billing kernel alone, without and with lost costs."""
    rows = options.rows
    random = np.random.default_rng(1)
    line = random.integers(0, 1000, rows).astype(np.int32)
    quantity = random.integers(1, 8 * 60_000_000, rows)
    usd_nano = random.integers(10**8, 10**10, 1000)
    divisor = np.full(1000, 3_600_000_000)
    for name, lost in (("nothing lost", quantity * 0), ("all partly lost", quantity // 3)):
        bill_rows(line, quantity, lost, usd_nano, divisor)
        began_s = time.process_time()
        bill_rows(line, quantity, lost, usd_nano, divisor)
        say(f"bill: {name:18}{rows / (time.process_time() - began_s):>14,.0f} rows/s")


def main(argv: Sequence[str] | None = None) -> int:
    """Run what is asked for."""
    options = _options(argv)
    collect_rarely()  # as a worker does
    {"metered": metered, "open": open_attempts, "prices": prices, "bill": bill}[options.what](options)
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="derive", description=__doc__)
    parser.add_argument("what", choices=["metered", "open", "prices", "bill"])
    parser.add_argument("--jobs", type=int, default=1_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--turns", type=int, default=5, help="checkpoints that are measured")
    parser.add_argument("--event-s", type=int, default=300, help="event seconds between two checkpoints")
    parser.add_argument("--skus", type=int, default=1_000)
    parser.add_argument("--sampled", action="store_true", help="open attempts are also sampled")
    parser.add_argument("--rows", type=int, default=10_000_000)
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
