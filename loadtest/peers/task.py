"""What one process of a peer is asked to do, its clock and what it found; used on both sides.

It must import the standard library only: it runs in environments that hold a peer and nothing of ours.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NoReturn

FILE = "task.json"
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

Window = tuple[str, int]
"""A job and its window's start in event time (ms)."""

Total = tuple[float, int]
"""The sum of the use ratios of a window, and how many there were."""


@dataclass(frozen=True)
class Task:
    """The topic and the windows; `directory` is empty, is the peer's own, and is thrown away afterwards."""

    bootstrap_servers: str
    topic: str
    group: str
    messages: int
    """In the topic, flushing ones included."""
    gpus_per_message: int
    window_ms: int
    passes: int
    """How often one process does it all; only a peer on a JVM is asked for more than one."""
    directory: str
    first_window_ms: int
    partitions: int

    def write(self) -> Path:
        """Leave the task where the process finds it."""
        path = Path(self.directory) / FILE
        path.write_text(json.dumps(asdict(self)), encoding="utf-8")
        return path

    @classmethod
    def given(cls) -> Task:
        """The task that this process was started with."""
        return cls(**json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")))


class Pass:
    """The clock of one pass over the topic: from the first record to the last result."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._first_s: float | None = None
        self._first_at_s = self._first_cpu_s = 0.0

    def first(self) -> None:
        """The first record is here; later calls change nothing."""
        if self._first_s is None:
            self._first_at_s, self._first_cpu_s = time.time(), cpu_of("self")
            self._first_s = time.monotonic()

    def done(
        self, windows: Mapping[Window, Total] | None, counted: int | None = None, note: str = ""
    ) -> NoReturn:
        """Stop the clock, leave the result and end the process, whatever threads the peer still has.

        `windows` is None for what only counts messages; `counted` is how many it counted.
        """
        ended_s, used_s = time.monotonic(), cpu_of("self")
        result = {
            "first_at_s": self._first_at_s,
            "wall_s": ended_s - (self._first_s if self._first_s is not None else ended_s),
            "cpu_s": used_s - self._first_cpu_s,
            "whole_cpu_s": used_s,
            "peak_rss_mib": _peak_rss_mib(),
            "rows": None if windows is None else rows_of(windows),
            "counted": counted,
            "note": note,
        }
        part = Path(self._task.directory) / "result-0.part"
        part.write_text(json.dumps(result), encoding="utf-8")
        part.rename(part.with_suffix(".json"))  # whole or not at all
        os._exit(0)


def rows_of(windows: Mapping[Window, Total]) -> list[tuple[str, int, float, int]]:
    """Windows in the form of a result file."""
    return [(job, start_ms, total, count) for (job, start_ms), (total, count) in windows.items()]


def windows_of(rows: Iterable[tuple[str, int, float, int]]) -> dict[Window, Total]:
    """The windows of a result file."""
    return {(job, int(start_ms)): (float(total), int(count)) for job, start_ms, total, count in rows}


def cpu_of(process: int | str) -> float:
    """User and system time of a process and of its ended children."""
    fields = Path(f"/proc/{process}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS_PER_S


def _peak_rss_mib() -> float:
    """The most memory that this process has held."""
    lines = Path("/proc/self/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM:"))
