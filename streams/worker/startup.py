"""Waits with retries until Kafka and the store are available, before the worker starts."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

from streams.worker.health.worker_status import Check

logger = logging.getLogger(__name__)

T = TypeVar("T")

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 10.0
#: Attempts that fail alike are logged once, and then once in so many: about each minute.
SAY_AGAIN_AFTER: Final = 8


class Startup:
    """The readiness checks of a worker that is still starting. `stop` is set when it should give up."""

    def __init__(self, stop: asyncio.Event, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self._stop = stop
        self._first_pause_s = first_pause_s
        self._checks: dict[str, Check] = {}

    @property
    def checks(self) -> tuple[Check, ...]:
        """The dependencies, and which of them are available."""
        return tuple(self._checks.values())

    def expect(self, name: str, where: str) -> None:
        """Register a dependency that will be tried."""
        self._checks[name] = Check(name, False, f"waiting for {where}")

    async def reach(self, name: str, where: str, call: Callable[[], T], away: type[Exception]) -> T | None:
        """Call `call` (which blocks) until it no longer raises `away`; return its result, or None once stopped."""
        self.expect(name, where)
        pause_s = self._first_pause_s
        attempts, said = 0, ""
        while not self._stop.is_set():
            try:
                found = await asyncio.to_thread(call)
            except away as fault:
                detail = " ".join(str(fault).split())
                self._checks[name] = Check(name, False, detail)
                attempts += 1
                if detail != said or attempts % SAY_AGAIN_AFTER == 0:
                    said = detail
                    logger.warning(
                        "waiting for a service to start",
                        extra={
                            "service": where,
                            "attempts": attempts,
                            "reason": detail,
                            "runbook": "docs/trouble.md#waiting-at-start",
                        },
                    )
            else:
                if attempts:
                    logger.info("service has started", extra={"service": where, "attempts": attempts})
                self._checks[name] = Check(name, True, where)
                return found
            await self._pause(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)
        return None

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
