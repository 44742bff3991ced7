"""What is answered for those who pay: costs, forecasts, idle time, commitments, savings, carbon, who answers for cost."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from streams.calendar import Calendar
from streams.web.carbon import carbon
from streams.web.commitments import commitments
from streams.web.costs import costs, forecast, month, span
from streams.web.coverage import coverage
from streams.web.encode import json_answer
from streams.web.figures import ApiFigures
from streams.web.idle import idle
from streams.web.middleware import client_of
from streams.web.parameters import parameters
from streams.web.query_service import QueryService
from streams.web.savings import savings_found
from streams.web.store_reader import StoreReader


class FinanceParts(Protocol):
    """What the answers are made from."""

    @property
    def figures(self) -> ApiFigures:
        """Live figures."""
        ...

    @property
    def queries(self) -> QueryService:
        """What runs SQL, within limits."""
        ...

    @property
    def estimates(self) -> StoreReader:
        """What reads for comparisons."""
        ...

    @property
    def calendar(self) -> Calendar:
        """The usual calendar."""
        ...


class FinanceEndpoint:
    """The handlers."""

    def __init__(self, parts: FinanceParts) -> None:
        self._parts = parts

    async def costs(self, request: web.Request) -> web.Response:
        """A metric by levels and periods."""
        parts = self._parts
        client = client_of(request)
        return json_answer(await costs(request, parts.queries, client, parts.figures.now_ms, parts.calendar))

    async def span(self, request: web.Request) -> web.Response:
        """From when to when there are costs."""
        parameters(request, set())
        as_of_ms = await self._parts.figures.as_of_ms()
        return json_answer(await span(self._parts.queries, client_of(request), as_of_ms))

    async def month(self, request: web.Request) -> web.Response:
        """The month so far, and what is left of it as the days before."""
        as_of_ms = await self._parts.figures.as_of_ms()
        return json_answer(await month(request, self._parts.queries, client_of(request), as_of_ms))

    async def forecast(self, request: web.Request) -> web.Response:
        """The month by name, with its range."""
        as_of_ms, parts = await self._parts.figures.as_of_ms(), self._parts
        return json_answer(
            await forecast(request, parts.queries, client_of(request), as_of_ms, parts.calendar)
        )

    async def idle(self, request: web.Request) -> web.Response:
        """What was paid and did nothing."""
        as_of_ms = await self._parts.figures.as_of_ms()
        return json_answer(
            await idle(request, self._parts.queries, client_of(request), as_of_ms, self._parts.calendar)
        )

    async def commitments(self, request: web.Request) -> web.Response:
        """What commitments cost, and what of it was used."""
        return json_answer(
            await commitments(request, self._parts.queries, client_of(request), self._parts.calendar)
        )

    async def coverage(self, request: web.Request) -> web.Response:
        """How much of the cost names who answers for it."""
        return json_answer(
            await coverage(request, self._parts.queries, client_of(request), self._parts.calendar)
        )

    async def savings(self, request: web.Request) -> web.Response:
        """What could be saved, and what spot saved."""
        parts = self._parts
        return json_answer(
            await savings_found(request, parts.queries, client_of(request), parts.estimates, parts.calendar)
        )

    async def carbon(self, request: web.Request) -> web.Response:
        """What the energy of jobs stands for."""
        return json_answer(
            await carbon(request, self._parts.queries, client_of(request), self._parts.calendar)
        )
