"""GET /api/v1/carbon: the energy of jobs, its CO2 equivalent and its cost, by region, team, project, owner or job."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from streams.calendar import Calendar
from streams.costs.carbon import LEVELS, cells
from streams.web.costs import made
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.span_request import span_request


async def carbon(
    request: web.Request, service: QueryService, client: Client, calendar: Calendar
) -> dict[str, Any]:
    """The rows by `by` and `per`, in each cell the most energy first.

    Raises:
        ApiError: A parameter is wrong, or the query failed.
    """
    asked = span_request(request, LEVELS, calendar)
    rows = (
        await made(
            service, client, cells((asked.level,), asked.per, asked.span, asked.limit + 1, asked.calendar)
        )
    ).records()
    return {**asked.echo(), "rows": rows[: asked.limit], "is_cut": len(rows) > asked.limit}
