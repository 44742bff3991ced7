"""What was measured: a run, the rows of a table, what a row comes to, and its form as JSON.

It must not measure, nor leave a row out: what could not be run is a row that says why.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from loadtest.peers.feeds import Feed

MILLION = 1_000_000
BUSY_CORES = 0.35
"""What others may use before a row is marked: then its wall clock measures them."""


@dataclass(frozen=True)
class Run:
    """One pass over a topic, from the first record to the last result; CPU and memory of the peer alone."""

    messages: int
    samples: int
    wall_s: float
    cpu_s: float
    whole_cpu_s: float
    """With the start of the process and, in a JVM, the passes before."""
    peak_rss_mib: float
    start_s: float
    """From the start of the process to the first record; of a JVM's later passes, with the passes before."""
    others_cores: float
    """What the machine did meanwhile besides the peer, the broker and us."""
    cold: bool = False
    """A pass of a JVM before those that count."""
    note: str = ""
    fault: str | None = None


def failed(feed: Feed, fault: str) -> Run:
    """A run without a result."""
    return Run(feed.messages, feed.samples, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, fault=fault)


@dataclass
class Row:
    """A system on a workload; `missing` says why there is no run at all."""

    name: str
    version: str
    workload: str
    does: str
    messages: int
    runs: list[Run] = field(default_factory=list)
    missing: str | None = None

    @property
    def counted(self) -> list[Run]:
        """The runs that were right, and warm."""
        return [run for run in self.runs if run.fault is None and not run.cold]

    @property
    def faults(self) -> list[str]:
        """What is wrong with it."""
        return [self.missing] if self.missing else [run.fault for run in self.runs if run.fault]

    @property
    def busy(self) -> bool:
        """Whether others used so much of the machine that its rate says little."""
        return any(run.others_cores > BUSY_CORES for run in self.counted)

    def spread(self, of: Callable[[Run], float]) -> tuple[float, float, float] | None:
        """Median, least and most over the runs that count."""
        found = sorted(map(of, self.counted))
        return (statistics.median(found), found[0], found[-1]) if found else None


def messages_per_s(run: Run) -> float:
    """By the wall."""
    return run.messages / run.wall_s


def samples_per_s(run: Run) -> float:
    """By the wall."""
    return run.samples / run.wall_s


def cpu_per_million_messages(run: Run) -> float:
    """Seconds of a core."""
    return run.cpu_s / run.messages * MILLION


def cpu_per_million_samples(run: Run) -> float:
    """Seconds of a core."""
    return run.cpu_s / run.samples * MILLION


def times(ours: Row, theirs: Row, of: Callable[[Run], float] = messages_per_s) -> float | None:
    """How many times theirs ours is, by the medians; None where one has no run that counts."""
    left, right = ours.spread(of), theirs.spread(of)
    return left[0] / right[0] if left and right else None


FIGURES: dict[str, Callable[[Run], float]] = {
    "messages_per_s": messages_per_s,
    "samples_per_s": samples_per_s,
    "cpu_s_per_million_messages": cpu_per_million_messages,
    "cpu_s_per_million_samples": cpu_per_million_samples,
    "peak_rss_mib": lambda run: run.peak_rss_mib,
    "wall_s": lambda run: run.wall_s,
}


def as_json(
    rows: Sequence[Row], ours: dict[str, Row], taken: dict[str, Row], machine: dict[str, object]
) -> dict[str, Any]:
    """Everything, for a program; `ours` and `taken` are our rows of each workload by both clocks."""
    return {"machine": machine, "rows": [_row(row, ours, taken) for row in rows]}


def _row(row: Row, ours: dict[str, Row], taken: dict[str, Row]) -> dict[str, Any]:
    figures = {}
    for name, of in FIGURES.items():
        spread = row.spread(of)
        figures[name] = None if spread is None else dict(zip(("median", "min", "max"), spread, strict=True))
    return {
        "name": row.name,
        "version": row.version,
        "workload": row.workload,
        "does": row.does,
        "messages": row.messages,
        "faults": row.faults,
        "others_busy": row.busy,
        **figures,
        "ours_times_rate": _against(ours, row, messages_per_s),
        "ours_folded_times_rate": _against(taken, row, messages_per_s),
        "ours_times_cpu": _against(ours, row, cpu_per_million_messages),
        "runs": [asdict(run) for run in row.runs],
    }


def _against(by_workload: dict[str, Row], row: Row, of: Callable[[Run], float]) -> float | None:
    found = by_workload.get(row.workload)
    return None if found is None else times(found, row, of)
