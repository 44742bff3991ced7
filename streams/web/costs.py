"""GET /api/v1/costs: a metric by levels and periods, as JSON.

A query of costs has the limits and the cancelling of users' SQL, and neither its processes nor its priority.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from aiohttp import web

from sinks.answer import QueryResult
from sinks.query import arrow
from streams.costs.answer import cost_steps
from streams.costs.day_parts import Done, Steps, advanced
from streams.costs.driver_cells import driver_rows, driver_sql
from streams.costs.parts import Parameters
from streams.costs.request import CostRequest, request_of
from streams.errors import WrongUseError
from streams.threads import Threads
from streams.web.errors import ApiError
from streams.web.places import Client
from streams.web.query_service import QueryService

Made = TypeVar("Made")
#: Answers are made at most two at a time, beside the live figures.
_THREADS = Threads("costs", 2)


async def costs(request: web.Request, service: QueryService, client: Client) -> dict[str, Any]:
    """The rows asked for, and the drivers of the change if they are asked for.

    Raises:
        ApiError: A parameter is wrong, or the query failed.
    """
    try:
        asked = request_of({name: request.query.getall(name) for name in request.query})
        found = await _made(service, client, cost_steps(asked))
        body: dict[str, Any] = {**_echo(asked), "rows": found.rows, "is_cut": found.is_cut}
        if asked.drivers:
            drivers = await _asked(
                service,
                client,
                driver_sql(asked),
                lambda answer: driver_rows(asked, answer.names, list(answer.rows())),
            )
            body["drivers"] = drivers.rows
    except WrongUseError as wrong:
        raise ApiError(400, str(wrong)) from wrong
    return body


def _echo(asked: CostRequest) -> dict[str, Any]:
    return {"metric": asked.metric, "by": asked.by, "per": asked.per}


async def _made(service: QueryService, client: Client, steps: Steps[Made]) -> Made:
    """Run all statements, one at a time; returns what is made of the results."""
    asked = advanced(steps, None)
    while not isinstance(asked, Done):
        asked = await _asked(service, client, asked, partial(advanced, steps))
    return asked.made


async def _asked(
    service: QueryService,
    client: Client,
    statement: tuple[str, Parameters],
    rows_of: Callable[[QueryResult], Made],
) -> Made:
    """The rows; they are made by another thread, and under the query's slot: there may be many."""
    async with service.answered(*statement, "arrow", client, is_own=True) as answer:
        data = await _THREADS.run(os.pread, answer.descriptor, answer.size_bytes, 0)
        return await _THREADS.run(lambda: rows_of(arrow.decode(data)))
