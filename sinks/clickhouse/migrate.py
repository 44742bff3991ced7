"""Brings a store's tables and views to the form of this version, by numbered SQL files.

A released file must not change: a store records what it ran, and refuses other contents.
"""

import re
from importlib import resources
from typing import Final, NamedTuple

import xxhash

from sinks.clickhouse.connection import ClickHouseConnection
from sinks.errors import QueryFailed, StoreMismatch

_FILE: Final = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
_LEDGER: Final = """
CREATE TABLE IF NOT EXISTS migrations
    (name String, checksum UInt64, applied DateTime64(3, 'UTC') DEFAULT now64(3))
ENGINE = ReplacingMergeTree ORDER BY name
"""


class Migration(NamedTuple):
    """One file; its statements are idempotent."""

    name: str
    sql: str

    @property
    def checksum(self) -> int:
        """Return a checksum that detects an edited file."""
        return xxhash.xxh3_64_intdigest(self.sql.encode())

    def statements(self) -> list[str]:
        """Return the statements; each ends in a semicolon at the end of a line."""
        parts = re.split(r";\s*\n", self.sql + "\n")
        bare = (re.sub(r"^\s*--.*\n?", "", part, flags=re.MULTILINE).strip() for part in parts)
        return [part for part in bare if part]


def shipped() -> list[Migration]:
    """Return all migrations of this version, in order."""
    folder = resources.files("sinks.clickhouse") / "migrations"
    names = sorted(item.name for item in folder.iterdir() if _FILE.fullmatch(item.name))
    return [Migration(name, (folder / name).read_text()) for name in names]


def create_database(connection: ClickHouseConnection, database: str) -> None:
    """Create the database, by a request that does not use it yet."""
    sql = f"CREATE DATABASE IF NOT EXISTS `{database}`"
    connection.call(lambda client: client.command(sql, use_database=False))


def migrate(connection: ClickHouseConnection, migrations: list[Migration]) -> list[str]:
    """Apply the migrations that the store has not run; return their names.

    Two workers may do so concurrently: statements are idempotent, and recording comes after running. The slower one may
    replace views by older forms of them and make a statement of the faster one fail: that file is run again.

    Raises:
        StoreMismatch: The store ran a file with other contents, or one that this version does not have.
    """
    connection.call(lambda client: client.command(_LEDGER))
    done = _recorded(connection)
    where = str(connection.target)
    newer = sorted(set(done) - {migration.name for migration in migrations})
    if newer:
        raise StoreMismatch(
            f"{where} was made by a later version (it has {newer[-1]}); use that version of trainfare"
        )
    applied = []
    for migration in migrations:
        if migration.name not in done:
            for attempt in connection.attempts(QueryFailed):
                with attempt:
                    _apply(connection, migration)
            applied.append(migration.name)
        elif done[migration.name] != migration.checksum:
            raise StoreMismatch(
                f"{where} was made by another build ({migration.name} differs); "
                "use that build, or give a new store"
            )
    return applied


def _recorded(connection: ClickHouseConnection) -> dict[str, int]:
    rows = connection.call(
        lambda client: client.query("SELECT name, checksum FROM migrations FINAL")
    ).result_rows
    return {str(name): int(checksum) for name, checksum in rows}


def _apply(connection: ClickHouseConnection, migration: Migration) -> None:
    for statement in migration.statements():
        _run(connection, statement)
    values = {"name": migration.name, "checksum": migration.checksum}
    record = "INSERT INTO migrations (name, checksum) SELECT {name:String}, {checksum:UInt64}"
    connection.call(lambda client: client.command(record, parameters=values))


def _run(connection: ClickHouseConnection, statement: str) -> None:
    connection.call(lambda client: client.command(statement))
