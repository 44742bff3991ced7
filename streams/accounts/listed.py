"""The sources that were read, with what became of their entries and what mends what was not understood.

For the terminal and the page alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from schemas.validate_sources import NOT_UNDERSTOOD
from streams.accounts.causes import FREE_RULES, remedy_of

ACCOUNTS: Final = """
SELECT name, polled, polls, read, metered, free, not_understood, causes FROM source_accounts ORDER BY name LIMIT {most:UInt64}
"""
REASONS: Final = """
SELECT name, entry_class, reason, entries, example, standing
FROM sources FINAL
WHERE (name, offset) IN (SELECT name, max(offset) FROM sources GROUP BY name) AND NOT removed AND reason != ''
    AND name IN (SELECT name FROM source_accounts ORDER BY name LIMIT {most:UInt64})
ORDER BY name, entry_class = 'free', entries DESC, reason
"""
_NEWER: Final = "see docs/sources.md of the version that says it"


def listed(
    accounts: Iterable[Mapping[str, Any]], reasons: Iterable[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Each source of ACCOUNTS with its `entries`, those of REASONS; `says` is what mends one, or why it is free."""
    found: dict[str, list[dict[str, Any]]] = {}
    for row in reasons:
        name, reason = str(row["name"]), str(row["reason"])
        is_open = row["entry_class"] == NOT_UNDERSTOOD
        says = remedy_of(reason, name) if is_open else FREE_RULES.get(reason, "")
        rest = {key: value for key, value in row.items() if key != "name"}
        entry = {**rest, "standing": bool(row["standing"]), "says": says or _NEWER}
        found.setdefault(name, []).append(entry)
    return [{**each, "entries": found.get(str(each["name"]), [])} for each in accounts]
