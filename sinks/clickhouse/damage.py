"""Parts of our tables that the engine set aside: their rows are gone from every answer, without an error.

An engine that finds a part broken as it starts detaches it and goes on with the others.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sinks.clickhouse.connection import ClickHouseConnection

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,200}")
#: Copies of what other parts have, or parts that an operator works on.
_HARMLESS: Final = ("ignored", "clone", "attaching", "deleting", "tmp-fetch", "covered-by-broken")
#: For whoever asks by a connection of its own; the reason of a part that an operator detached is empty.
SET_ASIDE: Final = f"""
SELECT table, name, reason FROM system.detached_parts
WHERE database = currentDatabase() AND coalesce(reason, '') NOT IN {_HARMLESS} ORDER BY table, name"""  # noqa: S608 - of constants


class LostPart(NamedTuple):
    """A part whose rows no query finds any more."""

    table: str
    name: str
    reason: str  # as the engine says it, "" where an operator detached it

    def __str__(self) -> str:
        """For a line of a log."""
        return f"part {self.name} of `{self.table}` ({self.reason or 'detached by hand'})"


def lost_parts(connection: ClickHouseConnection) -> list[LostPart]:
    """The parts of this database that were set aside, by table."""
    found = connection.call(lambda client: client.query_arrow(SET_ASIDE)).to_pylist()
    return [LostPart(_text(row["table"]), _text(row["name"]), _text(row["reason"])) for row in found]


def drop_part(connection: ClickHouseConnection, part: LostPart) -> None:
    """Delete what was set aside; ValueError for a name that is none of the engine's."""
    if not (_NAME.fullmatch(part.table) and _NAME.fullmatch(part.name)):
        raise ValueError(f"no name of a part: {part}")
    sql = f"ALTER TABLE `{part.table}` DROP DETACHED PART '{part.name}' SETTINGS allow_drop_detached = 1"
    connection.call(lambda client: client.command(sql))


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value or "")
