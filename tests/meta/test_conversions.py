"""A worker makes Python objects of Arrow tables some rows at a time, as its threads wait for each other meanwhile.

In one call, the rows that a taken over shard reads back kept the heartbeats waiting for longer than a session lasts: the
shard was lost again before it was begun.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
#: Packages whose code runs beside a consumer.
BESIDE_A_CONSUMER = ("backfill", "engine", "notify", "selfcheck", "worker")
WHOLE = {"to_pylist", "to_pydict", "to_pandas"}


def whole_conversions(source: str) -> Iterator[int]:
    """Lines that convert a table or column in one call."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in WHOLE:
            yield node.lineno


@pytest.mark.parametrize("package", BESIDE_A_CONSUMER)
def test_no_table_is_converted_in_one_call(package: str) -> None:
    files = sorted((ROOT / "streams" / package).rglob("*.py"))
    assert files
    found = [
        f"{file.relative_to(ROOT)}:{line}: use rows_of or values_of of schemas.columns"
        for file in files
        for line in whole_conversions(file.read_text())
    ]
    assert found == []


def test_one_that_is_would_be_found() -> None:
    source = "rows = table.to_pylist()\nrows = rows_of(table)\nto = table['a'].to_pylist"
    assert sorted(whole_conversions(source)) == [1, 3]
