"""Keeps the tables of an embedded store open for reading, each as long as its files stay the same.

To open a table takes several times as long as a query of a few rows: each of its parts is read. It must not answer from
parts that are no longer those of the store: what lies on the disk is looked at before each query.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from clickhouse_connect.driver.client import Client

from sinks.query.catalog import StoredTable, needed, stored
from sinks.query.refusal import QueriesOffError
from sinks.query.session import failing
from sinks.query.wire import StoreFiles

_PART: Final = re.compile(
    r"(?P<partition>[^_]+)_(?P<least>\d+)_(?P<most>\d+)_(?P<level>\d+)(?:_(?P<mutation>\d+))?"
)

#: The engine takes the disk of these tables for a remote one, and starts a thread with 8 MiB of stack for each column that it
#: reads ahead, some fifty in all, which the memory of the process has no room for. The files are local. A buffer for each column
#: of each part is of 1 MiB unless something is said.
_READS: Final = {
    "remote_filesystem_read_method": "read",
    "remote_filesystem_read_prefetch": "0",
    "allow_prefetched_read_pool_for_remote_filesystem": "0",
    "max_read_buffer_size": "65536",
}


class FileSeen(NamedTuple):
    """What tells a file or folder from another one of its name."""

    name: str
    inode: int
    changed_ns: int


class _Part(NamedTuple):
    """A part by its name: of blocks from `least` to `most`."""

    partition: str
    least: int
    most: int
    level: int
    mutation: int

    def covers(self, other: "_Part") -> bool:
        """Whether the other one was merged into it, or mutated to it."""
        return (
            self.partition == other.partition
            and self.least <= other.least
            and self.most >= other.most
            and (self.level, self.mutation) >= (other.level, other.mutation)
        )


class EmbeddedTables:
    """The tables of an embedded store. One query at a time."""

    def __init__(self, files: StoreFiles, new_client: Callable[[], Client]) -> None:
        self._files = files
        self._new_client = new_client
        self._opener = new_client()
        with failing():
            self._opener.command(f"CREATE DATABASE `{files.database}` ENGINE = Memory")
        self._definitions: frozenset[FileSeen] | None = None
        self._tables: dict[str, StoredTable] = {}
        #: What each open table and view was when it was opened.
        self._opened: dict[str, object] = {}
        self._session: tuple[dict[str, str], Client] | None = None

    @property
    def database(self) -> str:
        """Their database."""
        return self._files.database

    def names(self) -> dict[str, bool]:
        """The present tables and views: name -> whether it is a view.

        Raises:
            QueriesOffError: The files are not those of a store.
        """
        # Looked at before they are read: what changes in between is read again the next time.
        definitions = _looked(Path(self._files.engine_dir) / "metadata" / self._files.database)
        if definitions != self._definitions:
            self._tables = stored(Path(self._files.engine_dir), self._files.database)
            self._definitions = definitions
        return {name: each.is_view for name, each in self._tables.items()}

    @contextmanager
    def opened(self, names: frozenset[str], settings: Mapping[str, str]) -> Iterator[Client]:
        """Yield a session in which the tables are open in their present state."""
        with failing():
            for each in needed(names, self._tables):
                self._open(each)
        with self._in_session(settings) as client:
            yield client

    def forget(self) -> None:
        """Open every table anew at its next query."""
        for name in list(self._opened):
            self._detach(name)

    def _open(self, table: StoredTable) -> None:
        state: object
        if table.is_view:
            # A view keeps the types that its columns had when it was made.
            state = tuple(each.create for each in needed([table.name], self._tables))
        else:
            folder = Path(self._files.engine_dir) / "data" / self._files.database / table.name
            state = (table.create, present(_looked(folder)))
        if self._opened.get(table.name) == state:
            return
        self._detach(table.name)
        self._opener.command(table.create)
        self._opened[table.name] = state

    def _detach(self, name: str) -> None:
        if self._opened.pop(name, None) is not None:
            self._opener.command(f"DETACH TABLE `{self._files.database}`.`{name}`")

    @contextmanager
    def _in_session(self, settings: Mapping[str, str]) -> Iterator[Client]:
        """Yield the session of the query before, if its settings are these, else a new one; it ends with a query that fails."""
        # `readonly` last: from there on the session can change nothing, not even this.
        wanted = {**settings, **_READS, "readonly": "1"}
        kept, self._session = self._session, None
        if kept is not None and kept[0] == wanted:
            client = kept[1]
        else:
            if kept is not None:
                kept[1].close()
            client = self._new_client()
            client.database = self._files.database
            with failing():
                for name, value in wanted.items():
                    client.set_client_setting(name, value)
        try:
            yield client
        except BaseException:
            client.close()
            raise
        self._session = (wanted, client)


def _looked(folder: Path) -> frozenset[FileSeen]:
    """What is in a folder, nothing where there is none.

    Raises:
        QueriesOffError: It cannot be read.
    """
    looked: set[FileSeen] = set()
    try:
        with os.scandir(folder) as found:
            for each in found:
                with suppress(
                    FileNotFoundError
                ):  # a part that was merged, or one being made, may go at any moment
                    at = each.stat(follow_symlinks=False)
                    looked.add(FileSeen(each.name, at.st_ino, at.st_mtime_ns))
        return frozenset(looked)
    except FileNotFoundError:
        return frozenset()
    except OSError as fault:
        raise QueriesOffError(f"the files of the store cannot be read: {fault.strerror}") from fault


def present(files: frozenset[FileSeen]) -> frozenset[FileSeen]:
    """What of the folder of a table it is read from: neither parts that were merged into others, nor those being made."""
    parts: dict[_Part, FileSeen] = {}
    others = set()
    for each in files:
        match = _PART.fullmatch(each.name)
        if match is not None:
            least, most, level, mutation = (
                int(match[name] or 0) for name in ("least", "most", "level", "mutation")
            )
            parts[_Part(match["partition"], least, most, level, mutation)] = each
        elif not each.name.startswith(("tmp_", "delete_tmp_")):
            others.add(each)
    newest: list[_Part] = []
    for part in sorted(
        parts, key=lambda each: (each.partition, each.least, -each.most, -each.level, -each.mutation)
    ):
        if not (newest and newest[-1].covers(part)):
            newest.append(part)
    return frozenset([*(parts[each] for each in newest), *others])
