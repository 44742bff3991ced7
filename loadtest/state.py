"""What a fleet's state costs: the pause of a checkpoint, the size of snapshots, the time of a restore, memory.

`python -m loadtest.state --gpus 100000 --shards 8` fills shards as a fleet at 1 Hz would, without Kafka and
ClickHouse, and takes a checkpoint of every shard each second of event time.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
import time
from collections.abc import Sequence

from loadtest.saying import say
from loadtest.state_fleet import METERED, Fleet
from loadtest.state_measure import Measured, rss_mib
from streams.cli.cycles import collect_rarely

MIB = 2**20


def main(argv: Sequence[str] | None = None) -> int:
    """Fill, checkpoint each second, restore; print a table."""
    options = _options(argv)
    gc.collect()
    collect_rarely()  # as a worker does
    fleet = Fleet(options.gpus, options.jobs, options.shards, options.minutes, options.metered)
    say(
        f"{options.gpus} GPUs on {fleet.nodes} nodes, {options.jobs} jobs, {options.shards} shards; "
        f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
    )
    started_s = time.perf_counter()
    fleet.fill(say)
    gc.collect()
    say(f"filled in {time.perf_counter() - started_s:.0f} s, RSS {rss_mib():.0f} MiB")
    if options.history_hours:
        before_mib, cpu_s = rss_mib(), time.process_time()
        fleet.history(options.history_hours, say)
        gc.collect()
        node_minutes = fleet.nodes * options.history_hours * 60
        held = fleet.kept()
        say(
            f"{options.history_hours} hours of history: {node_minutes} minutes of nodes, RSS {rss_mib():.0f} MiB, "
            f"{(rss_mib() - before_mib) * MIB / node_minutes:.1f} bytes a minute more, "
            f"{held['bytes of packed rows'] / node_minutes:.1f} of packed rows, {held['rows']} rows unpacked; "
            f"{time.process_time() - cpu_s:.0f} CPU s"
        )
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
    parser.add_argument(
        "--history-hours", type=int, default=0, help="event time of samples besides, before all that"
    )
    parser.add_argument(
        "--metered", type=int, default=METERED, help="one job in so many is metered by its samples; 0: none"
    )
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
