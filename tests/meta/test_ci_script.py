"""The CI script ends on the summary of the whole suite, and fails whatever fails."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.meta.tree import ROOT

KERNELS = "== the kernels as plain Python\n=== 34 passed in 2.23s ===\n"
ALL = "== all tests\n"


def run(tmp_path: Path, *, output: str, tests: int = 0, check: int = 0) -> tuple[int, str]:
    """Run the script with a `make` that prints and returns what is given; return its code and last line."""
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci")
    tools = tmp_path / "bin"
    tools.mkdir()
    (tmp_path / "output").write_text(output)
    (tools / "make").write_text(
        f'#!/bin/sh\n[ "$1" = check ] && exit {check}\n'
        '[ "$TRAINFARE_REQUIRE_KAFKA$TRAINFARE_REQUIRE_BROWSER$TRAINFARE_REQUIRE_PROMETHEUS" = 111 ] || exit 9\n'
        f"cat {tmp_path}/output\necho 'make: last words' >&2\nexit {tests}\n"
    )
    for name in ("java", "mvn", "git", "chromium", "promtool", "prometheus-alertmanager"):
        (tools / name).write_text("#!/bin/sh\n")
    for tool in tools.iterdir():
        tool.chmod(0o755)
    env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    done = subprocess.run(
        [tmp_path / ".ci" / "run"], env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    return done.returncode, done.stdout.splitlines()[-1]


def test_all_well(tmp_path: Path) -> None:
    summary = "=== 900 passed, 2 skipped in 61.00s (0:01:01) ==="
    assert run(tmp_path, output=f"{KERNELS}{ALL}{summary}\n") == (0, summary)


def test_failing_tests_fail_and_their_summary_is_last(tmp_path: Path) -> None:
    summary = "=== 1 failed, 899 passed in 61.00s ==="
    assert run(tmp_path, output=f"{KERNELS}{ALL}{summary}\n", tests=2) == (1, summary)


def test_failing_check_fails_though_the_tests_pass(tmp_path: Path) -> None:
    summary = "=== 900 passed in 61.00s ==="
    assert run(tmp_path, output=f"{KERNELS}{ALL}{summary}\n", check=2) == (1, summary)


@pytest.mark.parametrize(
    "output", ["", KERNELS, f"{KERNELS}{ALL}tests/a.py ..", f"{ALL}no tests ran in 0.01s\n"]
)
def test_run_that_was_cut_short_or_empty_fails(output: str, tmp_path: Path) -> None:
    code, last = run(tmp_path, output=output, tests=5 if "no tests" in output else 2)
    assert code == 1
    assert "passed" not in last
