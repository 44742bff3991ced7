"""All attacks, for the engine that is installed."""

from __future__ import annotations

from sinks.query.session import Parser
from tests.query import hostile_settings, hostile_tables, hostile_text
from tests.query.attacks import Attack

_NAMES = {
    "functions": "SELECT name FROM system.table_functions",
    "formats": "SELECT name FROM system.formats",
    # Numbers and switches name nothing.
    "settings": "SELECT name FROM system.settings WHERE type NOT IN ('Bool', 'Seconds', 'Milliseconds', 'Float', 'Double') "
    "AND NOT match(type, '^U?Int|Auto|^MaxThreads|NonZero|Mode|Method|Algorithm|Policy|Timeout|Level')",
}


def all_attacks(parser: Parser) -> list[Attack]:
    """Each statement once; `parser` is of an engine that tells its names."""

    def names(of: str) -> list[str]:
        return [str(row[0]) for row in parser._client.query(_NAMES[of]).result_rows]

    found = [
        *hostile_tables.attacks(names("functions")),
        *hostile_text.attacks(names("formats")),
        *hostile_settings.attacks(names("settings")),
    ]
    return list({(each.sql, repr(each.parameters)): each for each in found}.values())
