"""SETTINGS of a statement: removed from its tree, checked against a list, and set for its session instead.

None may stay in the tree: the executed statement has none.
"""

import re
from collections.abc import Mapping
from typing import NoReturn

from sinks.query.grammar import IGNORED, KEYS, LOWERED, SETTINGS
from sinks.query.limits import QueryLimits
from sinks.query.refusal import RefusedQueryError
from sinks.query.tree import Node


def taken(statement: Node, limits: QueryLimits) -> dict[str, int]:
    """Remove the settings of a statement from its tree.

    Raises:
        RefusedQueryError: One is not allowed, or would lift a limit.
    """
    most = {name: value for name, value in limits.settings().items() if name in LOWERED}
    found: dict[str, int] = {}
    for node in _with_settings(statement):
        settings = node.pop("settings")
        if not settings.keys() <= KEYS["SetQuery"] | IGNORED:
            _refuse("SETTINGS take numbers only: no DEFAULT, no parameter")
        for change in settings.get("changes") or []:
            name, value = str(change.get("name")), integer(change)
            if name not in SETTINGS:
                _refuse(
                    f"the setting `{name[:80]}` is not allowed; allowed are {', '.join(sorted(SETTINGS))}"
                )
            if value is None or value < 0:
                _refuse(f"the setting `{name}` takes a whole number")
            if name in most and not 0 < value <= float(most[name]):
                _refuse(
                    f"the setting `{name}` can only lower this worker's limit: it takes 1 to {most[name]}"
                )
            found[name] = value
    return found


def _with_settings(statement: Node) -> list[Node]:
    """The nodes whose SETTINGS apply to the statement: itself, or the last SELECT of its union."""
    found = [statement] if isinstance(statement.get("settings"), dict) else []
    selects = (statement.get("list_of_selects") or {}).get("children") or []
    if selects and isinstance(selects[-1], dict) and isinstance(selects[-1].get("settings"), dict):
        found.append(selects[-1])
    return found


def integer(change: Mapping[str, object]) -> int | None:
    """The integer value of a setting; None if it is something else."""
    value = change.get("value")
    number = value.get("value") if isinstance(value, Mapping) else None
    if isinstance(number, str) and re.fullmatch(r"\d{1,20}", number):
        return int(number)
    return int(number) if isinstance(number, int) else None


def _refuse(message: str) -> NoReturn:
    raise RefusedQueryError(message)
