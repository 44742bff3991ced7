"""examples/flow-logs: the lines of its page, run as a user runs them, print what the page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from tests.cli.command import trainfare
from tests.meta.tree import ROOT

EXAMPLE = ROOT / "examples" / "flow-logs"


def test_the_lines_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    page = (EXAMPLE / "README.md").read_text()
    commands, shown = re.findall(r"```\n(.*?)```", page, re.DOTALL)
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    for line in commands.splitlines():
        command, _, out = line.partition(" > ")
        done = trainfare(*shlex.split(command)[1:], cwd=tmp_path)
        assert done.code == 0, done.err
        if out:
            (tmp_path / out).write_text(done.out)
    assert [row.split() for row in done.out.splitlines()] == [row.split() for row in shown.splitlines()]


def test_its_log_is_that_of_the_tests() -> None:
    recorded = ROOT / "tests" / "collect" / "flow_logs" / "recorded" / "aws-v5.txt"
    assert (EXAMPLE / "aws-v5.log").read_bytes() == recorded.read_bytes()
