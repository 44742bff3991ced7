"""How long questions take to a store of all Helios jobs: `python -m loadtest.asking --helios cluster_log.csv`.

The store is made once by `trainfare replay`, kept, and used again; medians of warm runs stand beside their
targets.
"""

from __future__ import annotations

import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from loadtest import traces
from loadtest.asking_questions import TARGET_MS, Question, questions
from loadtest.latency_world import ROOT, WorldError, machine
from loadtest.saying import keep_figures, say
from loadtest.timing_options import timing_parser
from sinks.clickhouse import ClickHouseStore, Embedded
from sinks.errors import StoreMismatch

_ROUNDS: Final = 9


def kept_store(directory: Path, helios: Path) -> Path:
    """The data directory of the replayed trace, made if it is not there or another version's.

    Raises:
        WorldError: The trace cannot be converted or replayed.
    """
    log, data_dir = directory / "helios.jsonl.gz", directory / "data"
    done = directory / "done"
    if done.exists():
        try:
            ClickHouseStore(Embedded(data_dir=data_dir)).close()
            return data_dir
        except StoreMismatch as fault:
            say(f"replayed again: {fault}")
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    if traces.main(["helios", "--source", str(helios), "--out", str(log)]):
        raise WorldError(f"{helios} cannot be converted")
    command = [sys.executable, "-m", "streams.cli.main", "replay", str(log), "--data", str(data_dir)]
    replay = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if replay.returncode != 0:
        raise WorldError(f"the replay ended with {replay.returncode}:\n{replay.stderr[-2000:]}")
    done.touch()
    return data_dir


def measured(question: Question, rounds: int) -> dict[str, Any]:
    """Ask once to warm up and then `rounds` times; returns ms of wall clock and of CPU, and whether the median is in time."""
    rows = question.ask()
    took_ms = []
    before_s = _cpu_s()
    for _ in range(rounds):
        began_s = time.perf_counter()
        question.ask()
        took_ms.append(1000 * (time.perf_counter() - began_s))
    cpu_ms = 1000 * (_cpu_s() - before_s) / rounds
    target_ms, median_ms = TARGET_MS[question.group], statistics.median(took_ms)
    return {
        "group": question.group,
        "name": question.name,
        "rows": rows,
        "median_ms": round(median_ms, 1),
        "best_ms": round(min(took_ms), 1),
        "cpu_ms": round(cpu_ms, 1),
        "target_ms": target_ms,
        "in_time": median_ms < target_ms,
    }


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure(data_dir: Path, rounds: int, only: str) -> dict[str, Any]:
    """Ask everything; returns the figures."""
    load = os.getloadavg()[0]
    store = ClickHouseStore(Embedded(data_dir=data_dir))
    try:
        minutes = int(
            store.query("SELECT count() AS n FROM job_minutes FINAL WHERE quantity != 0")["n"][0].as_py()
        )
        hours = int(store.query("SELECT count() AS n FROM job_hours FINAL")["n"][0].as_py())
        found = [measured(each, rounds) for each in questions(store) if only in f"{each.group}: {each.name}"]
    finally:
        store.close()
    worst = {
        group: max((each for each in found if each["group"] == group), key=_median, default=None)
        for group in TARGET_MS
    }
    return {
        "machine": machine(),
        "load": [round(load, 2), round(os.getloadavg()[0], 2)],
        "minute_rows": minutes,
        "hour_rows": hours,
        "rounds": rounds,
        "questions": found,
        "worst": {group.replace(" ", "_"): each for group, each in worst.items() if each is not None},
        "missed": sum(not each["in_time"] for each in found),
    }


def _median(found: dict[str, Any]) -> float:
    median_ms: float = found["median_ms"]
    return median_ms


def report(figures: dict[str, Any]) -> str:
    """The table."""
    facts = (
        f"{figures['minute_rows']:,} minute rows, {figures['hour_rows']:,} hour rows, {figures['machine']['cores']} cores, "
        f"load {figures['load'][0]} to {figures['load'][1]}, medians of {figures['rounds']} warm runs"
    )
    lines = [
        facts,
        f"{'':9}{'question':38}{'rows':>8}{'median':>9}{'best':>9}{'CPU':>9}{'target':>8}  ms",
    ]
    lines += [
        f"{each['group']:9}{each['name']:38}{each['rows']:8,}{each['median_ms']:9.1f}{each['best_ms']:9.1f}"
        f"{each['cpu_ms']:9.1f}{each['target_ms']:8}  {'ok' if each['in_time'] else 'MISSED'}"
        for each in figures["questions"]
    ]
    asked = len(figures["questions"])
    lines.append(f"{asked - figures['missed']} of {asked} in time")
    return "\n".join(lines) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 it could not be."""
    parser = timing_parser("asking", __doc__, _ROUNDS)
    parser.add_argument(
        "--helios", type=Path, default=ROOT / "var" / "cluster_log.csv", metavar="CSV", help="the trace"
    )
    options = parser.parse_args(argv)
    try:
        figures = measure(kept_store(options.store, options.helios), options.rounds, options.only)
    except WorldError as fault:
        sys.stderr.write(f"asking: {fault}\n")
        return 1
    sys.stdout.write(report(figures))
    keep_figures(options.out, figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
