"""POST /api/v1/receivers/test: sends an owner's test message with the settings and the addresses of this worker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Protocol

import msgspec
from aiohttp import web

from schemas.escaping import visible
from streams.notify.receiver_check import ReceiverCheckResult
from streams.web.encode import to_json
from streams.web.errors import ApiError
from streams.web.request_body import json_body
from streams.web.request_rate import RequestRate
from streams.web.scopes import Caller

logger = logging.getLogger(__name__)

BODY_MAX_BYTES: Final = 4 * 1024
#: Messages reach people: of one token so many at once, and one a second after that.
BURST: Final = 5
PER_S: Final = 1
#: All receivers of an owner are tried side by side; a mail server may take its time.
_WITHIN_S: Final = 60.0


class ReceiverTester(Protocol):
    """Tries the receivers of an owner."""

    def nobody(self, owner: str) -> str:
        """Why the owner has no receiver; empty if there is one."""

    def send(self, owner: str) -> Awaitable[Sequence[ReceiverCheckResult]]:
        """Send to all receivers of the owner at once."""


class _Asked(msgspec.Struct, forbid_unknown_fields=True):
    owner: str


class ReceiverEndpoint:
    """The endpoint of one server.

    Args:
        tester: None: this process sends no alerts, or not yet.
        now_ms: A monotonic clock.
    """

    def __init__(self, tester: Callable[[], ReceiverTester | None], now_ms: Callable[[], int]) -> None:
        self._tester = tester
        self._now_ms = now_ms
        self._rate = RequestRate(BURST, PER_S)

    async def answer(self, request: web.Request, caller: Caller) -> web.Response:
        """Send one test.

        Raises:
            ApiError: It was refused, nobody would get it, or it took too long.
        """
        if not self._rate.allow(caller.token, self._now_ms()):
            raise ApiError(429, f"more than {PER_S} test a second with this token", retry_after_s=1)
        owner = (await json_body(request, BODY_MAX_BYTES, _Asked, '{"owner": "ada"}')).owner
        tester = self._tester()
        if tester is None:
            raise ApiError(503, "this process sends no alerts (yet): a worker that meters does", "not_ready")
        if reason := tester.nobody(owner):
            raise ApiError(404, visible(reason), "no_receiver")
        logger.info(
            "receivers tested", extra={"owner": visible(owner), "by": caller.token, "address": caller.address}
        )
        try:
            async with asyncio.timeout(_WITHIN_S):
                found = await tester.send(owner)
        except TimeoutError:
            raise ApiError(
                504, f"no outcome within {_WITHIN_S:.0f} s; see the worker's log", "timeout"
            ) from None
        results: list[dict[str, Any]] = [each._asdict() for each in found]
        return web.Response(body=to_json({"results": results}), content_type="application/json")
