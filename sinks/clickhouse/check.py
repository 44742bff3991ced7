"""Asks a ClickHouse whether a worker could start with it: version, rights, migrations, views. It changes nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from schemas.counting import how_many
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.migrate import Form, Migration, elsewhere, form_of, mismatch, outdated, shipped
from sinks.clickhouse.view_files import ViewFile, shipped_views
from sinks.errors import QueryFailed, SinkError, StoreInUse
from sinks.query.refusal import QueriesOffError
from sinks.query.server import check_grants
from sinks.target import Embedded, Server, Target

#: What migrations, inserts and the removal of old months need.
_RIGHTS: Final = (
    "SELECT",
    "INSERT",
    "ALTER",
    "CREATE TABLE",
    "CREATE VIEW",
    "DROP TABLE",
    "DROP VIEW",
    "CREATE DATABASE",
)
_MACROS: Final = ("shard", "replica")
_SERVERS: Final = f"""
SELECT uniqExact(shard_num), count(), (SELECT count() FROM system.macros WHERE macro IN {_MACROS})
FROM system.clusters WHERE cluster = {{cluster:String}}"""  # noqa: S608 - of constants
_SYSTEM: Final = "system"  # a database that there always is


class StoreCheck(NamedTuple):
    """One thing that was asked; `mend` is empty unless it is wrong."""

    subject: str
    found: str
    mend: str = ""


def check_store(
    target: Target, migrations: Sequence[Migration] | None = None, views: tuple[ViewFile, ...] | None = None
) -> Iterator[StoreCheck]:
    """Yield what the ClickHouse answers; after it cannot be reached there is nothing more. Blocks.

    Args:
        target: Where it is.
        migrations: Of this version; by default those that it ships.
        views: Of this version; by default those that it ships.
    """
    if isinstance(target, Embedded) and not target.engine_dir.is_dir():
        yield StoreCheck("store", f"no store in {target.data_dir} yet: a worker makes it")
        return
    try:
        connection = ClickHouseConnection(target, _SYSTEM)
    except StoreInUse as fault:
        yield StoreCheck("store", f"{fault}: it is not asked; GET /readyz asks a worker")
        return
    try:
        migrations = shipped() if migrations is None else migrations
        yield from _checked(connection, target, migrations, shipped_views() if views is None else views)
    except SinkError as fault:
        yield StoreCheck("answer", str(fault), _mend_of(target))
    finally:
        connection.close()
    if isinstance(target, Server):
        yield _reader(target)


def _mend_of(target: Target) -> str:
    if isinstance(target, Embedded):
        return "look at the directory's owner, rights and free space"
    return "start it, or set clickhouse.url, clickhouse.user and clickhouse.password"


def _checked(
    connection: ClickHouseConnection,
    target: Target,
    migrations: Sequence[Migration],
    views: tuple[ViewFile, ...],
) -> Iterator[StoreCheck]:
    yield StoreCheck("version", f"{target} answers, version {_command(connection, 'SELECT version()')}")
    if isinstance(target, Server):
        yield _rights(connection, target)
        if target.cluster:
            yield _cluster(connection, target)
    form = form_of(connection, target.database)
    if form.is_new:
        yield StoreCheck(
            "migrations", f"database {target.database} has no tables of the meter yet: a worker makes them"
        )
        return
    other = elsewhere(form, target)
    if other is not None:
        yield StoreCheck("cluster", other.found, other.mend)
        return
    yield from _form(form, migrations, views)


def _command(connection: ClickHouseConnection, sql: str) -> str:
    return str(connection.call(lambda client: client.command(sql)))


def _rights(connection: ClickHouseConnection, target: Server) -> StoreCheck:
    grant = f"CHECK GRANT {{}} ON `{target.database}`.*"
    try:
        lacking = [right for right in _RIGHTS if not int(_command(connection, grant.format(right)))]
    except QueryFailed:
        return StoreCheck("rights", "this version of ClickHouse does not tell them (CHECK GRANT)")
    if not lacking:
        return StoreCheck("rights", f"{target.user} may do in {target.database} what a worker needs")
    listed = ", ".join(lacking)
    return StoreCheck(
        "rights",
        f"{target.user} lacks {listed} on {target.database}.*",
        f"GRANT {listed} ON {target.database}.* TO {target.user}",
    )


def _cluster(connection: ClickHouseConnection, target: Server) -> StoreCheck:
    """Check that the server knows the cluster, and has the names that its replicated tables need."""
    bound = {"cluster": target.cluster}
    found = connection.call(lambda client: client.query(_SERVERS, parameters=bound)).result_rows[0]
    shards, replicas, macros = (int(each) for each in found)
    if not shards:
        return StoreCheck(
            "cluster",
            f"the server knows no cluster {target.cluster}",
            "name one of system.clusters in clickhouse.cluster, or define it in remote_servers",
        )
    if macros < len(_MACROS):
        return StoreCheck(
            "cluster",
            f"the server lacks the macros {' and '.join(_MACROS)}",
            "set them on each server: the same shard for replicas of the same rows, another replica for each",
        )
    said = f"{target.cluster}: {how_many(shards, 'shard')}, {how_many(replicas, 'server')}"
    if replicas == shards * 2:
        return StoreCheck(
            "cluster", f"{said}; with two replicas a shard nothing is stored while one of them is down"
        )
    return StoreCheck("cluster", said)


def _form(form: Form, migrations: Sequence[Migration], views: tuple[ViewFile, ...]) -> Iterator[StoreCheck]:
    """Compare what the store ran and made with what this version has, as `migrate` does before it changes anything."""
    fault = mismatch(form, migrations, views)
    if fault is not None:
        yield StoreCheck("migrations", fault.found, fault.mend)
        return
    waiting = [each.name for each in migrations if each.name not in form.migrations]
    stale = [each.name for each in outdated(form, migrations, views)]
    yield StoreCheck("migrations", _waiting(waiting, f"all {len(migrations)} are applied", "applies"))
    yield StoreCheck("views", _waiting(stale, f"all {len(views)} are made", "makes"))


def _waiting(names: Sequence[str], none: str, verb: str) -> str:
    return f"{len(names)} wait ({names[0]} first): a worker {verb} them at its start" if names else none


def _reader(target: Server) -> StoreCheck:
    """Check the user of users' SQL, which is off where he may do more than read."""
    if not target.reader_user:
        return StoreCheck("reader", "clickhouse.reader_user is not set: SQL of users is off")
    reader = Server(
        url=target.url,
        database=target.database,
        user=target.reader_user,
        password=target.reader_password,
        ca_cert=target.ca_cert,
        compress=target.compress,
        connect_timeout_s=target.connect_timeout_s,
        request_timeout_s=target.request_timeout_s,
        retry_for_s=target.retry_for_s,
    )
    connection = ClickHouseConnection(reader, _SYSTEM)
    try:
        connection.call(lambda client: check_grants(client, reader.user, reader.database))
    except (SinkError, QueriesOffError) as fault:
        return StoreCheck(
            "reader",
            " ".join(str(fault).split()),
            f"CREATE USER {reader.user}; GRANT SELECT ON {reader.database}.* TO {reader.user}, nothing else; set "
            "clickhouse.reader_password",
        )
    finally:
        connection.close()
    return StoreCheck("reader", f"{reader.user} may read {reader.database}, and nothing else")
