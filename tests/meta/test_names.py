"""Names and words: one type name in one module, no private words, no import cycles."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.meta.tree import ROOT

PACKAGES = ("schemas", "sinks", "streams")

#: Words of which the code once had meanings of its own; the field's words are in docs/glossary.md.
PRIVATE_WORDS = re.compile(r"(?i)(?<![a-z])(untold|courier|keeper|paydays?|going_on|told)(?![a-z])")

#: A type name that stands in two modules, with the reason.
SHARED_NAMES: dict[str, str] = {"Options": "the registry finds a collector's options by this name"}


def modules() -> dict[str, Path]:
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
    }


def types_of(source: str) -> Iterator[str]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            yield node.name


def repeated(sources: dict[str, str]) -> dict[str, list[str]]:
    """Type name -> the modules that define it, where there are several."""
    found: dict[str, list[str]] = defaultdict(list)
    for module, source in sources.items():
        for name in set(types_of(source)):
            found[name].append(module)
    return {name: where for name, where in found.items() if len(where) > 1}


def imports_of(module: str, source: str, known: dict[str, Path]) -> set[str]:
    """Our modules that a module imports, those under TYPE_CHECKING and in functions among them."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                name = f"{node.module}.{alias.name}"
                found.add(name if name in known else node.module)
        elif isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
    return (found & known.keys()) - {module}


def private_words(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if PRIVATE_WORDS.search(line)]


def test_no_type_name_stands_in_two_modules() -> None:
    found = repeated({module: path.read_text() for module, path in modules().items()})
    assert {name: where for name, where in found.items() if name not in SHARED_NAMES} == {}
    assert set(SHARED_NAMES) <= set(found), "a reason for a name that stands in one module"


def test_a_type_name_in_two_modules_is_found() -> None:
    assert repeated({"a": "class One: ...", "b": "class One: ...", "c": "class Two: ..."}) == {
        "One": ["a", "b"]
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_no_private_word(package: str) -> None:
    text = (".py", ".sql", ".js", ".css", ".html", ".txt")
    found = {
        str(path.relative_to(ROOT)): lines
        for path in sorted((ROOT / package).rglob("*"))
        if path.suffix in text and (lines := private_words(path.read_text()))
    }
    assert found == {}


@pytest.mark.parametrize(
    "line", ["the keeper of shards", "self._told = 1", "payday_ms = 3", "# as they were told"]
)
def test_a_private_word_is_found(line: str) -> None:
    assert private_words(line) == [line]


@pytest.mark.parametrize("line", ["ZooKeeper's", "a bookkeeper", "he foretold"])
def test_a_word_of_the_field_is_not(line: str) -> None:
    assert private_words(line) == []


def test_no_module_imports_itself_by_way_of_others() -> None:
    known = modules()
    TopologicalSorter(
        {name: imports_of(name, path.read_text(), known) for name, path in known.items()}
    ).prepare()


def test_a_cycle_is_found() -> None:
    known = {"a": Path(), "b": Path()}
    with pytest.raises(CycleError):
        TopologicalSorter(
            {
                "a": imports_of("a", "if TYPE_CHECKING:\n    from b import x", known),
                "b": imports_of("b", "import a", known),
            }
        ).prepare()
