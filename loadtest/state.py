"""What a fleet's state costs: the pause of a checkpoint, the size of snapshots, the time of a restore, memory.

`python -m loadtest.state --gpus 100000 --shards 8` fills shards as a fleet at 1 Hz would, without Kafka and
ClickHouse, and takes a checkpoint of every shard each second of event time.  It must not judge: it prints.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence

from loadtest.saying import say
from loadtest.state_fleet import Fleet
from loadtest.state_measure import Measured, rss_mib

MIB = 2**20


def main(argv: Sequence[str] | None = None) -> int:
    """Fill, checkpoint each second, restore; print a table."""
    options = _options(argv)
    gc.collect()
    gc.freeze()  # as a worker does
    gc.set_threshold(20_000)
    fleet = Fleet(options.gpus, options.jobs, options.shards, options.minutes)
    say(
        f"{options.gpus} GPUs on {fleet.nodes} nodes, {options.jobs} jobs, {options.shards} shards; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    started_s = time.perf_counter()
    fleet.fill(say)
    gc.collect()
    say(f"filled in {time.perf_counter() - started_s:.0f} s, RSS {rss_mib():.0f} MiB")
    for hour in range(options.hours):
        fleet.hour()
        if (hour + 1) % 3 == 0:
            say(
                f"hour {hour + 1}: RSS {rss_mib():.0f} MiB, {', '.join(f'{v} {k}' for k, v in fleet.kept().items())}"
            )
    measured = Measured()
    for second in range(options.seconds):
        fleet.second()
        measured.flight(fleet.checkpoint(open_attempts=second % 10 == 9))
        if second % 10 == 9:
            say(
                f"second {second + 1}: longest pause {measured.longest_s * 1000:.0f} ms, RSS {rss_mib():.0f} MiB"
            )
    measured.restored(fleet.restore())
    for line in measured.lines():
        say(line)
    say(f"RSS {rss_mib():.0f} MiB")
    return 0


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="state", description=__doc__)
    parser.add_argument("--gpus", type=int, default=100_000, help="live GPUs, eight a node")
    parser.add_argument("--jobs", type=int, default=12_500, help="live jobs that they belong to")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument(
        "--minutes", type=int, default=12, help="event time before the first checkpoint is measured"
    )
    parser.add_argument("--seconds", type=int, default=120, help="checkpoints, one a second of event time")
    parser.add_argument(
        "--hours", type=int, default=0, help="event time besides, before that, a message a minute"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
