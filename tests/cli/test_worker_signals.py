"""A worker that is told to stop while it still loads ends in order."""

from __future__ import annotations

import subprocess
import sys

LOADING = "import os, signal, time; {}; os.kill(os.getpid(), signal.SIGTERM); time.sleep(60)"


def ended(before: str) -> int:
    return subprocess.run([sys.executable, "-c", LOADING.format(before)], check=False, timeout=60).returncode


def test_sigterm_while_it_loads_is_an_orderly_end() -> None:
    assert ended("from streams.cli.worker import exit_quietly_while_loading as quietly; quietly()") == 0
    assert ended("pass") == -15  # what Python does by itself
