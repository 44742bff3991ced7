"""Our own worker on the peers' topics: the whole engine, with an embedded ClickHouse whose rows are compared.

Each run is a new group with a store of its own. The clock runs from the first record that is folded to the
last one whose rows and snapshot are stored; `taken` stops it at the last record folded, as the clock of
clients that count and of Kafka Streams does.
"""

from __future__ import annotations

import json
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

from loadtest.peers.feeds import Feed
from loadtest.peers.machine import Meter
from loadtest.peers.results import Run, failed
from loadtest.soak_world import Member
from loadtest.verdict import differences
from sinks.clickhouse import Embedded

NAME = "trainfare"
DOES = "whole engine: coverage, ledger, burn windows, snapshots, every row stored in ClickHouse"
TAKEN = "trainfare, last record folded"
DOES_TAKEN = "the same runs, clock stopped as that of who counts and of Kafka Streams"
_LOOK_S = 0.05


def run(feed: Feed, limit_s: float) -> tuple[Run, Run]:
    """Meter the feed once; the run by both clocks: stored, and taken."""
    with tempfile.TemporaryDirectory(prefix="trainfare-peers-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        with Meter() as meter:
            began_s = time.time()
            said = _said(feed, directory, limit_s)
        if isinstance(said, str):
            return failed(feed, said), failed(feed, said)
        wrong = differences(Embedded(data_dir=directory / "data"), feed.known)
        fault = f"{len(wrong)} totals differ: {wrong[0]}" if wrong else None
        return _both(feed, said, began_s, meter.others_cores, fault)


def _said(feed: Feed, directory: Path, limit_s: float) -> list[dict[str, Any]] | str:
    """What the worker said of itself until everything was stored, or why it was not."""
    out = directory / "inside.jsonl"
    out.touch()
    env = {
        "TRAINFARE_KAFKA_BOOTSTRAP_SERVERS": feed.kafka.bootstrap_servers,
        "TRAINFARE_KAFKA_PARTITIONS": str(feed.kafka.partitions),
        "TRAINFARE_KAFKA_TOPIC_PREFIX": feed.kafka.topic_prefix,
        "TRAINFARE_KAFKA_GROUP_ID": f"ours-{uuid.uuid4().hex[:12]}",
    }
    worker = Member(
        "worker", env, directory, ("--data", str(directory / "data")), ("loadtest.inside", str(out))
    )
    deadline_s = time.monotonic() + limit_s
    worker.start()
    try:
        while stored(_lines(out), feed.messages) is None:
            if not worker.alive:
                return f"the worker ended: {worker.said()[-300:]}"
            if time.monotonic() > deadline_s:
                return f"not done after {limit_s:g} s"
            time.sleep(_LOOK_S)
        code = worker.stop()
    finally:
        worker.kill()
    return _lines(out) if code == 0 else f"the worker ended with {code}: {worker.said()[-300:]}"


def _lines(out: Path) -> list[dict[str, Any]]:
    # A line that is being written has no end yet.
    whole, _, _ = out.read_text(encoding="utf-8").rpartition("\n")
    return [json.loads(line) for line in whole.splitlines()]


def stored(lines: list[dict[str, Any]], messages: int) -> dict[str, Any] | None:
    """The first flight of checkpoints with which so many messages are stored."""
    for line in lines:
        if line.get("stored", {}).get("records", {}).get("gpu", 0) >= messages:
            flight: dict[str, Any] = line["stored"]
            return flight
    return None


def _both(
    feed: Feed, lines: list[dict[str, Any]], began_s: float, others_cores: float, fault: str | None
) -> tuple[Run, Run]:
    first = next(line["first"] for line in lines if "first" in line)
    flight = stored(lines, feed.messages)
    end = next(line for line in lines if "parts" in line)
    if flight is None:
        raise ValueError("the worker was stopped before everything was stored")

    def until(mark: dict[str, float]) -> Run:
        return Run(
            messages=feed.messages,
            samples=feed.samples,
            wall_s=mark["at_s"] - first["at_s"],
            cpu_s=mark["cpu_s"] - first["cpu_s"],
            whole_cpu_s=mark["cpu_s"],
            peak_rss_mib=end["rss_peak_mib"],
            start_s=first["at_s"] - began_s,
            others_cores=others_cores,
            note=f"{sum(end['rows'].values()):,} rows stored",
            fault=fault,
        )

    return until(flight), until(flight["folded"])
