"""Training scripts that tests start as processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SDK = Path(__file__).resolve().parents[2] / "sdk"


def started(folder: Path, text: str, *args: str, **env: str) -> subprocess.Popen[str]:
    """Start a script that imports the SDK of this checkout."""
    script = folder / "train.py"
    script.write_text(text)
    return subprocess.Popen(
        [sys.executable, str(script), *args],
        env={**os.environ, "PYTHONPATH": str(SDK), **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def ran(folder: Path, text: str, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Run a script to its end."""
    process = started(folder, text, *args, **env)
    out, err = process.communicate(timeout=60)
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)
