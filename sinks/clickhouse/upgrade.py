"""Says what this version would change in a store. It changes nothing, and makes no table.

The answers come from the store itself, or through a worker of another version that has it open.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from sinks.clickhouse.check import StoreCheck
from sinks.clickhouse.connection import ClickHouseConnection
from sinks.clickhouse.migrate import Form, Migration, form_of, gone, mismatch, outdated, shipped
from sinks.clickhouse.view_files import ViewFile, shipped_views
from sinks.target import Target

_SYSTEM: Final = "system"  # a database that there always is
#: The migrations that a store has run.
MIGRATIONS: Final = "SELECT name, checksum FROM migrations"
#: Of the newest snapshot of each shard the first bytes, {bytes}, in which its format stands.
HEADS: Final = """
SELECT shard, version, hex(substring(blob, 1, {bytes:UInt64})) AS head FROM snapshots
WHERE chunk = 0 AND (shard, version) IN (SELECT shard, max(version) FROM snapshots GROUP BY shard) ORDER BY shard"""
_LOG: Final = "SELECT argMax(value, version) AS log FROM `{database}`.meta WHERE key = 'log'"
_SHOWN: Final = 6


class StoredHead(NamedTuple):
    """The beginning of the newest snapshot of a shard."""

    shard: int
    version: int
    head: bytes


class StoredForm(NamedTuple):
    """What made a store, and the newest snapshots in it.

    `has_origins`: whether it is known what views were made of. `log`: what the store was made from; empty if nobody has said.
    """

    form: Form
    heads: Sequence[StoredHead]
    has_origins: bool = True
    log: str = ""


def read_form(target: Target, head_bytes: int) -> StoredForm:
    """Read it from a store that no other process has open, or from a server.

    Raises:
        StoreInUse: Another process has the directory open.
        SinkError: It does not answer.
    """
    connection = ClickHouseConnection(target, _SYSTEM)
    try:
        form = form_of(connection, target.database)
        sql = HEADS.replace("snapshots", f"`{target.database}`.snapshots")
        bound = {"bytes": head_bytes}
        rows = (
            []
            if form.is_new
            else connection.call(lambda client: client.query(sql, parameters=bound)).result_rows
        )
        log = (
            ""
            if form.is_new
            else connection.call(lambda client: client.command(_LOG.format(database=target.database)))
        )
    finally:
        connection.close()
    heads = [StoredHead(int(n), int(v), bytes.fromhex(str(head))) for n, v, head in rows]
    return StoredForm(form, heads, log=str(log))


def changes_to(
    stored: StoredForm,
    migrations: Sequence[Migration] | None = None,
    views: tuple[ViewFile, ...] | None = None,
) -> Iterator[StoreCheck]:
    """Yield what the first start of this version does to the tables and views; `mend` is not empty where it refuses to start.

    Args:
        stored: What there is.
        migrations: Of this version; by default those that it ships.
        views: Of this version; by default those that it ships.
    """
    migrations = shipped() if migrations is None else migrations
    views = shipped_views() if views is None else views
    form = stored.form
    if form.is_new:
        yield StoreCheck(
            "tables", f"none yet: the first start makes them ({len(migrations)} files, {len(views)} views)"
        )
        return
    fault = mismatch(form, migrations, views)
    if fault is not None:
        yield StoreCheck("tables", fault.found, fault.mend)
        return
    waiting = [each for each in migrations if each.name not in form.migrations]
    for each in waiting:
        yield StoreCheck(each.name, f"is run once: {each.about}")
    if not waiting:
        yield StoreCheck("tables", f"stay: all {len(migrations)} files are applied")
    if not stored.has_origins:
        yield StoreCheck(
            "views", "those that differ are made anew; a worker of this version does not say which"
        )
        return
    stale = [each.name for each in outdated(form, migrations, views)]
    yield StoreCheck(
        "views", _listed(stale, "made anew", f"stay: all {len(views)} are as this version has them")
    )
    if dropped := gone(form, views):
        yield StoreCheck("views", _listed(dropped, "dropped", ""))


def _listed(names: Sequence[str], what: str, none: str) -> str:
    if not names:
        return none
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"{len(names)} {what}: {', '.join(names[:_SHOWN])}{more}"
