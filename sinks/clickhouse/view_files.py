"""The views of this version: one file each, `views/NAME.sql`, with its documentation and its SELECT.

A file begins with comments: the first block is the view's text in docs/, the others are for who changes it. A view
may be changed at any time: stores make it anew. A removed file drops the view.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from importlib import resources
from typing import Final, NamedTuple

import xxhash

from sinks.errors import SinkError

FOLDER: Final = "sinks/clickhouse/views"
_FILE: Final = re.compile(r"([a-z][a-z0-9_]{0,63})\.sql")
_READS: Final = re.compile(r"(?:FROM|JOIN|IN)\s+`?(\w+)")


class ViewFile(NamedTuple):
    """A view as this version has it."""

    name: str
    text: str  # of the file
    select: str  # its SELECT, without comments
    reads: frozenset[str]  # views that it reads directly

    @property
    def file(self) -> str:
        """The path of its file in the project."""
        return f"{FOLDER}/{self.name}.sql"

    @property
    def doc(self) -> str:
        """Its text in docs/: the comment that the file begins with, '' without one."""
        first = re.match(r"(?:--.*\n)+", self.text)
        return "" if first is None else re.sub(r"^-- ?", "", first[0], flags=re.MULTILINE).strip()


@cache
def shipped_views() -> tuple[ViewFile, ...]:
    """The views of this version, each after those that it reads."""
    folder = resources.files("sinks.clickhouse") / "views"
    found = ((_FILE.fullmatch(item.name), item) for item in folder.iterdir())
    return ordered({match[1]: item.read_text(encoding="utf-8") for match, item in found if match})


def ordered(files: Mapping[str, str]) -> tuple[ViewFile, ...]:
    """The views of these files (text by name), each after those that it reads.

    Raises:
        SinkError: Views read one another in a circle.
    """
    views = {}
    for name, text in files.items():
        select = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("--")).strip()
        views[name] = ViewFile(name, text, select, frozenset(files.keys() & set(_READS.findall(select))))
    try:
        order = TopologicalSorter({name: sorted(views[name].reads) for name in sorted(views)}).static_order()
        return tuple(views[name] for name in order)
    except CycleError as error:
        circle = " reads ".join(f"{name}.sql" for name in reversed(error.args[1]))
        raise SinkError(f"{FOLDER}: views read one another in a circle: {circle}") from error


@cache
def fingerprints(views: tuple[ViewFile, ...], newest_migration: str) -> dict[str, str]:
    """A hash by name, another one as soon as anything differs that the view is made of.

    That is its SELECT and what it reads: ClickHouse keeps with a view the types that its columns had when it was made, so it is
    made anew after a view below it has changed, and after migrations of the tables.

    Args:
        views: Each after those that it reads.
        newest_migration: The name of the newest file of the tables.
    """
    found: dict[str, str] = {}
    for view in views:
        below = "".join(found[name] for name in sorted(view.reads))
        found[view.name] = xxhash.xxh3_64_hexdigest(f"{newest_migration}\n{below}\n{view.select}".encode())
    return found
