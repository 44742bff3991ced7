"""What ticks cost: windows, rows and alerts of many live jobs, and before that the curves of those that changed.

`python -m loadtest.ticks --jobs 100000` judges jobs that a timeline pays for; with `--metered` samples alone
pay for them, eight GPUs each at 1 Hz, so that every job's curve moves before each tick.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import time
from collections.abc import Sequence

from loadtest.saying import say
from loadtest.state_fleet import GPUS, Fleet
from loadtest.state_measure import rss_mib
from schemas.durations import MINUTE_MS
from schemas.events import Component, PriceEvent
from schemas.units import Per
from streams.cli.cycles import collect_rarely
from streams.engine.kernels.warm import compile_all
from streams.engine.rules.idle_gpus import BLOCK_MINUTES, LAG_MINUTES
from streams.engine.rules.turns import TURNS
from streams.engine.shard.sequencer import TICK_MS


class Repriced(Fleet):
    """A fleet that also learns prices of what it has not."""

    def reprice_nobody(self) -> None:
        """A price of GPUs that no job runs on."""
        other = PriceEvent("load", "o", 0, "l4", Component.gpu, 10**9, Per.gpu_hour, 1, 0, {"gpu_type": "L4"})
        self._book = self._book.with_events([other])
        self._learn()


def main(argv: Sequence[str] | None = None) -> int:
    """Fill, judge tick after tick, print what they took."""
    options = _options(argv)
    compile_all()
    gc.collect()
    collect_rarely()  # as a worker does
    fleet = Repriced(
        options.jobs * GPUS,
        options.jobs,
        options.shards,
        minutes=0,
        metered=1 if options.metered else 0,
    )
    fleet.begin()
    if options.sampled:
        list(fleet.checkpoint(open_attempts=True))  # from then on a shard knows that samples change no cost
        for _ in range(3 * BLOCK_MINUTES + LAG_MINUTES):  # so long that the use of the GPUs is judged, too
            fleet.sample(MINUTE_MS)
            for _ in range(MINUTE_MS // TICK_MS):
                fleet.now_ms += TICK_MS
                fleet.judge()
                fleet.drop_rows()
    say(f"{options.jobs} jobs in {options.shards} shards, RSS {rss_mib():.0f} MiB")
    took: dict[str, list[tuple[float, float]]] = {}
    for tick in range(options.ticks):
        for seconds in (TICK_MS // 1000 - 1, 1):
            if options.metered:
                fleet.sample_seconds(seconds)
            else:
                fleet.now_ms += 1000 * seconds
            if options.sampled:
                fleet.sample(1000 * seconds)
            wall_s, cpu_s = time.perf_counter(), time.process_time()
            is_tick = fleet.now_ms % TICK_MS == 0
            if is_tick:
                fleet.judge()
            else:
                fleet.prepare()
            one = (time.perf_counter() - wall_s, time.process_time() - cpu_s)
            took.setdefault(_kind(tick, fleet.now_ms, is_tick=is_tick, sampled=options.sampled), []).append(
                one
            )
            fleet.drop_rows()
    say(f"{'ms':24}{'count':>8}{'median':>10}{'longest':>10}{'CPU median':>12}{'CPU longest':>12}")
    for kind, pairs in took.items():
        walls, cpus = ([1000 * pair[k] for pair in pairs] for k in (0, 1))
        say(
            f"{kind:24}{len(pairs):>8}{statistics.median(walls):>10.1f}{max(walls):>10.1f}"
            f"{statistics.median(cpus):>12.1f}{max(cpus):>12.1f}"
        )
    changes = {
        "another price": fleet.reprice,
        "a price of nobody": fleet.reprice_nobody,
        "another control": fleet.silence,
    }
    for name, change in changes.items():
        change()
        fleet.now_ms += TICK_MS
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        stops_s = fleet.judge()
        walls_s, cpus_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        say(
            f"{name}: all shards {walls_s * 1000:.0f} ms, CPU {cpus_s * 1000:.0f} ms, "
            f"longest stop {max(stops_s) * 1000:.0f} ms of CPU"
        )
    cpu_s = sum(pair[1] for pairs in took.values() for pair in pairs)
    say(f"all {options.ticks} ticks and what prepares them: {cpu_s:.3f} CPU s")
    if options.metered:
        samples = options.jobs * GPUS * options.ticks * TICK_MS // 1000
        say(f"of {samples} samples: {cpu_s / samples * 1e6:.3f} CPU s per million")
    say(f"RSS {rss_mib():.0f} MiB")
    return 0


def _kind(tick: int, now_ms: int, *, is_tick: bool, sampled: bool) -> str:
    """Return under which name a measurement is printed."""
    if tick == 0:
        return "first tick" if is_tick else "before the first tick"
    name = ("tick on a minute" if now_ms % MINUTE_MS == 0 else "tick") if is_tick else "a second before"
    return f"{name}, first look" if sampled and tick < TURNS else name  # at each job's use of its GPUs


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="ticks", description=__doc__)
    parser.add_argument("--jobs", type=int, default=100_000, help="live jobs")
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--ticks", type=int, default=30, help="one each ten seconds of event time")
    parser.add_argument(
        "--sampled", action="store_true", help="timelines pay; samples of ten seconds of all GPUs"
    )
    parser.add_argument("--metered", action="store_true", help="samples alone pay for the jobs")
    return parser.parse_args(argv)


if __name__ == "__main__":
    sys.exit(main())
