"""Which tests are left to `make test-long`: those of `long_tests.txt`, and those that carry the mark themselves.

The list is for what takes seconds and has a shorter test beside it; with it `make test` stays short enough to be run often.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).with_suffix(".txt")


@cache
def listed() -> tuple[str, ...]:
    """Return the lines of the list: files, functions, single tests with their parameters, or `FUNCTION[*]`: all its cases but the first."""
    lines = LIST.read_text(encoding="utf-8").splitlines()
    return tuple(line for line in lines if line and not line.startswith("#"))


def mark(items: Iterable[pytest.Item]) -> list[str]:
    """Mark the listed tests among those of whole files; return what is listed of these files and does not exist."""
    wanted, found, files, functions = frozenset(listed()), set[str](), set[str](), set[str]()
    for item in items:
        file, function = item.nodeid.partition("::")[0], item.nodeid.partition("[")[0]
        files.add(file)
        names = {item.nodeid, function, file}
        if function in functions:
            names.add(f"{function}[*]")
        functions.add(function)
        for name in names & wanted:
            found.add(name)
            item.add_marker(pytest.mark.long)
    return [each for each in listed() if each not in found and each.partition("::")[0] in files]
