"""What writing hours costs a replay: `python -m loadtest.hours_cost LOG.jsonl.gz`, with and without them in turn.

It compares CPU time of whole processes, start and end included.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from loadtest.latency_world import ROOT, WorldError, machine
from loadtest.saying import say

_PROGRAMS: Final = {"with": "streams.cli.main", "without": "loadtest.without_hours"}
TARGET_RATIO: Final = 0.10


def replayed_cpu_s(program: str, file: Path) -> float:
    """Replay a log into a directory of its own; returns CPU seconds.

    Raises:
        WorldError: The replay failed.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory(prefix="trainfare-hours-") as directory:
        command = [
            sys.executable,
            "-m",
            program,
            "replay",
            str(file),
            "--data",
            str(Path(directory) / "data"),
        ]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise WorldError(f"{program} ended with {done.returncode}:\n{done.stderr[-2000:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(file: Path, rounds: int) -> dict[str, Any]:
    """Replay in turn, after a run that compiles kernels; returns the figures, `ratio` being of the least times.

    Others on the machine can only add to a CPU time: they take the caches.
    """
    replayed_cpu_s(_PROGRAMS["with"], file)
    took_s: dict[str, list[float]] = {name: [] for name in _PROGRAMS}
    for turn in range(rounds):
        # The order alternates, so that a machine that gets slower does not favour one of them.
        for name in list(_PROGRAMS)[:: 1 if turn % 2 == 0 else -1]:
            took_s[name].append(replayed_cpu_s(_PROGRAMS[name], file))
            say(f"{name} hours: {took_s[name][-1]:.1f} CPU s")
    ratio = min(took_s["with"]) / min(took_s["without"]) - 1
    return {
        "machine": machine(),
        "file": file.name,
        "cpu_s": took_s,
        "ratio": ratio,
        "in_bounds": ratio < TARGET_RATIO,
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 measured, 1 it could not be."""
    parser = argparse.ArgumentParser(prog="hours_cost", description=__doc__)
    parser.add_argument("file", type=Path, help="a log for `trainfare replay`")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--out", type=Path, help="write the figures as JSON, too")
    options = parser.parse_args(argv)
    try:
        figures = measure(options.file, options.rounds)
    except WorldError as fault:
        sys.stderr.write(f"hours_cost: {fault}\n")
        return 1
    say(f"hours cost {figures['ratio']:.1%} of a replay's CPU time (goal: under {TARGET_RATIO:.0%})")
    if options.out is not None:
        options.out.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
