"""Backups of a store by ClickHouse's own BACKUP and RESTORE: to a directory, a disk of the server, or S3.

Snapshots are stored first, then all other tables: rows that are newer than the snapshots are written again from the log, as after a crash, while
rows that are older would be missing for ever.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, NamedTuple

from schemas.tables import SNAPSHOTS
from sinks.clickhouse.cluster import local
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.errors import QueryFailed, SinkError, StoreFull
from sinks.target import Embedded, Server, Target

_SYSTEM: Final = "system"  # a database that there always is
_DISK: Final = re.compile(r"disk:(?P<disk>[A-Za-z0-9_]{1,64})/(?P<path>[A-Za-z0-9._/-]{1,500})")
_S3: Final = re.compile(r"https?://[A-Za-z0-9._:-]{1,255}/[A-Za-z0-9._/+-]{1,700}")
_WANTED: Final = "name a directory (with --data), disk:NAME/PATH of the server, or an https address of S3"
#: A backup takes as long as it takes, and a second request would find the first one's files.
_TIMEOUT_S: Final = 86_400
#: By default a backup asks an S3 that does not answer a thousand times, for hours; this is some seconds.
_PATIENCE: Final = "backup_restore_s3_retry_attempts = 6"
_FOUND: Final = "SELECT count() AS n FROM system.tables WHERE database = {database:String}"
_SIZE: Final = "SELECT total_size, num_files, compressed_size FROM system.backups WHERE id = {id:String}"
_ROWS: Final = "SELECT ifNull(sum(total_rows), 0) AS n FROM system.tables WHERE database = {database:String}"


@dataclass(frozen=True, kw_only=True)
class BackupPlace:
    """Where a backup is; the keys of S3 are not in its `repr`."""

    kind: str
    address: str
    access_key: str = ""
    secret_key: str = ""

    def __repr__(self) -> str:
        """Say what it is without its keys."""
        return f"BackupPlace({self.kind} {self.address})"

    def sql(self, part: str) -> str:
        """What BACKUP and RESTORE name it by."""
        if self.kind == "Disk":
            disk, _, path = self.address.partition("/")
            return f"Disk({_quoted(disk)}, {_quoted(f'{path}/{part}')})"
        keys = (self.access_key, self.secret_key) if self.access_key else ()
        return f"{self.kind}({', '.join(map(_quoted, (f'{self.address}/{part}', *keys)))})"


class BackupPart(NamedTuple):
    """A part of a backup, and how large it is."""

    name: str
    size_bytes: int
    files: int


def place_of(text: str, target: Target, access_key: str = "", secret_key: str = "") -> BackupPlace:
    """Where a text says that a backup is.

    Raises:
        SinkError: It is none, or not one that this store can write to.
    """
    if match := _DISK.fullmatch(text):
        if ".." in match["path"].split("/"):
            raise SinkError(f"{text[:80]}: a path of a disk has no `..`")
        return BackupPlace(kind="Disk", address=f"{match['disk']}/{match['path'].rstrip('/')}")
    if _S3.fullmatch(text):
        return BackupPlace(kind="S3", address=text.rstrip("/"), access_key=access_key, secret_key=secret_key)
    if ":" in text or "\0" in text or not text:
        raise SinkError(f"{text[:80]!r} is no place of a backup: {_WANTED}")
    if isinstance(target, Server):
        raise SinkError(f"a server writes no backup to a directory of this machine: {_WANTED}")
    return BackupPlace(kind="File", address=str(Path(text).absolute()))


def back_up(target: Target, place: BackupPlace) -> Iterator[BackupPart]:
    """Back up all tables and views, and yield each part once it is stored.

    Raises:
        SinkError: It cannot be written, or something is there.
    """
    database = f"`{target.database}`"
    snapshots = f"{database}.`{_held(SNAPSHOTS, target)}`"
    with closing(_opened(target, place)) as connection:
        if not _number(connection, _FOUND, target.database):
            raise SinkError(f"{target} has no tables in the database {target.database}: nothing to back up")
        for part, what in (
            (SNAPSHOTS, f"TABLE {snapshots}{_on(target)}"),
            ("rows", f"DATABASE {database} EXCEPT TABLES {snapshots}{_on(target)}"),
        ):
            yield _run(connection, f"BACKUP {what} TO {place.sql(part)}", place, part)


def restore(target: Target, place: BackupPlace) -> int:
    """Restore a backup into a database without tables; return how many rows it has.

    Raises:
        SinkError: There is no such backup, or the database has tables.
    """
    with closing(_opened(target, place)) as connection:
        if _number(connection, _FOUND, target.database):
            raise SinkError(
                f"{target} has tables in the database {target.database}: name an empty --data directory or clickhouse.database"
            )
        database = f"`{target.database}`"
        _run(connection, f"RESTORE DATABASE {database}{_on(target)} FROM {place.sql('rows')}", place, "rows")
        snapshots = f"{database}.`{_held(SNAPSHOTS, target)}`"
        _run(
            connection,
            f"RESTORE TABLE {snapshots}{_on(target)} FROM {place.sql(SNAPSHOTS)}",
            place,
            SNAPSHOTS,
        )
        return _number(connection, _ROWS, target.database)


def _opened(target: Target, place: BackupPlace) -> ClickHouseConnection:
    if isinstance(target, Embedded):
        folder = Path(place.address) if place.kind == "File" else None
        return ClickHouseConnection(replace(target, backup_dir=folder), _SYSTEM)
    return ClickHouseConnection(replace(target, request_timeout_s=_TIMEOUT_S, retry_for_s=0.0), _SYSTEM)


def _run(connection: ClickHouseConnection, sql: str, place: BackupPlace, part: str) -> BackupPart:
    try:
        answer = connection.call(lambda client: client.query(f"{sql} SETTINGS {_PATIENCE}")).result_rows
    except StoreFull as fault:
        raise SinkError(
            f"the backup {place.address}: no space is left for it; make room, and delete it"
        ) from fault
    except QueryFailed as fault:
        raise SinkError(f"the backup {place.address}: {fault}") from fault
    bound = {"id": str(answer[0][0])}
    found = connection.call(lambda client: client.query(_SIZE, parameters=bound)).result_rows
    size_bytes, files, stored_bytes = found[0] if found else (0, 0, 0)
    if place.kind == "File":
        _check_whole(Path(place.address) / part, int(stored_bytes))
    return BackupPart(part, int(size_bytes), int(files))


def _check_whole(folder: Path, expected_bytes: int) -> None:
    """Compare what is on the disk with what the engine has written: it does not notice that a disk is full.

    Raises:
        SinkError: Something is missing.
    """
    found_bytes = sum(each.stat().st_size for each in folder.rglob("*") if each.is_file())
    if found_bytes < expected_bytes:
        raise SinkError(
            f"the backup {folder} is not whole: {found_bytes:,} of {expected_bytes:,} bytes are there, as on a disk that is full; "
            "make room, delete it, and back up again"
        )


def _number(connection: ClickHouseConnection, sql: str, database: str) -> int:
    bound = {"database": database}
    return int(connection.call(lambda client: client.query(sql, parameters=bound)).result_rows[0][0])


def _held(table: str, target: Target) -> str:
    return local(table) if isinstance(target, Server) and target.cluster else table


def _on(target: Target) -> str:
    return f" ON CLUSTER `{target.cluster}`" if isinstance(target, Server) and target.cluster else ""


def _quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
