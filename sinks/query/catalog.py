"""Reads the tables and views of an embedded store from its files, as statements that open them for reading."""

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from sinks.query.refusal import QueriesOffError

_FIRST_LINE: Final = re.compile(r"ATTACH (?P<kind>TABLE|VIEW) _ UUID '[0-9a-f-]{36}'\n")
_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,63}")
_DISK: Final = (
    "table_disk = 1, disk = disk(readonly = 1, type = 'object_storage', object_storage_type = 'local', "
    "metadata_type = 'plain', path = '{path}/')"
)


class StoredTable(NamedTuple):
    """A table or view of the store."""

    name: str
    is_view: bool
    create: str  # a CREATE statement
    reads: frozenset[str]  # tables and views that a view reads directly


def stored(engine_dir: Path, database: str) -> dict[str, StoredTable]:
    """All tables and views by name.

    Raises:
        QueriesOffError: The files are not those of a store.
    """
    folder = engine_dir / "metadata" / database
    try:
        definitions = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.sql")}
    except (OSError, UnicodeError) as fault:
        raise QueriesOffError("the store's table definitions cannot be read") from fault
    known = {name for name in definitions if _NAME.fullmatch(name)}
    found = {}
    for name in sorted(known):
        first = _FIRST_LINE.match(definitions[name])
        if first is not None:
            rest = definitions[name][first.end() :].rstrip()
            is_view = first["kind"] == "VIEW"
            create = _view(database, name, rest) if is_view else _table(engine_dir, database, name, rest)
            reads = frozenset(_named(rest, database)) & known if is_view else frozenset()
            found[name] = StoredTable(name, is_view, create, reads)
    if not found:
        raise QueriesOffError("there is no table in this store yet")
    return found


def needed(names: Iterable[str], tables: Mapping[str, StoredTable]) -> list[StoredTable]:
    """The tables and views that a query of `names` reads, each after those that it reads itself."""
    found: dict[str, StoredTable] = {}

    def add(name: str) -> None:
        if name not in found:
            for each in sorted(tables[name].reads):
                add(each)
            found[name] = tables[name]

    for name in sorted(names):
        add(name)
    return list(found.values())


def _view(database: str, name: str, rest: str) -> str:
    return f"CREATE VIEW `{database}`.`{name}`\n{rest}"


def _table(engine_dir: Path, database: str, name: str, rest: str) -> str:
    folder = str((engine_dir / "data" / database / name).resolve())
    disk = _DISK.format(path=folder.replace("\\", "\\\\").replace("'", "\\'"))
    # Every table of ours has settings, at the end of its definition.
    separator = ", " if re.search(r"\nSETTINGS [^\n]+\Z", rest) else "\nSETTINGS "
    return f"CREATE TABLE `{database}`.`{name}`\n{rest}{separator}{disk}"


def _named(definition: str, database: str) -> Iterator[str]:
    for match in re.finditer(rf"\b{re.escape(database)}\.(\w+)", definition):
        yield match.group(1)
