"""Turns statements for one server into those for a cluster of ClickHouse servers. Pure functions of text.

Of each table there are two: `NAME_local`, replicated, on each server, and `NAME`, which spreads rows over the shards of the cluster by the hash of
their job (or of the first column of their key), so that all versions of a row lie on one shard. What reads and inserts names `NAME`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from schemas.tables import KEYS

LOCAL: Final = "_local"
#: Settings of each request of a worker: an insert counts once most replicas have it, and what is read back is never older.
CONSISTENT: Final[Mapping[str, object]] = {
    "insert_quorum": "auto",
    "insert_quorum_parallel": 0,
    "select_sequential_consistency": 1,
    "distributed_foreground_insert": 1,
    "distributed_product_mode": "global",
}
#: Settings of what only reads: a subquery that names a table again reads all shards of it.
READING: Final[Mapping[str, object]] = {"distributed_product_mode": "global"}

_TABLE: Final = re.compile(
    r"CREATE TABLE IF NOT EXISTS (?P<name>\w+)\s*(?P<columns>\(.*\))\s*ENGINE = (?P<engine>\w+)(?:\((?P<version>\w+)\))?(?P<rest>.*)",
    re.DOTALL,
)
_ALTER: Final = re.compile(r"ALTER TABLE `?(?P<name>\w+)`?\s+(?P<change>(?P<verb>\w+ \w+).*)", re.DOTALL)
_ORDER: Final = re.compile(r",\s*MODIFY ORDER BY \(.*\)", re.DOTALL)
_DELETE: Final = re.compile(r"DELETE FROM `?(?P<name>\w+)`?(?P<rest>.*)", re.DOTALL)
_ELSEWHERE: Final = re.compile(
    r"(?P<head>CREATE OR REPLACE VIEW|CREATE DATABASE IF NOT EXISTS|DROP VIEW IF EXISTS) (?P<name>`\w+`)(?P<rest>.*)",
    re.DOTALL,
)
_SETTINGS: Final = re.compile(r"\s*\bSETTINGS (?P<all>[^()]*)$")
#: A setting of tables on one server alone: replicated ones know the tokens of inserts by another.
_ONE_SERVERS: Final = "non_replicated_deduplication_window"
_PATH: Final = "'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'"


def on_cluster(statement: str, cluster: str, database: str) -> list[str]:
    """The statements that do on all servers of a cluster what one does on a server; what reads and inserts stays as it is.

    Raises:
        ValueError: It makes or changes something in a way that has no form for clusters.
    """
    statement = statement.strip()
    on = f"ON CLUSTER `{cluster}`"
    if match := _TABLE.fullmatch(statement):
        return _tables(match, on, cluster, database)
    if match := _ALTER.fullmatch(statement):
        local = f"ALTER TABLE `{match['name']}{LOCAL}` {on} {match['change']}"
        if match["verb"] == "ADD COLUMN":
            columns = _ORDER.sub("", match["change"])
            return [local, f"ALTER TABLE `{match['name']}` {on} {columns}"]
        return [local]
    if match := _DELETE.fullmatch(statement):
        return [f"DELETE FROM `{match['name']}{LOCAL}` {on}{match['rest']}"]  # noqa: S608 - of a statement of ours
    if match := _ELSEWHERE.fullmatch(statement):
        return [f"{match['head']} {match['name']} {on}{match['rest']}"]
    if statement.startswith("INSERT INTO "):
        return [statement]
    raise ValueError(f"no form for a cluster: {statement[:80]}")


def local(table: str) -> str:
    """The name of the tables that hold the rows."""
    return table + LOCAL


def _tables(match: re.Match[str], on: str, cluster: str, database: str) -> list[str]:
    name, version = match["name"], match["version"]
    engine = f"Replicated{match['engine']}({_PATH}{f', {version}' if version else ''})"
    rest = _SETTINGS.sub(_of_replicas, match["rest"]).rstrip()
    keys = KEYS.get(name, ("name",))
    place = "job_id" if "job_id" in keys else keys[0]
    return [
        f"CREATE TABLE IF NOT EXISTS `{name}{LOCAL}` {on}\n{match['columns']}\nENGINE = {engine}{rest}",
        (
            f"CREATE TABLE IF NOT EXISTS `{name}` {on} AS `{database}`.`{name}{LOCAL}`\n"
            f"ENGINE = Distributed(`{cluster}`, `{database}`, `{name}{LOCAL}`, cityHash64({place}))"
        ),
    ]


def _of_replicas(match: re.Match[str]) -> str:
    """The settings of a replicated table."""
    kept = [each.strip() for each in match["all"].split(",") if _ONE_SERVERS not in each]
    return f"\nSETTINGS {', '.join(kept)}" if kept else ""
