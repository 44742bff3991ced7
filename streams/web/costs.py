"""GET /api/v1/costs: a metric by levels and periods, as JSON; for how long there are costs, and what the month will have cost.

A query of costs has the limits and the cancelling of users' SQL, and neither its processes nor its priority.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from schemas.durations import HOUR_MS
from schemas.reasons import Reason
from sinks.answer import QueryResult
from sinks.query import arrow
from streams.calendar import Calendar
from streams.costs.answer import cost_steps
from streams.costs.budgets import converted_steps
from streams.costs.currency import USD
from streams.costs.day_parts import Done, Steps, advanced
from streams.costs.driver_cells import driver_steps
from streams.costs.month import month_forecast, month_request
from streams.costs.month_forecast import forecast_request, forecast_steps
from streams.costs.parts import Parameters
from streams.costs.request import CostRequest, currency_of, request_of
from streams.costs.sql import span_steps
from streams.costs.what_if import NotForecastError, PriceSource
from streams.errors import WrongUseError
from streams.estimate.prices import STORED_PRICES, price_book
from streams.prices.label_gaps import label_gap_steps
from streams.threads import Threads
from streams.web.errors import ApiError
from streams.web.places import Client
from streams.web.query_service import QueryService
from streams.web.span_request import calendar_asked
from streams.web.store_reader import FOR_ALL

Made = TypeVar("Made")
MadeBeside = TypeVar("MadeBeside")
_PRICES = PriceSource(STORED_PRICES, price_book)
#: Answers are made at most two at a time, beside the live figures.
_THREADS = Threads("costs", 2)


async def costs(
    request: web.Request,
    service: QueryService,
    client: Client,
    now_ms: Callable[[], Awaitable[int]],
    calendar: Calendar,
) -> dict[str, Any]:
    """The rows asked for, and the drivers of the change if they are asked for.

    `now_ms` reads the store, and only rates of a currency need it.

    Raises:
        ApiError: A parameter is wrong, or the query failed.
    """
    try:
        given = {name: request.query.getall(name) for name in request.query}
        asked = request_of(given, usual=calendar_asked(given.pop("fiscal", []), calendar))
        steps = cost_steps(asked, await now_ms()) if asked.currency else cost_steps(asked)
        found = await made(service, client, steps)
        body: dict[str, Any] = {
            **_echo(asked),
            "rows": found.rows,
            "is_cut": found.is_cut,
            "left_out": found.left_out,
            **({"note": found.note} if asked.currency or asked.compare else {}),
        }
        if asked.drivers:
            drivers = await made(service, client, driver_steps(asked, has_before=found.has_before))
            body["drivers"] = drivers.rows
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong
    return body


async def span(service: QueryService, client: Client, as_of_ms: int) -> dict[str, Any]:
    """From when to when the store has costs of jobs (RFC 3339; None: none), until when bills were loaded, the currencies with rates, and labels without a price."""
    found = await made(service, client, span_steps())
    gaps = await made(service, client, label_gap_steps())
    has_hours = bool(found.last_s)
    return {
        "first_hour": _rfc3339(found.first_s * 1000) if has_hours else None,
        "end_hour": _rfc3339(found.last_s * 1000 + HOUR_MS) if has_hours else None,
        "as_of": _rfc3339(as_of_ms) if as_of_ms else None,
        "billed_until": _rfc3339(found.billed_until_s * 1000) if found.billed_until_s else None,
        "currencies": list(found.currencies),
        "label_gaps": gaps,
    }


async def month(request: web.Request, service: QueryService, client: Client, as_of_ms: int) -> dict[str, Any]:
    """What the month of the newest figures has cost, and will have cost, of what `where` names.

    Raises:
        ApiError: A parameter is wrong, or the query failed.
    """
    if unknown := sorted(set(request.query) - {"where"}):
        raise ApiError(400, f"parameter {unknown[0]!r} is unknown; expected where")
    try:
        where = request_of({"where": request.query.getall("where", [])}).where
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong
    known = await made(service, client, span_steps())
    if not known.last_s:
        raise ApiError(404, "nothing has cost anything yet: no month to forecast")
    last_ms = known.last_s * 1000
    until_ms = max(last_ms + HOUR_MS, -(-as_of_ms // HOUR_MS) * HOUR_MS)
    rows = (await made(service, client, cost_steps(month_request(where, until_ms)))).rows
    usd = {date.fromisoformat(row["period_start"][:10]): Decimal(str(row["cost_usd"])) for row in rows}
    first = datetime.fromtimestamp(known.first_s, UTC).date()
    found = month_forecast(usd, first, until_ms)
    return {**found._asdict(), "until": _rfc3339(until_ms)}


async def forecast(
    request: web.Request, service: QueryService, client: Client, as_of_ms: int, calendar: Calendar
) -> dict[str, Any]:
    """What the month of the newest figures will have cost, by name and in all, with the range of 80 %.

    Raises:
        ApiError: A parameter is wrong, nothing has cost anything yet, or the query failed.
    """
    try:
        given = {name: request.query.getall(name) for name in request.query}
        asked = forecast_request(given, calendar_asked(given.pop("fiscal", []), calendar))
        return await made(service, client, forecast_steps(asked, as_of_ms, _PRICES))
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong
    except NotForecastError as unknown:
        raise ApiError(404, str(unknown)) from unknown


async def in_currency(
    code: str, budgets: dict[str, Any], service: QueryService, client: Client, at_ms: int
) -> dict[str, Any]:
    """All budgets with their dollars in a currency beside them.

    Raises:
        ApiError: It is no currency, it has no rate, or the query failed.
    """
    try:
        currency = currency_of("currency", code) or USD
        return await made(service, client, converted_steps(budgets, currency, at_ms))
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong


def _rfc3339(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _echo(asked: CostRequest) -> dict[str, Any]:
    return {"metric": asked.metric, "by": asked.by, "per": asked.per, "tz": asked.calendar.zone}


async def made(service: QueryService, client: Client, steps: Steps[Made]) -> Made:
    """Run all statements, one at a time; returns what is made of the results."""
    asked = advanced(steps, None)
    while not isinstance(asked, Done):
        asked = await rows_asked(service, client, asked, partial(advanced, steps))
    return asked.made


async def both_made(
    service: QueryService, client: Client, one: Steps[Made], other: Steps[MadeBeside]
) -> tuple[Made, MadeBeside]:
    """What is made of two questions, asked at a time: as many as one reader may ask."""
    asked = (
        asyncio.ensure_future(made(service, client, one)),
        asyncio.ensure_future(made(service, client, other)),
    )
    try:
        return await asyncio.gather(*asked)
    finally:
        for each in asked:
            each.cancel()


async def rows_asked(
    service: QueryService,
    client: Client,
    statement: tuple[str, Parameters],
    rows_of: Callable[[QueryResult], Made],
) -> Made:
    """The rows; they are made by another thread, and under the query's slot: there may be many.

    Raises:
        ApiError: The query failed, or reads what is of all teams for somebody who is bound to some.
    """
    try:
        async with service.answered(*statement, "arrow", client, is_own=True) as answer:
            data = await _THREADS.run(os.pread, answer.descriptor, answer.size_bytes, 0)
            return await _THREADS.run(lambda: rows_of(arrow.decode(data)))
    except ApiError as fault:
        if client.teams is None or fault.code != "query_refused":
            raise
        raise ApiError(403, f"{FOR_ALL}: {fault.message}", Reason.beyond_token) from None
