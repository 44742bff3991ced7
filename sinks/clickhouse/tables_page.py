"""Writes the generated parts of the pages of tables: the text of each view, from its file, and the columns of all (`make docs`)."""

from __future__ import annotations

import re
import sys
import tempfile
import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sinks.clickhouse.store import ClickHouseStore
from sinks.clickhouse.view_files import shipped_views
from sinks.target import Embedded

_SECTION: Final = re.compile(
    r"^### `(?P<name>\w+)`\n\n(?P<text>(?:(?!^#).*\n)*?)(?:Columns: (?:.+\n)*)?\n*(?=^#|\Z)", re.MULTILINE
)
_COLUMNS: Final = (
    "SELECT table, name, type FROM system.columns WHERE database = currentDatabase() ORDER BY table, position"
)
_WIDTH: Final = 150


def columns_of(store: ClickHouseStore) -> dict[str, str]:
    """The columns of each table and view as the page lists them."""
    found: dict[str, list[str]] = {}
    for table, name, kind in (map(str, row) for row in store.ask(_COLUMNS).rows()):
        plain = re.sub(r"LowCardinality\((\w+)\)", r"\1", kind)
        plain = plain.replace("(3, 'UTC')", "(3)").replace("('UTC')", "")
        found.setdefault(table, []).append(f"`{name}` {plain}")
    return {table: ", ".join(each) for table, each in found.items()}


def written(page: str, columns: Mapping[str, str]) -> str:
    """The page with its generated parts as they should be; a section is kept that is of no table and no view."""
    docs = {view.name: view.doc for view in shipped_views()}

    def section(match: re.Match[str]) -> str:
        name = match["name"]
        if name not in columns:
            return match[0]
        text = docs.get(name, match["text"].strip())
        listed = textwrap.fill(f"Columns: {columns[name]}.", width=_WIDTH, break_on_hyphens=False)
        end = "" if match.end() == len(page) else "\n"
        return f"### `{name}`\n\n{text}\n\n{listed}\n{end}"

    return _SECTION.sub(section, page)


def main(*pages: Path) -> None:
    """Write the pages again, with the columns of a new store."""
    with tempfile.TemporaryDirectory() as folder:
        store = ClickHouseStore(Embedded(data_dir=Path(folder) / "store"))
        try:
            columns = columns_of(store)
        finally:
            store.close()
    for page in pages:
        page.write_text(written(page.read_text(encoding="utf-8"), columns), encoding="utf-8")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
