"""The table of docs/faults.md: every test that it names exists, and shows something."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "faults.md").read_text().splitlines()
    if "::" in line and line.startswith("| ")
]
#: Faults that the table must have, each by words of its row.
ASKED = (
    "killed (SIGKILL",
    "SIGTERM",
    "zombie",
    "joins or leaves",
    "broker killed or restarted",
    "unavailable for a minute",
    "retention",
    "recreated",
    "clock is wrong",
    "[unavailable]",
    "slow, answers 503",
    "disk is full",
    "killed during an insert",
    "older than the rows",
    "unknown format",
    "damaged",
    "invalid events",
    "flood",
    "too_late",
    "from the future",
    "a price a day late",
    "receiver unavailable",
    "a partition idle",
)


def _functions(file: Path) -> set[str]:
    return {node.name for node in ast.walk(ast.parse(file.read_text())) if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: str(row[0])[:40])
def test_every_test_that_is_named_exists(row: list[str]) -> None:
    fault, seen, guaranteed, tests = row
    assert fault
    assert seen
    assert guaranteed
    for named in tests.replace("`", "").split(", "):
        file, *_, function = named.split("::")
        assert (ROOT / "tests" / file).is_file(), named
        assert function in _functions(ROOT / "tests" / file), named


def test_every_fault_that_must_be_there_is() -> None:
    assert [word for word in ASKED if not any(word in row[0] or word in row[1] for row in ROWS)] == []
