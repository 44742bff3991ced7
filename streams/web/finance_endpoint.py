"""What is answered for those who pay: idle time, commitments."""

from __future__ import annotations

from typing import Protocol

from aiohttp import web

from streams.calendar import Calendar
from streams.web.commitments import commitments
from streams.web.encode import json_answer
from streams.web.figures import ApiFigures
from streams.web.idle import idle
from streams.web.middleware import client_of
from streams.web.query_service import QueryService


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
    def calendar(self) -> Calendar:
        """The usual calendar."""
        ...


class FinanceEndpoint:
    """The handlers."""

    def __init__(self, parts: FinanceParts) -> None:
        self._parts = parts

    async def idle(self, request: web.Request) -> web.Response:
        """What was paid and did nothing."""
        as_of_ms = await self._parts.figures.as_of_ms()
        return json_answer(
            await idle(request, self._parts.queries, client_of(request), as_of_ms, self._parts.calendar)
        )

    async def commitments(self, request: web.Request) -> web.Response:
        """What commitments cost, and what of it was used."""
        return json_answer(await commitments(request, self._parts.queries, client_of(request)))
