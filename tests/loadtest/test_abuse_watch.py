"""What a worker holds is read from /proc: its memory and files, and the query processes that it has started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from loadtest.abuse_watch import Held, between, is_query_process, look, most, query_processes

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@contextmanager
def child(*words: str) -> Iterator[int]:
    """A process that says so, and then waits for the end of its stdin."""
    program = "import sys; b = b'x' * 2**25; print('up', flush=True); sys.stdin.read()"
    process = subprocess.Popen(
        [sys.executable, "-c", program, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
    finally:
        process.communicate()


def test_only_processes_that_run_queries_are_counted_and_with_their_own_memory() -> None:
    with child("sinks.query.child") as query, child("another"):
        assert query_processes(os.getpid()) == [query]
        held = look(os.getpid(), 5.0)
        assert held is not None
        assert held.queries == 1
        assert held.queries_mib > 32
        assert held.rss_mib > 0
        assert held.files == len(list(Path("/proc/self/fd").iterdir()))
        assert held.at_s == 5.0
    assert not is_query_process(query)
    assert query_processes(os.getpid()) == []


def test_a_worker_that_has_ended_is_not_looked_at() -> None:
    with child() as pid:
        assert look(pid, 1.0) is not None
    assert look(pid, 2.0) is None


def test_figures_are_those_of_a_phase() -> None:
    looks = [Held(float(at_s), 100.0 + at_s, at_s, 0, 0.0, 0.0, 0.0) for at_s in range(10)]
    phase = between(looks, 2.0, 5.0)
    assert [each.files for each in phase] == [2, 3, 4]
    assert most(phase, lambda each: each.rss_mib) == 104.0
    assert most([], lambda each: each.rss_mib) == 0
