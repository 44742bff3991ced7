"""What was measured: the runs of each system, as a table for people and as JSON for programs.

A median stands beside the least and the most, and what could not be run or was wrong is a row that says why.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.table import Table

from loadtest.peers.feeds import Feed

COLUMNS = (
    "system", "version", "messages", "messages/s: median (min..max)", "samples/s", "CPU s/M messages",
    "CPU s/M samples", "ours by rate", "ours folded", "ours by CPU", "RSS MiB", "start s",
)  # fmt: skip
LEGEND = (
    "Clock: first record to last result; medians of the runs that count; a JVM runs three times before them, in one process. "
    "ours by rate: our rows stored in ClickHouse against their last result, times; ours folded: our last record folded; "
    "ours by CPU: their CPU over ours, per message. "
    "~ others used more than a third of a core meanwhile: then only CPU says something."
)
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


def cpu_per_million_messages(run: Run) -> float:
    """Seconds of a core."""
    return run.cpu_s / run.messages * MILLION


FIGURES: dict[str, Callable[[Run], float]] = {
    "messages_per_s": messages_per_s,
    "samples_per_s": lambda run: run.samples / run.wall_s,
    "cpu_s_per_million_messages": cpu_per_million_messages,
    "cpu_s_per_million_samples": lambda run: run.cpu_s / run.samples * MILLION,
    "peak_rss_mib": lambda run: run.peak_rss_mib,
    "wall_s": lambda run: run.wall_s,
}


def times(ours: Row | None, theirs: Row, of: Callable[[Run], float] = messages_per_s) -> float | None:
    """How many times theirs ours is, by the medians; None where one has no run that counts."""
    left, right = ours and ours.spread(of), theirs.spread(of)
    return left[0] / right[0] if left and right else None


def as_json(
    rows: Sequence[Row], ours: dict[str, Row], taken: dict[str, Row], machine: dict[str, object]
) -> dict[str, Any]:
    """Everything, for a program; `ours` and `taken` are our rows of each workload by both clocks."""
    return {"machine": machine, "rows": [_row(row, ours, taken) for row in rows]}


def _row(row: Row, ours: dict[str, Row], taken: dict[str, Row]) -> dict[str, Any]:
    spreads = {name: row.spread(of) for name, of in FIGURES.items()}
    mine = ours.get(row.workload)
    return {
        "name": row.name,
        "version": row.version,
        "workload": row.workload,
        "does": row.does,
        "messages": row.messages,
        "faults": row.faults,
        "others_busy": row.busy,
        **{
            name: found and dict(zip(("median", "min", "max"), found, strict=True))
            for name, found in spreads.items()
        },
        "ours_times_rate": times(mine, row),
        "ours_folded_times_rate": times(taken.get(row.workload), row),
        "ours_times_cpu": times(mine, row, cpu_per_million_messages),
        "runs": [asdict(run) for run in row.runs],
    }


def table_of(title: str, rows: Sequence[Row], ours: Row | None, taken: Row | None) -> Table:
    """The table of one workload."""
    table = Table(title=title, title_justify="left", pad_edge=False, caption=None)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row, ours, taken))
    return table


def _cells(row: Row, ours: Row | None, taken: Row | None) -> list[str]:
    head = [row.name, row.version, f"{row.messages:,}"]
    if row.faults or not row.counted:
        return [*head, "not run: below" if row.missing else "WRONG: below", *([""] * (len(COLUMNS) - 4))]
    mark = "~" if row.busy else ""
    spreads = (row.spread(of) or (0.0,) * 3 for of in FIGURES.values())
    (rate, least, most), (samples, *_), (cpu, *_), (sample_cpu, *_), (*_, rss), _ = spreads
    by_cpu = times(ours, row, cpu_per_million_messages)
    return [
        *head,
        f"{mark}{rate:,.0f} ({least:,.0f}..{most:,.0f})",
        f"{mark}{samples:,.0f}",
        f"{cpu:.2f}",
        f"{sample_cpu:.3f}",
        _times(times(ours, row)),
        _times(times(taken, row)),
        _times(1 / by_cpu if by_cpu else None),
        f"{rss:,.0f}",
        f"{min(run.start_s for run in row.runs):.1f}",
    ]


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"


def notes(rows: Sequence[Row]) -> list[str]:
    """What went wrong, what each system does and does not do, its cold run, and what it said of its runs."""
    found = []
    for row in rows:
        parts = [*(f"NO RESULT: {fault}" for fault in row.faults), row.does]
        if cold := [run for run in row.runs if run.cold and run.fault is None]:
            rate, cpu = messages_per_s(cold[0]), cpu_per_million_messages(cold[0])
            parts.append(f"cold {rate:,.0f} messages/s at {cpu:.1f} CPU s/M")
        parts += [run.note for run in row.counted if run.note][:1]
        found.append(f"{row.workload} {row.name}: {'; '.join(parts)}")
    return found
