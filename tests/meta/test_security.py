"""SECURITY.md claims nothing without a test: every row names one, and every one that is named exists."""

from __future__ import annotations

import ast
import re
from functools import cache

from tests.meta.tree import ROOT

PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
_NAMED = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
_SHOWN_BY = "shown by |"


@cache
def named_in(path: str) -> frozenset[str]:
    """Return the names of a file's tests that pytest would run, none if there is no such file."""
    file = ROOT / path
    if not file.is_file():
        return frozenset()
    tree = ast.parse(file.read_text(encoding="utf-8"))
    functions = (node for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return frozenset(node.name for node in functions if node.name.startswith("test_"))


def missing(text: str) -> list[str]:
    return [f"{path}::{name}" for path, name in _NAMED.findall(text) if name not in named_in(path)]


def unproved(text: str) -> list[str]:
    """Return the claims of tables of claims that name no test."""
    found, inside = [], False
    for line in text.splitlines():
        if not line.startswith("|"):
            inside = False
        elif line.endswith(_SHOWN_BY):
            inside = True
        elif inside and not line.startswith("|---") and not _NAMED.search(line):
            found.append(line)
    return found


def test_every_claim_names_a_test_that_exists() -> None:
    assert PAGE.count(_SHOWN_BY) >= 7, "a table for each who may be hostile"
    assert not unproved(PAGE)
    assert not missing(PAGE)


def test_every_place_of_the_repository_it_names_exists() -> None:
    named = set(re.findall(r"`((?:deploy|docs|examples)/[\w./-]+|docker-compose\.yml)`", PAGE))
    assert "deploy/clickhouse/users.xml" in named
    # This one is written by whoever reaches a registry.
    assert not [name for name in named - {"deploy/images.env"} if not (ROOT / name).exists()]


def test_the_guards_fire() -> None:
    here = "tests/meta/test_security.py"
    assert not missing(f"`{here}::test_the_guards_fire`")
    assert missing(f"`{here}::test_that_is_not_there`")
    assert missing(f"`{here}::unproved`"), "no test"
    assert missing("`tests/meta/test_nothing.py::test_the_guards_fire`")
    table = f"| attempt | what happens | {_SHOWN_BY}\n|---|---|---|\n"
    assert unproved(f"{table}| a | b | trust me |\n")
    assert not unproved(f"{table}| a | b | `{here}::test_the_guards_fire` |\n")
    assert not unproved("| who | has |\n|---|---|\n| a | b |\n")
