"""The list of tests that are left to `make test-long`: it names what exists, and what it names is left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import long_tests
from tests.meta.tree import ROOT


class Item:
    """As much of a collected test as the list looks at."""

    def __init__(self, nodeid: str) -> None:
        self.nodeid = nodeid
        self.marks: list[str] = []

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.marks.append(mark.name)


def test_it_is_in_order_and_names_files_that_exist() -> None:
    listed = long_tests.listed()
    assert list(listed) == sorted(set(listed))
    assert all((ROOT / each.partition("::")[0]).is_file() for each in listed)


def test_what_is_listed_is_marked_and_what_does_not_exist_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (
        "a.py::whole",
        "a.py::some[1]",
        "a.py::gone",
        "b.py::of_a_file_that_was_not_collected",
        "c.py",
        "d.py::each[*]",
    )
    monkeypatch.setattr(long_tests, "listed", lambda: lines)
    of_others = (
        "a.py::whole[1]",
        "a.py::whole[2]",
        "a.py::some[1]",
        "a.py::some[2]",
        "a.py::other",
        "c.py::any",
    )
    of_cases = ("d.py::each[x]", "d.py::each[y]", "d.py::each[z]", "d.py::other[y]")
    items = [Item(name) for name in (*of_others, *of_cases)]
    assert long_tests.mark(items) == ["a.py::gone"]  # type: ignore[arg-type]  # what it reads is there
    assert [each.marks for each in items] == [
        *(["long"], ["long"], ["long"], [], [], ["long"]),
        *([], ["long"], ["long"], []),
    ]


@pytest.mark.parametrize("named", [False, True])
def test_pytest_leaves_out_what_is_listed_unless_it_is_named(named: bool, tmp_path: Path) -> None:
    listed = "tests/segmented_log/test_crash.py::test_cut_at_every_byte_it_holds_every_group_before_it"
    assert listed in long_tests.listed()
    path = listed if named else listed.partition("::")[0]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider", path],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert any(line.startswith(listed) for line in done.stdout.splitlines()) is named, done.stdout
