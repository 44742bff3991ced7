"""GET /api/v1/coverage: the share of cost with owner, team, project and cost centre, and where the rest comes from."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from streams.calendar import Calendar
from streams.costs.owner_shares import cells, worst
from streams.web.costs import made
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.span_request import span_request

_ALL: Final = ("all",)
_WORST: Final = 10


async def coverage(
    request: web.Request, service: QueryService, client: Client, calendar: Calendar
) -> dict[str, Any]:
    """The shares by `per`, and the worst sources of each name.

    Raises:
        ApiError: A parameter is wrong, or a query failed.
    """
    asked = span_request(request, _ALL, calendar)
    shares = await made(service, client, cells(asked.per, asked.span, asked.calendar))
    found = await made(service, client, worst(asked.span, min(asked.limit, _WORST)))
    return {
        **asked.echo(),
        "rows": shares.records(),
        "worst": found.records(),
    }
