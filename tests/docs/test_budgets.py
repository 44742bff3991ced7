"""docs/budgets.md: the first run is real output, in order, of the shipped log."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from loadtest.sweep import FILE, TRIALS, lines
from tests.cli.command import ROOT, Done, trainfare
from tests.docs.sections import DOCS, section

SHOWN = re.findall(
    r"^\$ (.+)\n((?:(?!\$ ).*\n)*)",
    section((DOCS / "budgets.md").read_text(), "First run").split("```\n")[1],
    re.MULTILINE,
)


def test_the_log_is_what_is_made() -> None:
    assert FILE.read_text() == "".join(lines()), "run python -m loadtest.sweep"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Done]:
    """The commands of the page, one after the other, in a folder with the examples."""
    folder: Path = tmp_path_factory.mktemp("first-run")
    (folder / "examples").symlink_to(ROOT / "examples")
    return [trainfare(*shlex.split(command)[1:], cwd=folder) for command, _ in SHOWN]


def test_they_are_five_and_all_work(runs: list[Done]) -> None:
    assert [command.split()[1] for command, _ in SHOWN] == ["replay", "sql", "budgets", "gate", "sql"]
    assert [(done.code, done.err) for done in runs] == [(0, "")] * 3 + [(1, ""), (0, "")]


@pytest.mark.parametrize("number", range(1, 5))
def test_it_prints_what_is_shown(runs: list[Done], number: int) -> None:
    assert runs[number].out == SHOWN[number][1]


def test_the_replay_prints_these_lines_among_others(runs: list[Done]) -> None:
    printed = iter(runs[0].out.splitlines())
    assert all(line in printed for line in SHOWN[0][1].splitlines())
    assert SHOWN[0][1].split()[:2] == ["jobs", str(TRIALS)]


def test_gate_exits_as_its_table_says(runs: list[Done], tmp_path_factory: pytest.TempPathFactory) -> None:
    text = section((DOCS / "budgets.md").read_text(), "Before work begins")
    assert re.findall(r"^\| (\d) \|", text, re.MULTILINE) == ["0", "1", "2"]
    folder = next(tmp_path_factory.getbasetemp().glob("first-run*"))
    cases = {
        ("--experiment", "no-such-sweep", "--data", "sweep"): 0,
        ("--experiment", "lr-sweep-12", "--need", "5", "--data", "sweep"): 1,
        ("--data", "sweep"): 2,
        ("--team", "a", "--need", "much", "--data", "sweep"): 2,
        ("--team", "a", "--data", "no-such-folder"): 2,
    }
    done = {arguments: trainfare("gate", *arguments, cwd=folder) for arguments in cases}
    assert {arguments: each.code for arguments, each in done.items()} == cases
    assert all(bool(each.err) == (each.code == 2) for each in done.values())
