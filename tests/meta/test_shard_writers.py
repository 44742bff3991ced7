"""Each field of a shard's state is written by one package, `streams.engine.shard`. The guard is shown to fire."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest

from streams.engine.pricing.book import PriceBook
from streams.engine.settings import ShardSettings
from streams.engine.shard.state import ShardState
from tests.meta.tree import ROOT, tracked

OWNER = "streams/engine/shard/"
MUTATORS = frozenset(
    [
        "add",
        "append",
        "clear",
        "difference_update",
        "discard",
        "extend",
        "insert",
        "intersection_update",
        "pop",
        "popitem",
        "remove",
        "setdefault",
        "symmetric_difference_update",
        "update",
    ]
)
#: The parts that are plain memory, which modules write directly; all others change only by their own methods.
PARTS = ("position", "due", "prices", "snapshots")

Chain = tuple[str, ...]


def fields_of(thing: object) -> frozenset[str]:
    slots = [name for kind in type(thing).__mro__ for name in getattr(kind, "__slots__", ())]
    return frozenset([*getattr(thing, "__dict__", {}), *slots])


@pytest.fixture(scope="module")
def fields() -> Mapping[str, frozenset[str]]:
    """Return the fields of a shard and of its parts, by the name that goes before them."""
    shard = ShardState(0, ShardSettings(), PriceBook.empty())
    return {"shard": fields_of(shard), **{name: fields_of(getattr(shard, name)) for name in PARTS}}


def chain_of(node: ast.expr, known: Mapping[str, Chain]) -> Chain:
    """Return the names of `a.b[0].c`: ("a", "b", "c"), with local names replaced by what they stand for."""
    if isinstance(node, ast.Name):
        return known.get(node.id, (node.id,))
    if isinstance(node, ast.Attribute):
        return (*chain_of(node.value, known), node.attr)
    return chain_of(node.value, known) if isinstance(node, ast.Subscript) else ()


def pairs_of(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        yield from zip(target.elts, value.elts, strict=False)
    else:
        yield target, value


def names_in(function: ast.AST) -> dict[str, Chain]:
    """Return the local names that stand for attributes: `due = shard.due`."""
    known: dict[str, Chain] = {}
    for node in ast.walk(function):
        for target in node.targets if isinstance(node, ast.Assign) else ():
            for name, value in pairs_of(target, node.value):  # type: ignore[attr-defined]  # it is an Assign
                if isinstance(name, ast.Name) and isinstance(value, ast.Attribute):
                    known[name.id] = chain_of(value, known)
    return known


def written_in(function: ast.AST) -> Iterator[ast.expr]:
    """Yield what a function assigns to, deletes, or changes by a method of sets, lists and dictionaries."""
    for node in ast.walk(function):
        if isinstance(node, (ast.Assign, ast.Delete)):
            for target in node.targets:
                yield from target.elts if isinstance(target, ast.Tuple) else (target,)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            yield node.target
        elif (
            isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MUTATORS
        ):
            yield node.func.value


def writes_in(text: str, fields: Mapping[str, frozenset[str]]) -> set[str]:
    """Return the fields of a shard that a module writes, as `part.field`."""
    found: set[str] = set()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        known = names_in(function)
        for target in written_in(function):
            chain = () if isinstance(target, ast.Name) else chain_of(target, known)
            found |= {f"{owner}.{name}" for owner, name in pairwise(chain) if name in fields.get(owner, ())}
    return found


def test_no_other_package_writes_a_field_of_a_shard(fields: Mapping[str, frozenset[str]]) -> None:
    others: dict[str, set[str]] = {}
    owned: set[str] = set()
    for path in tracked():
        name = str(path.relative_to(ROOT))
        if path.suffix != ".py" or not name.startswith(("schemas/", "sinks/", "streams/")):
            continue
        if found := writes_in(path.read_text(encoding="utf-8"), fields):
            if name.startswith(OWNER):
                owned |= found
            else:
                others[name] = found
    assert not others, "give the part a method, or let streams.engine.shard do it"
    assert {"due.dirty_jobs", "position.next", "prices.book", "snapshots.version"} <= owned


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ("owned.shard.position.tick_ms = 5", "position.tick_ms"),
        ("owned.shard.snapshots.unswept_from = owned.sweep_due_ms = None", "snapshots.unswept_from"),
        ("a, shard.due.accrued_to_ms = 1, 2", "due.accrued_to_ms"),
        ("shard.due.dirty_jobs.add('j')", "due.dirty_jobs"),
        ("due = self._shard.due; due.open_jobs |= {'j'}", "due.open_jobs"),
        ("one = self._shard.snapshots.changes; one.jobs.discard('j')", "snapshots.changes"),
        ("shard.tallies['gpu'] = 0", "shard.tallies"),
        ("del owned.shard.jobs['j']", "shard.jobs"),
        ("shard.tracker = None", "shard.tracker"),
    ],
)
def test_a_second_writer_is_found(fields: Mapping[str, frozenset[str]], line: str, field: str) -> None:
    assert field in writes_in(f"def f(self, shard, owned):\n    {line}\n", fields)


@pytest.mark.parametrize(
    "line",
    [
        "owned.shard.position.expect_tick(5)",
        "due = shard.due.dirty_jobs",
        "print(shard.jobs['j'])",
        "shard = 5",
    ],
)
def test_who_only_reads_or_calls_a_method_is_no_writer(
    fields: Mapping[str, frozenset[str]], line: str
) -> None:
    assert not writes_in(f"def f(self, shard, owned):\n    {line}\n", fields)
