"""Detects parts of our tables that the engine has detached: their rows are missing from every result, without an error.

An engine that finds a broken part at startup detaches it and continues with the others.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sinks.clickhouse.connection import ClickHouseConnection

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
#: Copies of other parts, or parts that an operator works on.
_HARMLESS: Final = ("ignored", "clone", "attaching", "deleting", "tmp-fetch", "covered-by-broken")
#: SQL for other connections; the reason of a part that an operator detached is empty.
SET_ASIDE: Final = f"""
SELECT table, name, reason FROM system.detached_parts
WHERE database = currentDatabase() AND coalesce(reason, '') NOT IN {_HARMLESS} ORDER BY table, name"""  # noqa: S608 - of constants


class LostPart(NamedTuple):
    """A part whose rows no query returns any more."""

    table: str
    name: str
    reason: str  # the engine's reason, "" if an operator detached it

    def __str__(self) -> str:
        """Describe it for a log line."""
        return f"part {self.name} of `{self.table}` ({self.reason or 'detached by hand'})"


def lost_parts(connection: ClickHouseConnection) -> list[LostPart]:
    """The detached parts of this database, by table."""
    found = connection.call(lambda client: client.query_arrow(SET_ASIDE)).to_pylist()
    return [LostPart(_text(row["table"]), _text(row["name"]), _text(row["reason"])) for row in found]


def drop_part(connection: ClickHouseConnection, part: LostPart) -> None:
    """Delete a detached part.

    Raises:
        ValueError: The name is not one of the engine's.
    """
    if not (_NAME.fullmatch(part.table) and _NAME.fullmatch(part.name)):
        raise ValueError(f"no name of a part: {part}")
    sql = f"ALTER TABLE `{part.table}` DROP DETACHED PART '{part.name}' SETTINGS allow_drop_detached = 1"
    connection.call(lambda client: client.command(sql))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
