"""Brings a store's tables and views to the form of this version.

Tables change by numbered files: a released one must not change, since a store records what it ran and refuses other contents.
Views are made anew from their files when these change: each has in its comment the release and the hash that it was made of,
so view and record cannot differ.
"""

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from typing import Final, NamedTuple

import xxhash

from schemas.release import is_later, release
from sinks.clickhouse.cluster import on_cluster
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.view_files import ViewFile, fingerprints
from sinks.errors import QueryFailed, StoreMismatch
from sinks.target import Server, Target

_FILE: Final = re.compile(r"\d{4}_[a-z0-9_]+\.sql")
LEDGER: Final = """
CREATE TABLE IF NOT EXISTS migrations
    (name String, checksum UInt64, applied DateTime64(3, 'UTC') DEFAULT now64(3))
ENGINE = ReplacingMergeTree ORDER BY name
"""
_FORM: Final = """
SELECT name, comment, engine FROM system.tables
WHERE database = {db:String} AND (name = 'migrations' OR engine = 'View')
"""
_ORIGIN: Final = re.compile(r"trainfare (\S+) ([0-9a-f]{16})")
#: Files as they were while they made views, too: name -> checksum. Those that made nothing else are gone.
FORMER: Final = {
    "0002_views.sql": 0xA674A4C3AC6BD89E,
    "0004_traffic.sql": 0xC71B76A6A7F6EC20,
    "0005_nodes.sql": 0x1913A09261F00866,
    "0006_bills.sql": 0xE4964D94EEC17DB4,
    "0007_costs.sql": 0xDE5EBEAF17599EE9,
    "0008_metrics.sql": 0xCD397F125FA5443E,
    "0013_idle.sql": 0xC651B912C552EC90,
    "0014_metrics.sql": 0x4CF81F095E9CAFB2,
    "0015_accounts.sql": 0xDC5B6CF7B7CFFEC9,
    "0016_sources.sql": 0x2C203072F4719640,
}


class Migration(NamedTuple):
    """One file of the tables; its statements are idempotent."""

    name: str
    sql: str

    @property
    def checksum(self) -> int:
        """A checksum that detects an edited file."""
        return xxhash.xxh3_64_intdigest(self.sql.encode())

    @property
    def about(self) -> str:
        """What it is for: the first sentence of its comment, '' without one."""
        first = re.match(r"(?:--.*\n)+", self.sql)
        text = "" if first is None else " ".join(re.sub(r"^--", "", first[0], flags=re.MULTILINE).split())
        return re.split(r"(?<=[.:;]) ", text, maxsplit=1)[0].rstrip(".:;")

    def statements(self) -> list[str]:
        """The statements; each ends in a semicolon at the end of a line."""
        parts = re.split(r";\s*\n", self.sql + "\n")
        bare = (re.sub(r"^\s*--.*\n?", "", part, flags=re.MULTILINE).strip() for part in parts)
        return [part for part in bare if part]


class ViewOrigin(NamedTuple):
    """What a view was made of."""

    release: str
    fingerprint: str


class Form(NamedTuple):
    """What made the tables and views of a store."""

    is_new: bool  # there is no record of migrations yet
    migrations: dict[str, int]  # name -> checksum
    views: dict[str, ViewOrigin]  # those that a release with files of views made
    is_spread: bool = False  # over the servers of a cluster


class Mismatch(NamedTuple):
    """Why a store is not one of this version, and what mends it."""

    found: str
    mend: str


def shipped() -> list[Migration]:
    """All migrations of this version, in order."""
    folder = resources.files("sinks.clickhouse") / "migrations"
    names = sorted(item.name for item in folder.iterdir() if _FILE.fullmatch(item.name))
    return [Migration(name, (folder / name).read_text()) for name in names]


def create_database(connection: ClickHouseConnection, database: str) -> None:
    """Create the database, by a request that does not use it yet."""
    sql = f"CREATE DATABASE IF NOT EXISTS `{database}`"
    target = connection.target
    if isinstance(target, Server) and target.cluster:
        (sql,) = on_cluster(sql, target.cluster, database)
    connection.call(lambda client: client.command(sql, use_database=False))


def form_of(connection: ClickHouseConnection, database: str) -> Form:
    """Read what a store has run and made: one query for its views, one for its migrations."""
    found = connection.call(lambda client: client.query(_FORM, parameters={"db": database})).result_rows
    comments = {str(name): str(comment) for name, comment, _ in found}
    is_spread = any(engine == "Distributed" for _, _, engine in found)
    is_new = comments.pop("migrations", None) is None
    views = origins_of(comments)
    if is_new:
        return Form(is_new, {}, views, is_spread)
    recorded = f"SELECT name, checksum FROM `{database}`.migrations FINAL"  # noqa: S608 - settings allow plain names only
    rows = connection.call(lambda client: client.query(recorded)).result_rows
    return Form(is_new, {str(name): int(checksum) for name, checksum in rows}, views, is_spread)


def origins_of(comments: Mapping[str, str]) -> dict[str, ViewOrigin]:
    """What the views were made of, by their comments; one of other people has another comment and is left out."""
    matches = ((name, _ORIGIN.fullmatch(comment)) for name, comment in comments.items())
    return {name: ViewOrigin(match[1], match[2]) for name, match in matches if match is not None}


def mismatch(form: Form, migrations: Sequence[Migration], views: tuple[ViewFile, ...]) -> Mismatch | None:
    """Why this version must not change a store: a later one made it, or another build of this one."""
    known = {migration.name: migration.checksum for migration in migrations}
    last = migrations[-1].name
    newer = sorted(name for name in form.migrations if name > last)
    ours = fingerprints(views, last)
    newer += [
        f"{name}.sql of release {origin.release}"
        for name, origin in sorted(form.views.items())
        if origin.fingerprint != ours.get(name) and is_later(origin.release, release())
    ]
    if newer:
        return Mismatch(
            f"made by a later version than {release()} (it has {newer[-1]})",
            "use that version of trainfare, or later",
        )
    other = [
        name
        for name, checksum in sorted(form.migrations.items())
        if checksum not in (known.get(name), FORMER.get(name))
    ]
    if other:
        return Mismatch(f"made by another build ({other[0]} differs)", "use that build, or give a new store")
    return None


def elsewhere(form: Form, target: Target) -> Mismatch | None:
    """Why tables of one server must not be taken for those of a cluster, nor the other way round."""
    is_of_cluster = isinstance(target, Server) and bool(target.cluster)
    if form.is_new or form.is_spread == is_of_cluster:
        return None
    if is_of_cluster:
        return Mismatch(
            "made without clickhouse.cluster",
            "name another clickhouse.database and meter the log again into it",
        )
    return Mismatch("made with clickhouse.cluster", "set it again")


def outdated(form: Form, migrations: Sequence[Migration], views: tuple[ViewFile, ...]) -> list[ViewFile]:
    """The views that have to be made or made anew, each after those that it reads."""
    ours = fingerprints(views, migrations[-1].name)
    return [
        view
        for view in views
        if view.name not in form.views or form.views[view.name].fingerprint != ours[view.name]
    ]


def gone(form: Form, views: tuple[ViewFile, ...]) -> list[str]:
    """The views of an earlier version that this one has no more."""
    return sorted(form.views.keys() - {view.name for view in views})


def migrate(
    connection: ClickHouseConnection,
    database: str,
    migrations: Sequence[Migration],
    views: tuple[ViewFile, ...],
) -> list[str]:
    """Apply the migrations that the store has not run, make outdated views anew and drop those that are gone.

    Return the names of what was applied, made and dropped.

    Two workers may do so concurrently: statements are idempotent, and recording comes after running. Where one of another version
    replaces a view by its own form and makes a statement of this one fail, it is run again.

    Raises:
        StoreMismatch: A later version made the store, or it ran a file with other contents.
        QueryFailed: ClickHouse cannot make something; a view is named with its file.
    """
    form = form_of(connection, database)
    fault = mismatch(form, migrations, views) or elsewhere(form, connection.target)
    if fault is not None:
        raise StoreMismatch(f"{connection.target} was {fault.found}; {fault.mend}")
    if form.is_new:
        _run(connection, LEDGER)
    waiting = [migration for migration in migrations if migration.name not in form.migrations]
    for migration in waiting:
        for attempt in connection.attempts(QueryFailed):
            with attempt:
                _apply(connection, migration)
    stale = outdated(form, migrations, views)
    if stale:
        comments = {
            name: f"trainfare {release()} {each}"
            for name, each in fingerprints(views, migrations[-1].name).items()
        }
        for attempt in connection.attempts(QueryFailed):
            with attempt:
                _make(connection, stale, comments)
    dropped = gone(form, views)
    # Read again: a migration may have made a table of that name.
    for name in gone(form_of(connection, database), views) if dropped else ():
        _run(connection, f"DROP VIEW IF EXISTS `{name}`")
    return [*(each.name for each in waiting), *(view.name for view in stale), *dropped]


def _apply(connection: ClickHouseConnection, migration: Migration) -> None:
    for statement in migration.statements():
        _run(connection, statement)
    values = {"name": migration.name, "checksum": migration.checksum}
    record = "INSERT INTO migrations (name, checksum) SELECT {name:String}, {checksum:UInt64}"
    connection.call(lambda client: client.command(record, parameters=values))


def _make(connection: ClickHouseConnection, views: Sequence[ViewFile], comments: Mapping[str, str]) -> None:
    """Replace views at once, each with its record: a reader sees the former one or the new one."""
    for view in views:
        sql = f"CREATE OR REPLACE VIEW `{view.name}` AS\n{view.select}\nCOMMENT '{comments[view.name]}'"
        try:
            _run(connection, sql)
        except QueryFailed as fault:
            raise QueryFailed(
                f"the view `{view.name}` cannot be made of {view.file}: {fault}; either that file is damaged (install this version "
                "again), or a table that it reads is not as the migrations made it"
            ) from fault


def _run(connection: ClickHouseConnection, statement: str) -> None:
    connection.change(statement)
