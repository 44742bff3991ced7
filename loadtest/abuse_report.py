"""What an attack came to, for people: tables on a terminal, the same in plain lines where it is piped."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from loadtest.abuse_judge import Spread, in_ms, verdicts

_WIDTH: Final = 160
_ASKED: Final = (
    ("live", "event -> row readable"),
    ("healthz", "/healthz"),
    ("jobs", "/api/v1/jobs"),
    ("sql", "a small query of SQL"),
    ("stream", "a snapshot of the stream"),
)
_HELD: Final = (
    ("rss_mib", "memory of the worker, MiB at most"),
    ("worker_cpu_percent", "CPU of the worker, % of a core"),
    ("files", "its open files at most"),
    ("queries", "processes of queries at most"),
    ("queries_mib", "their own memory, MiB at most"),
    ("queries_cpu_percent", "their CPU, % of a core"),
    ("shared_mib", "shared memory of the machine, MiB at most"),
    ("load_per_s", "messages sent a second"),
    ("late_slices", "slices of them that were late"),
)


def console_for_output() -> Console:
    """A console as wide as its terminal; a pipe takes whole lines."""
    console = Console()
    return console if console.is_terminal else Console(width=_WIDTH)


def show(figures: Mapping[str, Any], console: Console) -> None:
    """Print everything."""
    console.print(head(figures), style="bold", markup=False, highlight=False)
    for table in (_measured(figures), _met(figures), _judged(figures)):
        if not console.is_terminal:
            table.box = None
        console.print(table)


def _measured(figures: Mapping[str, Any]) -> Table:
    phases = (figures["baseline"], figures["attack"])
    table = _table("", "quiet", "attacked", right=True)
    for name, label in _ASKED:
        table.add_row(f"{label}, right", *(f"{each[name].right} of {each[name].asked}" for each in phases))
        table.add_row("  p50 / p99 / max", *(_three(each[name]) for each in phases))
    for name, label in _HELD:
        table.add_row(label, *(f"{each[name]:,.0f}" for each in phases))
    return table


def _met(figures: Mapping[str, Any]) -> Table:
    table = _table("who", "how it ended, and how often", "longest, s")
    for name, counts in figures["honest"].items():
        table.add_row(f"honest: {name}", _counted(counts), "")
    for name, counts in sorted(figures["attackers_met"].items()):
        longest_s = figures["longest_s"].get(name.removeprefix("bomb "))
        table.add_row(name, escape(_counted(counts)), "" if longest_s is None else f"{longest_s:.1f}")
    table.add_row("the worker's own count", _counted(figures["edge"]), "")
    table.add_row("CPU of clients, % of a core", _counted(figures["clients_cpu_percent"]), "")
    return table


def _judged(figures: Mapping[str, Any]) -> Table:
    table = _table("limit", "asked", "found", "")
    for each in verdicts(figures):
        table.add_row(*map(escape, each[:3]), "holds" if each.ok else "[bold red]FAILS[/]")
    return table


def _table(*names: str, right: bool = False) -> Table:
    table = Table()
    for number, name in enumerate(names):
        table.add_column(name, justify="right" if right and number else "left")
    return table


def _counted(counts: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {count:,.0f}" for name, count in sorted(counts.items()) if count) or "none"


def _three(spread: Spread) -> str:
    return " / ".join(in_ms(value) for value in (spread.p50_ms, spread.p99_ms, spread.max_ms))


def head(figures: Mapping[str, Any]) -> str:
    """What was done, in a line."""
    who, addresses = figures["attackers"], figures["addresses"]
    whence = f"{addresses} addresses" if addresses else "the address of honest clients"
    return (
        f"{figures['seconds']:g} s: {who['idle']:,} idle, {who['slow']:,} slow, {who['deaf']:,} deaf, "
        f"{who['bombers']:,} with bombs, {who['guessers']:,} guessing, from {whence}; "
        f"load {figures['load_average']} on {figures['machine']['cores']} cores"
    )
