"""GET /api/v1/commitments: what commitments cost, what of it was used, and how much of the use they cover."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from streams.calendar import Calendar
from streams.costs.commitments import LEVELS, cells, coverage
from streams.web.costs import both_made
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.span_request import span_request


async def commitments(
    request: web.Request, service: QueryService, client: Client, calendar: Calendar
) -> dict[str, Any]:
    """The rows by `by` and `per`, the most unused first, and the coverage by `per`.

    Raises:
        ApiError: A parameter is wrong, or a query failed.
    """
    asked = span_request(request, LEVELS, calendar)
    # One commitment has one owner, who bears what is not used.
    levels = (asked.level, "team") if asked.level == "commitment_id" else (asked.level,)
    # Each takes what jobs used hour by hour, which is most of its time: a core each.
    rows, covered = await both_made(
        service,
        client,
        cells(levels, asked.per, asked.span, asked.limit + 1, asked.calendar),
        coverage(asked.per, asked.span, asked.calendar),
    )
    return {
        **asked.echo(),
        "rows": rows.records()[: asked.limit],
        "is_cut": len(rows.rows) > asked.limit,
        "coverage": covered.records(),
    }
