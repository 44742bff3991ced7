"""Figures of a run of loadtest.state: pauses, sizes, restores, memory of the process."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

MIB = 2**20


class Taken(NamedTuple):
    """One checkpoint of one shard: how long it kept the event loop, and what came of it."""

    took_s: float
    cpu_s: float  # of it; less where others want the core too
    snapshot_bytes: int
    rows: int


class Restored(NamedTuple):
    """One shard loaded from its chain."""

    took_s: float
    cpu_s: float
    blobs: int
    chain_bytes: int


@dataclass
class Measured:
    """What a run saw."""

    taken: list[Taken] = field(default_factory=list)
    flights_s: list[float] = field(default_factory=list)
    restores: list[Restored] = field(default_factory=list)

    def flight(self, taken: Iterable[Taken]) -> None:
        """The checkpoints of all shards at one instant."""
        flight = list(taken)
        self.taken += flight
        self.flights_s.append(sum(one.cpu_s for one in flight))

    def restored(self, restores: Iterable[Restored]) -> None:
        """All shards, loaded again."""
        self.restores = list(restores)

    @property
    def longest_s(self) -> float:
        """The longest stretch without a return to the event loop."""
        return max(one.took_s for one in self.taken)

    def lines(self) -> Iterator[str]:
        """The table."""
        yield f"{'':34}{'median':>10}{'p99':>10}{'longest':>10}"
        yield _line("pause of a shard, ms", [one.took_s * 1000 for one in self.taken])
        yield _line("CPU of it, ms", [one.cpu_s * 1000 for one in self.taken])
        yield _line("all shards of a flight, CPU ms", [took_s * 1000 for took_s in self.flights_s])
        yield _line("snapshot of a shard, MiB", [one.snapshot_bytes / MIB for one in self.taken])
        yield _line("rows of a shard", [float(one.rows) for one in self.taken])
        yield _line("restore of a shard, s", [one.took_s for one in self.restores])
        yield _line("CPU of it, s", [one.cpu_s for one in self.restores])
        yield _line("blobs of a chain", [float(one.blobs) for one in self.restores])
        yield _line("chain of a shard, MiB", [one.chain_bytes / MIB for one in self.restores])
        yield f"{'restore of all shards, s':34}{sum(one.took_s for one in self.restores):>10.2f}"


def _line(name: str, values: list[float]) -> str:
    ordered = sorted(values)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return f"{name:34}{statistics.median(values):>10.2f}{p99:>10.2f}{ordered[-1]:>10.2f}"


def rss_mib() -> float:
    """Memory of this process that is in RAM."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise OSError("no VmRSS in /proc/self/status")
