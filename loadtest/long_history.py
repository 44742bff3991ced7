"""What a long history of few jobs costs: `python -m loadtest.long_history` makes logs, replays them, and prints CPU seconds.

Each log has half, once and twice its size, so that growth shows: CPU time that more than doubles is not linear. Spot prices
of nine zones, and jobs that are preempted and tried again for most of the log, as real traces of spot markets have them.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from loadtest.latency_world import ROOT, WorldError, machine
from loadtest.saying import keep_figures, say
from schemas.durations import DAY_MS, HOUR_MS

BEGIN_MS: Final = 1_666_742_400_000  # 2022-10-26 00:00:00 UTC
#: Twice ten years of history are over by now: nothing is of the future.
DECADE_MS: Final = BEGIN_MS - 7_200 * DAY_MS
SIZES: Final = (0.5, 1.0, 2.0)
_ZONES: Final = tuple(f"r{n // 3}-{'abc'[n % 3]}" for n in range(9))

Line = tuple[int, str, dict[str, Any]]  # time, topic, event


@dataclass(frozen=True)
class History:
    """What a log has; the last job has as many attempts as are said, the others fewer."""

    jobs: int
    days: int
    attempts: int
    prices: int
    prices_first: bool = True
    begin_ms: int = BEGIN_MS
    seed: int = 7

    def times(self, size: float) -> History:
        """The same kind of log over so many times its days, with as many attempts and prices in each of them."""
        days, attempts, prices = (
            max(round(value * size), 1) for value in (self.days, self.attempts, self.prices)
        )
        return replace(self, days=days, attempts=attempts, prices=prices)


#: By name: what they show, and the goal in CPU seconds.
LOGS: Final[dict[str, tuple[History, float | None]]] = {
    "prices-first": (History(27, 320, 400, 5_800), 20),
    "prices-between": (History(27, 320, 400, 5_800, prices_first=False), 20),
    "decade": (History(3, 3_650, 400, 1_000, begin_ms=DECADE_MS), 30),
    "attempts": (History(1, 320, 5_000, 100), None),
}


def write_log(path: Path, history: History) -> int:
    """Write it as lines for `trainfare replay`; return how many. The same history is the same log."""
    rng = random.Random(history.seed)
    prices = list(_prices(history, rng))
    events = [line for number in range(history.jobs) for line in _job(history, number, rng)]
    events.sort(key=lambda line: line[0])
    lines = [*sorted(prices, key=lambda line: line[0]), *events]
    if not history.prices_first:
        lines.sort(key=lambda line: line[0])  # stable: a price before the events of its instant
    with path.open("w", encoding="utf-8") as out:
        for number, (time_ms, topic, event) in enumerate(lines):
            value = {"source": "history", "id": str(number), "time_ms": time_ms, **event}
            out.write(json.dumps({"topic": topic, "value": value}) + "\n")
    return len(lines)


def _prices(history: History, rng: random.Random) -> Iterator[Line]:
    for number in range(max(history.prices, len(_ZONES))):
        zone = _ZONES[number % len(_ZONES)]
        later_ms = 0 if number < len(_ZONES) else rng.randrange(history.days * DAY_MS // 1000) * 1000
        at_ms = history.begin_ms + later_ms
        match = {"gpu_type": "V100", "purchase": "spot", "zone": zone}
        usd = f"{rng.uniform(0.6, 1.4):.4f}"
        price = {"sku": f"v100/spot/{zone}", "component": "gpu", "usd": usd, "per": "gpu_hour"}
        yield at_ms, "prices", {**price, "effective_ms": at_ms, **match}


def _job(history: History, number: int, rng: random.Random) -> Iterator[Line]:
    """Yield the events of a job: attempts one after another, each preempted but the last."""
    what = {"gpu_count": rng.choice((1, 1, 4, 8)), "gpu_type": "V100", "purchase": "spot"}
    what["zone"] = _ZONES[number % len(_ZONES)]
    attempts = max(2, round(history.attempts * (number + 1) / history.jobs))
    log_ms = history.days * DAY_MS
    length_ms = int(rng.uniform(0.3, 1.0) * log_ms)
    begin_ms = history.begin_ms + rng.randrange(1, log_ms - length_ms + 2)

    def event(time_ms: int, kind: str, **fields: Any) -> Line:
        return time_ms, "jobs", {"job_id": f"train-{number}", "type": kind, **fields}

    yield event(begin_ms, "queued", **what, owner=f"o{number % 5}", team=f"t{number % 3}")
    for attempt in range(1, attempts + 1):
        started_ms = begin_ms + length_ms * (attempt - 1) // attempts
        run_ms = int(length_ms / attempts * rng.uniform(0.4, 0.9))
        yield event(started_ms, "started", attempt=attempt, **what)
        if run_ms > HOUR_MS:
            yield event(started_ms + run_ms * 7 // 10, "checkpointed", attempt=attempt)
        end = "completed" if attempt == attempts else "preempted"
        yield event(started_ms + run_ms, end, attempt=attempt)


def replayed(file: Path) -> tuple[float, dict[str, Any]]:
    """Replay a log into a directory of its own; returns CPU seconds, of all processes and the kernel, and what was metered.

    Raises:
        WorldError: The replay failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="trainfare-history-") as directory:
        command = [sys.executable, "-m", "streams.cli.main", "replay", str(file), "--data"]
        command += [str(Path(directory) / "data"), "-f", "json"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WorldError(f"the replay ended with {done.returncode}:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu_s, json.loads(done.stdout)


def growth(less: Mapping[str, Any], more: Mapping[str, Any]) -> float:
    """How many times the CPU time of a log that of a longer one is; about their sizes' ratio, if what is done is linear."""
    return float(more["cpu_s"] / less["cpu_s"])


def measure(names: Sequence[str], sizes: Sequence[float]) -> dict[str, Any]:
    """Replay each log in each size and say what it took; returns the figures.

    Raises:
        WorldError: A replay failed.
    """
    found: dict[str, list[dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory(prefix="trainfare-history-") as directory:
        warm = Path(directory) / "warm.jsonl"
        write_log(warm, History(1, 2, 4, 9))
        replayed(warm)  # compiles the kernels
        for name in names:
            history, goal_s = LOGS[name]
            for size in sizes:
                file = Path(directory) / "log.jsonl"
                lines = write_log(file, history.times(size))
                cpu_s, metered = replayed(file)
                row = {"size": size, "lines": lines, "cpu_s": cpu_s, "usd": metered["usd"]}
                found.setdefault(name, []).append({**row, "rows": metered["rows_written"]})
                goal = "" if goal_s is None or size != 1 else f" (goal: under {goal_s:g})"
                say(
                    f"{name} x{size:g}: {lines} lines, {metered['rows_written']} rows, {cpu_s:.1f} CPU s{goal}"
                )
            for less, more in pairwise(found[name]):
                say(
                    f"{name} x{less['size']:g} to x{more['size']:g}: {growth(less, more):.2f} times the CPU time"
                )
    return {"machine": machine(), "logs": found}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 it could not be."""
    parser = argparse.ArgumentParser(prog="long_history", description=__doc__)
    parser.add_argument("logs", nargs="*", help=f"some of {', '.join(LOGS)}; all by default")
    parser.add_argument("--sizes", type=float, nargs="+", default=list(SIZES), help="how many times as large")
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    if unknown := set(options.logs) - set(LOGS):
        parser.error(f"no such log: {', '.join(sorted(unknown))}; there are {', '.join(LOGS)}")
    if min(options.sizes) <= 0:
        parser.error("--sizes: got 0 or less, expected factors above 0")
    try:
        figures = measure(options.logs or list(LOGS), options.sizes)
    except WorldError as fault:
        sys.stderr.write(f"long_history: {fault}\n")
        return 1
    keep_figures(options.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
