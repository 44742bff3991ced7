"""A result as large as it may be, of a query within its memory, does not meet the limit of the process."""

from __future__ import annotations

import re
import threading
from pathlib import Path

from sinks.query.limits import QueryLimits
from sinks.query.process import QueryProcess
from sinks.target import Embedded, query_source
from tests.new_store import begun

#: A thread's stack and an extent of the allocator, several times.
LEFT_BYTES = 64 * 2**20


def figures(pid: int) -> tuple[int, int]:
    """The private memory of a process as the kernel counts it, and its limit; bytes."""
    used = re.search(r"VmData:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    most = re.search(r"Max data size\s+(\d+)", Path(f"/proc/{pid}/limits").read_text())
    return int(used[1]) * 1024 if used else 0, int(most[1]) if most else 0


def test_an_ordinary_large_result_leaves_room(tmp_path: Path) -> None:
    target = Embedded(data_dir=begun(tmp_path / "data"))
    process = QueryProcess(query_source(target), QueryLimits())
    process.wait_ready()
    found, over = [figures(process.pid)], threading.Event()

    def watch() -> None:
        while not over.wait(0.001):
            found.append(figures(process.pid))

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        process.ask("SELECT repeat('x', 1000) FROM numbers(50000)", {}, "json")
    finally:
        over.set()
        watching.join()
        process.close()
    assert len(found) > 10
    assert min(most - used for used, most in found if most) > LEFT_BYTES
