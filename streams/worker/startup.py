"""Waits with retries until Kafka and the store are available, before the worker starts."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from streams.worker.health.worker_status import Check

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
#: Attempts that fail alike are logged once, and then once in so many: about each minute.
SAY_AGAIN_AFTER: Final = 8


@dataclass
class _Tried:
    """A dependency that is tried until it is there."""

    where: str
    attempts: int = 0  # that failed
    reason: str = ""  # of the last one
    is_there: bool = False


class Startup:
    """The readiness checks of a worker that is still starting. `stop` is set when it should give up."""

    def __init__(self, stop: asyncio.Event, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self._stop = stop
        self._first_pause_s = first_pause_s
        self._checks: dict[str, Check] = {}
        self._tried: dict[str, _Tried] = {}
        self._said: set[str] = set()  # the reasons that were logged last

    @property
    def checks(self) -> tuple[Check, ...]:
        """The dependencies, and which of them are available."""
        return tuple(self._checks.values())

    def expect(self, name: str, where: str) -> None:
        """Register a dependency that will be tried."""
        self._checks[name] = Check(name, False, f"waiting for {where}")

    async def reach(self, name: str, where: str, call: Callable[[], T], away: type[Exception]) -> T | None:
        """Call `call` (which blocks) until it no longer raises `away`; return its result, or None once stopped.

        Dependencies that are tried at a time are named in one line of the log, once each of them has failed or is there.
        """
        self.expect(name, where)
        tried = self._tried[name] = _Tried(where)
        pause_s = self._first_pause_s
        while not self._stop.is_set():
            try:
                found = await asyncio.to_thread(call)
            except away as fault:
                detail = " ".join(str(fault).split())
                self._checks[name] = Check(name, False, detail)
                tried.attempts, tried.reason = tried.attempts + 1, detail
                self._say(tried)
            else:
                tried.is_there = True
                self._say(tried)
                self._checks[name] = Check(name, True, where)
                return found
            await self._pause(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        return None

    def _say(self, turn: _Tried) -> None:
        """Log what is waited for, if that is new or `turn` has failed for long; and once all of it is there."""
        away = [each for each in self._tried.values() if not each.is_there]
        if any(not each.attempts for each in away):
            return  # it may be away as well: one line names all
        reasons = {each.reason for each in away}
        services = ", ".join(each.where for each in away or self._tried.values())
        attempts = max(each.attempts for each in self._tried.values())
        if away and (reasons - self._said or (turn is away[0] and turn.attempts % SAY_AGAIN_AFTER == 0)):
            self._said = reasons
            logger.warning(
                "waiting for services to start",
                extra={
                    "services": services,
                    "attempts": attempts,
                    "reason": "; ".join(each.reason for each in away),
                    "runbook": "docs/trouble.md#waiting-at-start",
                },
            )
        elif not away and self._said:
            self._said = set()
            logger.info("services have started", extra={"services": services, "attempts": attempts})

    async def _pause(self, pause_s: float) -> None:
        try:
            await asyncio.wait_for(self._stop.wait(), pause_s)
        except TimeoutError:
            return


@asynccontextmanager
async def stopped_by_signals(stop: asyncio.Event) -> AsyncIterator[None]:
    """Set `stop` on the first SIGTERM or SIGINT; a second signal has its default effect."""
    loop = asyncio.get_running_loop()
    signals = (signal.SIGTERM, signal.SIGINT)

    def stop_now() -> None:
        logger.info("stopping, storing what was metered")
        stop.set()
        remove()

    def remove() -> None:
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, stop_now)
    try:
        yield
    finally:
        remove()
