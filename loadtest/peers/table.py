"""The rows as a table for people, a workload at a time.

It must not smooth anything: a median stands beside the least and the most, a fault stands where the figures would.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.table import Table

from loadtest.peers.runs import (
    Row,
    Run,
    cpu_per_million_messages,
    cpu_per_million_samples,
    messages_per_s,
    samples_per_s,
    times,
)

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


def table_of(title: str, rows: Sequence[Row], ours: Row | None, taken: Row | None) -> Table:
    """Return the table of one workload."""
    table = Table(title=title, title_justify="left", pad_edge=False, caption=None)
    for number, name in enumerate(COLUMNS):
        table.add_column(name, justify="left" if number < 2 else "right", overflow="fold")
    for row in rows:
        table.add_row(*_cells(row, ours, taken))
    return table


def _cells(row: Row, ours: Row | None, taken: Row | None) -> list[str]:
    head = [row.name, row.version, f"{row.messages:,}"]
    rate = row.spread(messages_per_s)
    if row.faults or rate is None:
        return [*head, "not run: below" if row.missing else "WRONG: below", *([""] * (len(COLUMNS) - 4))]
    mark = "~" if row.busy else ""
    median, least, most = rate
    return [
        *head,
        f"{mark}{median:,.0f} ({least:,.0f}..{most:,.0f})",
        f"{mark}{_median(row, samples_per_s):,.0f}",
        f"{_median(row, cpu_per_million_messages):.2f}",
        f"{_median(row, cpu_per_million_samples):.3f}",
        _times(_against(ours, row, messages_per_s)),
        _times(_against(taken, row, messages_per_s)),
        _times(_inverse(_against(ours, row, cpu_per_million_messages))),
        f"{max(run.peak_rss_mib for run in row.counted):,.0f}",
        f"{min(run.start_s for run in row.runs):.1f}",
    ]


def notes(rows: Sequence[Row]) -> list[str]:
    """What went wrong, what each system does and does not do, its cold run, and what it said of its runs."""
    found = []
    for row in rows:
        cold = [run for run in row.runs if run.cold and run.fault is None]
        parts = [*(f"NO RESULT: {fault}" for fault in row.faults), row.does]
        if cold:
            parts.append(
                f"cold {messages_per_s(cold[0]):,.0f} messages/s at "
                f"{cpu_per_million_messages(cold[0]):.1f} CPU s/M"
            )
        parts += list(dict.fromkeys(run.note for run in row.counted if run.note))[:1]
        found.append(f"{row.workload} {row.name}: {'; '.join(parts)}")
    return found


def _median(row: Row, of: Callable[[Run], float]) -> float:
    spread = row.spread(of)
    return spread[0] if spread else 0.0


def _against(ours: Row | None, row: Row, of: Callable[[Run], float]) -> float | None:
    return None if ours is None else times(ours, row, of)


def _inverse(value: float | None) -> float | None:
    return 1 / value if value else None


def _times(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}x" if value < 10 else f"{value:,.0f}x"
