"""`trainfare init` asks a person on a terminal, here a real one: prices that are lacking, and before it writes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from tests.forked import without_settings
from tests.init.slurm_site import SlurmSite, node


def asked(tmp_path: Path, typed: str) -> subprocess.CompletedProcess[str]:
    """Type all answers at once, as a terminal takes them."""
    site = SlurmSite(node("n1", "gpu:odd:4"), tracked="gres/gpu,gres/gpu:odd")
    path = f"{site.programs(tmp_path / 'bin')}:{os.environ['PATH']}"
    keyboard, terminal = pty.openpty()
    try:
        os.write(keyboard, typed.encode())
        return subprocess.run(
            [
                sys.executable,
                "-m",
                "streams.cli.main",
                "init",
                "slurm",
                "--no-start",
                "--dir",
                tmp_path / "live",
            ],
            env={**without_settings(), "PATH": path, "HOME": str(tmp_path)},
            stdin=terminal,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    finally:
        os.close(keyboard)
        os.close(terminal)


@pytest.mark.parametrize(
    ("typed", "code", "row"),
    [("1.5\n\n", 0, "gpu.odd,odd,1.5,gpu_hour"), ("\ny\n", 1, "# without a price yet: odd")],
)
def test_an_answer_becomes_a_price_and_none_leaves_it_open(
    tmp_path: Path, typed: str, code: int, row: str
) -> None:
    done = asked(tmp_path, typed)
    assert done.returncode == code, done.stdout + done.stderr
    assert "Dollars of a GPU-hour of 'odd' (empty: later)" in done.stderr
    assert row in (tmp_path / "live/prices.csv").read_text()


def test_a_no_writes_nothing(tmp_path: Path) -> None:
    done = asked(tmp_path, "2\nn\n")
    assert done.returncode == 130
    assert not (tmp_path / "live").exists()


def test_what_is_no_price_is_asked_again_and_nothing_is_written_before_a_yes(tmp_path: Path) -> None:
    done = asked(tmp_path, "dear\n-1\n1.5\ny\n")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr.count("Error: expected a decimal string") == 2
    assert "prices.csv: would be written" in done.stdout
    assert "prices.csv: written" not in done.stdout
    assert "gpu.odd,odd,1.5,gpu_hour" in (tmp_path / "live/prices.csv").read_text()
