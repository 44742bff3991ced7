"""Names of Faust are imported in one module, from which everybody else has them. The guard is shown to fire."""

from __future__ import annotations

import ast

import pytest

from tests.meta.tree import ROOT, tracked

#: What more than one module needs.
SHARED = frozenset({"TP", "ConsumerNotStarted"})
ONLY = "streams/transport/faust_types.py"


def shared_names_in(text: str) -> set[str]:
    """Return the shared names that a module imports from Faust itself."""
    if "faust" not in text:
        return set()  # most modules, which need not be parsed
    return {
        alias.name
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "faust"
        for alias in node.names
        if alias.name in SHARED
    }


def test_one_module_imports_what_all_share() -> None:
    found = {
        str(path.relative_to(ROOT)): names
        for path in tracked()
        if path.suffix == ".py" and (names := shared_names_in(path.read_text(encoding="utf-8")))
    }
    assert found == {ONLY: SHARED}


@pytest.mark.parametrize(
    "line",
    ["from faust.types import TP", "from faust.types.tuples import TP as Partition", "from faust import TP"],
)
def test_a_second_import_is_found(line: str) -> None:
    assert shared_names_in(line) == {"TP"}
