"""The first ten minutes of each door of the documentation: its commands print what the page shows.

Those of the platform engineer are of a live fleet, whose figures differ a little each time: they are left out.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.command import ROOT, trainfare

DOORS = ("finance", "job_owner", "sre")
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(page: str) -> Iterator[tuple[list[str], str]]:
    """Each command with what the page shows of its output: all of it, or where it begins."""
    for _, block in _BLOCK.findall(page):
        for each in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            words, _, shown = each.partition("\n")
            if words.startswith("trainfare "):
                yield shlex.split(words)[1:], shown


@pytest.mark.parametrize("door", DOORS)
def test_the_commands_of_a_door_print_what_it_shows(tmp_path: Path, door: str) -> None:
    page = (ROOT / "docs" / "start" / f"{door}.md").read_text(encoding="utf-8")
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    if "--data ./meter" in page:  # what `make example` leaves there
        done = trainfare("replay", "examples/helios-500.jsonl.gz", "--data", "./meter", cwd=tmp_path)
        assert done.code == 0, done.err
    for kind, block in _BLOCK.findall(page):
        if kind == "json":
            (tmp_path / "run-7.jsonl").write_text(block, encoding="utf-8")
    ran = 0
    for words, shown in commands(page):
        done = trainfare(*words, cwd=tmp_path)
        assert done.code == 0, (words, done.err)
        assert done.out.startswith(shown), f"{words}\n{done.out}"
        ran += 1
    assert ran >= 3
