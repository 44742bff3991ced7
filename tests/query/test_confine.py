"""What a process for queries has when it starts: one thread, until it is confined."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sinks.query.process import ENVIRONMENT

ROOT = Path(__file__).parents[2]


def test_nothing_that_is_loaded_before_it_is_confined_starts_a_thread() -> None:
    """Landlock holds the thread that asks for it and those started later: an earlier one would stay free."""
    loaded = "import numpy, pyarrow, clickhouse_connect, sinks.query.answers, sinks.query.child"
    count = "import os; print(len(os.listdir('/proc/self/task')))"
    command = [sys.executable, "-c", f"{loaded}; {count}"]
    done = subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1"]
