"""`trainfare` in a process that kills itself in the middle of an insert: `python -m tests.storage_faults.killed LOG N MS ...`.

The N-th insert begins, and so many milliseconds later the process is gone. LOG gets `b` as an insert begins
and `e` as it ends, so a last `b` shows that the kill came inside one. N = 0: it is never killed.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from sinks.clickhouse.store import ClickHouseStore


def main() -> None:
    log, number, delay_ms = Path(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
    marks = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    real, begun = ClickHouseStore._insert, 0

    def insert(self: ClickHouseStore, table: str, piece: Any) -> None:
        nonlocal begun
        begun += 1
        os.write(marks, b"b")
        if begun == number:
            threading.Timer(delay_ms / 1000, os.kill, (os.getpid(), signal.SIGKILL)).start()
        real(self, table, piece)
        os.write(marks, b"e")

    ClickHouseStore._insert = insert  # type: ignore[method-assign]  # the point of it
    from streams.cli.main import main as command

    command(sys.argv[4:])


def inside(log: Path) -> bool:
    """Whether the process ended in an insert."""
    return log.exists() and log.read_bytes().endswith(b"b")


if __name__ == "__main__":
    main()
