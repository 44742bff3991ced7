"""Honest clients beside the attack: /healthz twice a second, the list of jobs, a small query, listeners that read.

An answer that did not come is counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple

import aiohttp

from loadtest.abuse_wire import HOST, Target

HEALTH_EVERY_S: Final = 0.5
ASK_EVERY_S: Final = 1.0
LISTENERS: Final = 3
_HEALTH_WITHIN_S: Final = 5.0
_ANSWER_WITHIN_S: Final = 60.0
_LISTENS_AGAIN_S: Final = 2.0
#: Asked, and the run was over.
UNANSWERED: Final = "unanswered"
_SNAPSHOT: Final = b"event: snapshot\n"
_SQL: Final = "SELECT count() AS jobs FROM jobs WHERE state = {state:String}"


class Seen(NamedTuple):
    """One answer, or none."""

    what: str
    at_s: float  # of the clock that all processes share: when it was asked
    ms: float
    outcome: str  # a status, or what went wrong


class Honest:
    """All of them, in one process."""

    def __init__(self, target: Target) -> None:
        self._url = f"http://{HOST}:{target.port}"
        self._token = {"Authorization": f"Bearer {target.token}"}
        self.seen: list[Seen] = []

    async def go(self) -> None:
        """Until cancelled."""
        # A connection for each question: one that is kept may be closed under the next question.
        connector = aiohttp.TCPConnector(force_close=True, limit=0)
        async with (
            aiohttp.ClientSession(self._url, connector=connector) as session,
            asyncio.TaskGroup() as group,
        ):
            group.create_task(self._health(session, group))
            group.create_task(self._asking(lambda: self._jobs(session)))
            group.create_task(self._asking(lambda: self._sql(session)))
            for _ in range(LISTENERS):
                group.create_task(self._listening(session))

    async def _health(self, session: aiohttp.ClientSession, group: asyncio.TaskGroup) -> None:
        """Open loop: one that takes long holds up no other."""
        while True:
            group.create_task(self._timed("healthz", lambda: session.get("/healthz"), _HEALTH_WITHIN_S))
            await asyncio.sleep(HEALTH_EVERY_S)

    async def _jobs(self, session: aiohttp.ClientSession) -> None:
        await self._timed("jobs", lambda: session.get("/api/v1/jobs?limit=20"), _ANSWER_WITHIN_S)

    async def _sql(self, session: aiohttp.ClientSession) -> None:
        body = {"sql": _SQL, "parameters": {"state": "running"}}

        def ask() -> aiohttp.client._RequestContextManager:
            return session.post("/api/v1/query", json=body, headers=self._token)

        await self._timed("sql", ask, _ANSWER_WITHIN_S)

    async def _asking(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Closed loop: the next one a second after the last, or when that is answered."""
        while True:
            began_s = time.monotonic()
            await ask()
            await asyncio.sleep(max(began_s + ASK_EVERY_S - time.monotonic(), 0))

    async def _timed(
        self, what: str, ask: Callable[[], aiohttp.client._RequestContextManager], within_s: float
    ) -> None:
        at_s, began_s, outcome = time.time(), time.monotonic(), UNANSWERED
        try:
            async with asyncio.timeout(within_s), ask() as answer:
                await answer.read()
                outcome = str(answer.status)
        except (OSError, aiohttp.ClientError) as fault:  # a timeout is an OSError, too
            outcome = type(fault).__name__
        finally:
            self._note(what, at_s, began_s, outcome)

    def _note(self, what: str, at_s: float, began_s: float, outcome: str) -> None:
        self.seen.append(Seen(what, at_s, 1000 * (time.monotonic() - began_s), outcome))

    async def _listening(self, session: aiohttp.ClientSession) -> None:
        """Each snapshot counts as an answer, from the one before it."""
        while True:
            at_s, began_s = time.time(), time.monotonic()
            try:
                timeout = aiohttp.ClientTimeout(total=None, sock_read=30)
                async with session.get("/api/v1/stream", timeout=timeout) as answer:
                    answer.raise_for_status()
                    tail = b""
                    async for chunk in answer.content.iter_any():
                        tail += chunk
                        while _SNAPSHOT in tail:
                            tail = tail.partition(_SNAPSHOT)[2]
                            now_s = time.monotonic()
                            self._note("stream", at_s, began_s, "200")
                            at_s, began_s = time.time(), now_s
                        tail = tail[-len(_SNAPSHOT) :]
                outcome = "closed"
            except (OSError, aiohttp.ClientError) as fault:
                status = getattr(fault, "status", None)
                outcome = type(fault).__name__ if status is None else str(status)
            self._note("stream", at_s, began_s, outcome)
            await asyncio.sleep(_LISTENS_AGAIN_S)
