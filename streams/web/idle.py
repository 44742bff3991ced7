"""GET /api/v1/idle: what was paid and did nothing."""

from __future__ import annotations

from typing import Any, Final

from aiohttp import web

from streams.calendar import Calendar
from streams.costs.idle_nodes import LEVELS
from streams.costs.idle_report import job_steps, node_steps, report_of
from streams.costs.parts import HourSpan
from streams.costs.request import calendar_of, instant_of
from streams.errors import WrongUseError
from streams.web.costs import both_made
from streams.web.errors import ApiError
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.span_request import calendar_asked

_PARAMETERS: Final = ("from", "to", "by", "limit", "tz", "fiscal")
_LIMIT: Final = 200
_LIMIT_MAX: Final = 1_000


async def idle(
    request: web.Request, service: QueryService, client: Client, as_of_ms: int, usual: Calendar
) -> dict[str, Any]:
    """The report; `by`: the level of nodes, `from` and `to` whole hours.

    Raises:
        ApiError: A parameter is wrong, or a query failed.
    """
    for name in request.query:
        if name not in _PARAMETERS or len(request.query.getall(name)) > 1:
            expected = f"expected each of {', '.join(_PARAMETERS)} once"
            raise ApiError(400, f"parameter {name!r}: {expected}")
    level = request.query.get("by", LEVELS[0])
    if level not in LEVELS:
        raise ApiError(400, f"by: got {level!r}, expected one of {', '.join(LEVELS)}")
    given = request.query.get("limit", str(_LIMIT))
    if not (given.isascii() and given.isdecimal() and 1 <= int(given[:9]) <= _LIMIT_MAX):
        raise ApiError(400, f"limit: got {given!r}, expected 1 to {_LIMIT_MAX}")
    try:
        calendar = calendar_of(
            "tz", request.query.get("tz", ""), calendar_asked(request.query.getall("fiscal", []), usual)
        )
        first, until = (instant_of(name, request.query.get(name, ""), calendar) for name in ("from", "to"))
        span = HourSpan(first, until)
        if span.begin_ms is not None and span.end_ms is not None and span.begin_ms >= span.end_ms:
            raise ApiError(400, "from: must be before to")
        asked = node_steps(level, span, as_of_ms), job_steps(span, int(given))
        found = report_of(*await both_made(service, client, *asked), int(given))
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong
    return {"as_of_ms": as_of_ms, "by": level, "from_ms": span.begin_ms, "to_ms": span.end_ms, **found}
