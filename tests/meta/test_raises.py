"""A public function that raises on purpose says so in its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("schemas", "sinks", "streams")
#: Functions of commands: their docstrings are the help texts of users.
COMMANDS = {
    "streams/cli/apply.py:apply",
    "streams/cli/alerts_test.py:send_test",
    "streams/cli/audit.py:audit",
    "streams/cli/backfill.py:backfill",
    "streams/cli/bills_export.py:export",
    "streams/cli/chargeback.py:chargeback",
    "streams/cli/close.py:close",
    "streams/cli/statement.py:statement",
    "streams/cli/collect.py:collect",
    "streams/cli/costs.py:costs",
    "streams/cli/dead_letters/listing.py:show",
    "streams/cli/dead_letters/replay.py:replay",
    "streams/cli/demo.py:demo",
    "streams/cli/estimate.py:estimate",
    "streams/cli/explain.py:explain",
    "streams/cli/gameday.py:gameday",
    "streams/cli/gate.py:gate",
    "streams/cli/incident.py:incident",
    "streams/cli/price_amortize.py:amortize",
    "streams/cli/price_show.py:show",
    "streams/cli/prices.py:load",
    "streams/cli/receipts.py:ask",
    "streams/cli/replay.py:replay",
    "streams/cli/serve.py:serve",
    "streams/cli/setup.py:check",
    "streams/cli/row_policies.py:row_policies",
    "streams/cli/store.py:retention",
    "streams/cli/upgrade.py:check",
}


def raises(node: ast.AST) -> bool:
    """Whether the function itself raises; a bare `raise` passes on what a docstring cannot name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            continue
        if (
            isinstance(child, ast.Raise)
            and child.exc is not None
            and "AssertionError" not in ast.unparse(child)
        ):
            return True
        if raises(child):
            return True
    return False


def silent(tree: ast.AST, owner: ast.ClassDef | None = None) -> Iterator[str]:
    """The public functions that raise and do not say so; a class may speak for its `__init__`."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from silent(node, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            is_init = node.name == "__init__" and owner is not None
            if (node.name.startswith("_") and not is_init) or not raises(node):
                continue
            said = ast.get_docstring(node) or ""
            if is_init and owner is not None:
                said += ast.get_docstring(owner) or ""
            if "raise" not in said.lower():
                yield f"{owner.name}.{node.name}" if owner is not None else node.name


def test_every_public_function_that_raises_says_so() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{name}"
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for name in silent(ast.parse(path.read_text()))
    }
    assert found == COMMANDS


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f():\n    raise ValueError(1)", ["f"]),
        ("def f():\n    '''Raises:\n    ValueError: always.'''\n    raise ValueError(1)", []),
        ("class A:\n    def f(self):\n        if 1:\n            raise ValueError(1)", ["A.f"]),
        ("class A:\n    '''Raises ValueError.'''\n    def __init__(self):\n        raise ValueError(1)", []),
        ("def f():\n    try:\n        g()\n    except OSError:\n        raise", []),
        ("def _f():\n    raise ValueError(1)", []),
    ],
)
def test_what_counts_as_silent(source: str, names: list[str]) -> None:
    assert list(silent(ast.parse(source))) == names
