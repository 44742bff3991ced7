"""Runs one peer on one feed, and says how fast it was and whether it was right.

Its windows are compared with what was sent, and a wrong or missing result is a fault in the table, not a row
less.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from loadtest.known import WINDOW_S
from loadtest.peers.catalogue import Peer
from loadtest.peers.feeds import Feed
from loadtest.peers.homes import ROOT, Home
from loadtest.peers.machine import Meter
from loadtest.peers.results import Run, failed
from loadtest.peers.task import Task, windows_of
from loadtest.peers.totals import wrong


def runs_of(peer: Peer, home: Home, feed: Feed, times: int, limit_s: float) -> Iterator[Run]:
    """Do it so often after a peer's warm-up; a fault ends it."""
    if warm_up := min(peer.warm_up, feed.size.most_warm_up):
        yield from _process(peer, home, feed, times, warm_up, limit_s)
        return
    for _ in range(times):
        for run in _process(peer, home, feed, 1, 0, limit_s):
            yield run
            if run.fault:
                return


def _process(peer: Peer, home: Home, feed: Feed, times: int, warm_up: int, limit_s: float) -> Iterator[Run]:
    passes = warm_up + times
    with tempfile.TemporaryDirectory(prefix="trainfare-peer-", ignore_cleanup_errors=True) as name:
        directory = Path(name)
        task = Task(
            bootstrap_servers=feed.kafka.bootstrap_servers,
            topic=feed.topic,
            group=f"peer-{uuid.uuid4().hex[:12]}",
            messages=feed.messages,
            gpus_per_message=feed.shape.gpus,
            window_ms=WINDOW_S * 1000,
            passes=passes,
            directory=str(directory),
            first_window_ms=feed.known.begin_s * 1000,
            partitions=feed.kafka.partitions,
        )
        program, *arguments = peer.program
        command = [*home.command, program, str(task.write()), *arguments]
        with Meter() as meter, (directory / "log").open("wb") as log:
            began_s = time.time()
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
            ended = _ended(process, limit_s)
        for number in range(passes):
            result = directory / f"result-{number}.json"
            if not result.exists():
                yield failed(feed, f"{ended}; {why((directory / 'log').read_text(errors='replace'))}")
                return
            found = json.loads(result.read_bytes())
            yield _run(peer, feed, found, began_s, meter.others_cores, cold=number < warm_up)


def _ended(process: subprocess.Popen[bytes], within_s: float) -> str:
    """Wait for its end, or make one; says which."""
    try:
        return f"exit code {process.wait(within_s)}"
    except subprocess.TimeoutExpired:
        return f"not done after {within_s:g} s"
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, 9)  # its own session: what it started ends with it
        process.wait()


def _run(peer: Peer, feed: Feed, found: dict[str, Any], began_s: float, others: float, *, cold: bool) -> Run:
    if peer.totals:
        fault = wrong(windows_of(found["rows"]), feed.known)
    else:
        fault = None if found["counted"] == feed.messages else f"{found['counted']:,} of {feed.messages:,}"
    return Run(
        messages=feed.messages,
        samples=feed.samples,
        wall_s=found["wall_s"],
        cpu_s=found["cpu_s"],
        whole_cpu_s=found["whole_cpu_s"],
        peak_rss_mib=found["peak_rss_mib"],
        start_s=found["first_at_s"] - began_s,
        others_cores=others,
        cold=cold,
        note=found["note"],
        fault=fault,
    )


def why(said: str) -> str:
    """The line of a log that says most of what went wrong: the innermost cause of a Java trace, else the last."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    causes = [line for line in lines if line.startswith("Caused by:")]
    return (causes or lines or ["it said nothing"])[-1][:300]
