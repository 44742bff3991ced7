"""`python -m loadtest.peers`: fill the topics, run every peer and then ours, print the tables with their ratios.

It must not leave out silently what cannot be installed or was wrong: both are rows, and a wrong total is exit code 1.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from loadtest.latency_world import WorldError, broker, machine
from loadtest.peers import ours
from loadtest.peers.catalogue import OURS, PEERS, Peer
from loadtest.peers.feeds import PARTITIONS, Feed, Size, begin_s, filled
from loadtest.peers.homes import Home, MissingError, java_version
from loadtest.peers.homes import ours as our_home
from loadtest.peers.runner import runs_of
from loadtest.peers.runs import Row, as_json, cpu_per_million_messages, messages_per_s
from loadtest.peers.table import LEGEND, notes, table_of

TITLES = {
    "w1": "W1: one GPU a message, 1,000 jobs, sum and count of util_ratio per job and 10 s of event time",
    "w2": "W2: eight GPUs a message, else the same",
    "w2-long": "W2, sustained: 1,000 s of event time, 3,000,000 messages of eight GPUs",
}


@dataclass
class Session:
    """One run of everything on one broker."""

    bootstrap_servers: str
    times: int
    limit_s: float
    progress: Progress
    step: TaskID
    begin_s: int = field(default_factory=lambda: begin_s(OURS))
    feeds: dict[Size, Feed] = field(default_factory=dict)

    def feed(self, size: Size) -> Feed:
        """Fill a topic the first time that it is asked for."""
        if size not in self.feeds:
            self.say(f"filling {size.prefix}gpu")
            self.feeds[size] = filled(size, self.bootstrap_servers, self.begin_s)
        return self.feeds[size]

    def say(self, what: str) -> None:
        """Show what is being done."""
        self.progress.update(self.step, description=what)

    def done(self, row: Row) -> None:
        """Show a finished row."""
        self.progress.advance(self.step)
        rate, cpu = row.spread(messages_per_s), row.spread(cpu_per_million_messages)
        found = row.faults[0] if row.faults or not rate or not cpu else (
            f"{rate[0]:,.0f} messages/s, {cpu[0]:.2f} CPU s/M"
        )  # fmt: skip
        self.progress.console.print(f"{row.workload} {row.name}: {found}", highlight=False)

    def rows_of(self, peer: Peer, home: Home | str) -> Iterator[Row]:
        """Run a peer on its feeds; a home that is a string is why there is none."""
        for size in peer.sizes:
            row = Row(peer.name, "", size.workload, peer.does, 0)
            if isinstance(home, str):
                row.missing = home
            else:
                feed = self.feed(size)
                row.version, row.messages = home.version(peer.package), feed.messages
                for run in runs_of(peer, home, feed, self.times, self.limit_s):
                    row.runs.append(run)
                    self.say(f"{size.workload} {peer.name}: run {len(row.runs)}")
            self.done(row)
            yield row

    def our_rows(self) -> Iterator[tuple[Row, Row]]:
        """Run ours on both feeds; each by both clocks."""
        version = our_home().version("trainfare")
        for size in OURS:
            feed = self.feed(size)
            stored = Row(ours.NAME, version, size.workload, ours.DOES, feed.messages)
            taken = Row(ours.TAKEN, version, size.workload, ours.DOES_TAKEN, feed.messages)
            for number in range(self.times):
                self.say(f"{size.workload} {ours.NAME}: run {number + 1}")
                both = ours.run(feed, self.limit_s)
                stored.runs.append(both.stored)
                taken.runs.append(both.taken)
                if both.stored.fault:
                    break
            self.done(stored)
            yield stored, taken


def home_of(peer: Peer) -> Home | str:
    """Where it runs, or why it cannot."""
    try:
        return peer.home()
    except MissingError as fault:
        return f"cannot be installed here: {fault}"


def chosen(names: Sequence[str]) -> list[Peer]:
    """The peers whose names hold one of these, whatever the case; all without any."""
    return [peer for peer in PEERS if not names or any(each.lower() in peer.name.lower() for each in names)]


def facts() -> dict[str, object]:
    """What the figures depend on, besides the versions that the rows have."""
    return {
        **machine(),
        "java": java_version(),
        "partitions": PARTITIONS,
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "load_average": os.getloadavg()[0],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 all was right or could not be installed, 1 a total was wrong or a run failed."""
    parser = argparse.ArgumentParser(prog="peers", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of peers' names; none means all")
    parser.add_argument("--runs", type=int, default=3, help="runs of each that count")
    parser.add_argument("--quick", action="store_true", help="one run of each")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds that a process may take")
    parser.add_argument("--without-ours", action="store_true", help="the peers alone")
    parser.add_argument("--install-only", action="store_true", help="make the environments and end")
    parser.add_argument("--out", type=Path, help="write everything as JSON, too")
    options = parser.parse_args(argv)
    peers = chosen(options.names)
    console = Console(width=None if sys.stdout.isatty() else 200)
    homes: dict[str, Home | str] = {}
    for peer in peers:
        with console.status(f"looking for {peer.name}"):
            homes[peer.name] = home_of(peer)
        if isinstance(homes[peer.name], str):
            console.print(f"{peer.name}: {homes[peer.name]}", highlight=False)
    if options.install_only:
        return 0
    # Its end by a signal ends the broker and the peer, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began_s = time.monotonic()
    rows, stored, taken = [], {}, {}
    with ExitStack() as stack:
        try:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-peers-")))
            kafka = stack.enter_context(broker(directory / "kafka"))
        except WorldError as fault:
            console.print(f"peers: {fault}")
            return 1
        columns = (
            BarColumn(20),
            TextColumn("{task.completed}/{task.total} {task.description}"),
            TimeElapsedColumn(),
        )
        progress = stack.enter_context(Progress(*columns, console=console, transient=True))
        total = sum(len(peer.sizes) for peer in peers) + (0 if options.without_ours else len(OURS))
        step = progress.add_task("starting", total=total)
        times = 1 if options.quick else options.runs
        session = Session(kafka.bootstrap_servers, times, options.limit, progress, step)
        for peer in peers:
            rows += list(session.rows_of(peer, homes[peer.name]))
        for one, other in () if options.without_ours else session.our_rows():
            stored[one.workload], taken[other.workload] = one, other
            rows += [one, other]
    for workload, title in TITLES.items():
        mine = [row for row in rows if row.workload == workload]
        console.print(table_of(title, mine, stored.get(workload), taken.get(workload)))
    for line in (*notes(rows), LEGEND, f"{time.monotonic() - began_s:.0f} s in all"):
        console.print(line, highlight=False, soft_wrap=True)
    if options.out is not None:
        found = as_json(rows, stored, taken, facts())
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")
    return int(any(run.fault for row in rows for run in row.runs))


if __name__ == "__main__":
    sys.exit(main())
