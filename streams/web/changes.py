"""GET /api/v1/changes: the audit trail, a page at a time, the newest change first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from streams.explain.changes import LIMIT_MAX, NEWEST, PAGE
from streams.web.errors import ApiError
from streams.web.store_reader import StoreReader

PARAMETERS: Final = frozenset({"limit", "before", "kind", "by", "name"})
_LIMIT: Final = 100
_SETTINGS: Final = "SETTINGS final = 0, max_execution_time = 30"


async def changes(reader: StoreReader, asked: Mapping[str, str]) -> dict[str, Any]:
    """The changes that are asked for; `before`: what asks for the next page, None: there is none.

    Raises:
        ApiError: A parameter is wrong, or the store cannot say.
    """
    limit = _whole("limit", asked.get("limit", str(_LIMIT)), 1, LIMIT_MAX)
    bound = {name: asked.get(name, NEWEST[name]) for name in ("kind", "by", "name")}
    before = _whole("before", asked.get("before", str(NEWEST["before"])), 0, 2**62)
    # One more than is shown tells whether there is another page.
    rows = await reader.rows(f"{PAGE}\n{_SETTINGS}", **bound, before=before, limit=limit + 1)
    found = [{**row, "removed": bool(row["removed"])} for row in rows[:limit]]
    return {"changes": found, "before": found[-1]["offset"] if len(rows) > limit else None}


def _whole(name: str, given: str, least: int, most: int) -> int:
    if not given.isascii() or not given.isdecimal() or not least <= int(given[:20]) <= most:
        raise ApiError(400, f"{name}: got {given[:80]!r}, expected a whole number from {least} to {most}")
    return int(given)
