"""`python -m loadtest.peers`: fill the topics, run every peer and then ours, print the tables with their ratios."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

from loadtest.latency_world import WorldError, broker, machine
from loadtest.peers import ours
from loadtest.peers.catalogue import OURS, PEERS, Peer
from loadtest.peers.feeds import PARTITIONS, Feed, Size, begin_s, filled
from loadtest.peers.homes import Home, MissingError, java_version
from loadtest.peers.homes import ours as our_home
from loadtest.peers.results import (
    LEGEND,
    Row,
    as_json,
    cpu_per_million_messages,
    messages_per_s,
    notes,
    table_of,
)
from loadtest.peers.runner import runs_of

TITLES = {
    "w1": "W1: one GPU a message, 1,000 jobs, sum and count of util_ratio per job and 10 s of event time",
    "w2": "W2: eight GPUs a message, else the same",
    "w2-long": "W2, sustained: 1,000 s of event time, 3,000,000 messages of eight GPUs",
}


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
    # Its end by a signal ends the broker and the peer, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    began_s = time.monotonic()
    times = 1 if options.quick else options.runs
    with ExitStack() as stack:
        try:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="trainfare-peers-")))
            kafka = stack.enter_context(broker(directory / "kafka"))
        except WorldError as fault:
            console.print(f"peers: {fault}")
            return 1
        servers = kafka.bootstrap_servers
        rows, stored, taken = measured(peers, homes, servers, times, options.limit, console)
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


def measured(
    peers: Sequence[Peer],
    homes: dict[str, Home | str],
    servers: str,
    times: int,
    limit_s: float,
    console: Console,
) -> tuple[list[Row], dict[str, Row], dict[str, Row]]:
    """Run every peer, then ours: all rows, and of ours those of each workload by both clocks."""
    rows: list[Row] = []
    stored: dict[str, Row] = {}
    taken: dict[str, Row] = {}
    feeds: dict[Size, Feed] = {}
    at_s = begin_s(OURS)
    with console.status("starting") as status:

        def feed_of(size: Size) -> Feed:
            """Fill a topic the first time that it is asked for."""
            if size not in feeds:
                status.update(f"filling {size.prefix}gpu")
                feeds[size] = filled(size, servers, at_s)
            return feeds[size]

        for peer in peers:
            for size in peer.sizes:
                row, home = Row(peer.name, "", size.workload, peer.does, 0), homes[peer.name]
                if isinstance(home, str):
                    row.missing = home
                else:
                    feed = feed_of(size)
                    row.version, row.messages = home.version(peer.package), feed.messages
                    status.update(f"{size.workload} {peer.name}")
                    row.runs += runs_of(peer, home, feed, times, limit_s)
                console.print(_said(row), highlight=False)
                rows.append(row)
        version = our_home().version("trainfare")
        for size in OURS:
            feed = feed_of(size)
            one = Row(ours.NAME, version, size.workload, ours.DOES, feed.messages)
            other = Row(ours.TAKEN, version, size.workload, ours.DOES_TAKEN, feed.messages)
            status.update(f"{size.workload} {ours.NAME}")
            while len(one.runs) < times and not one.faults:
                for row, run in zip((one, other), ours.run(feed, limit_s), strict=True):
                    row.runs.append(run)
            console.print(_said(one), highlight=False)
            stored[size.workload], taken[size.workload] = one, other
            rows += [one, other]
    return rows, stored, taken


def _said(row: Row) -> str:
    """A finished row in a line."""
    rate, cpu = row.spread(messages_per_s), row.spread(cpu_per_million_messages)
    said = row.faults[0] if row.faults or not rate or not cpu else (
        f"{rate[0]:,.0f} messages/s, {cpu[0]:.2f} CPU s/M"
    )  # fmt: skip
    return f"{row.workload} {row.name}: {said}"


if __name__ == "__main__":
    sys.exit(main())
