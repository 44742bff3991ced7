"""Waits until Kafka and the store are available, with retries, before the worker begins.

It must not try again what waiting cannot mend: such a fault ends the worker, in words.
"""

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


class Startup:
    """The checks of a worker that is not there yet; `stop` is set when it shall not be any more."""

    def __init__(self, stop: asyncio.Event, first_pause_s: float = FIRST_PAUSE_S) -> None:
        self._stop = stop
        self._first_pause_s = first_pause_s
        self._checks: dict[str, Check] = {}

    @property
    def checks(self) -> tuple[Check, ...]:
        """What is waited for, and what is there."""
        return tuple(self._checks.values())

    def expect(self, name: str, where: str) -> None:
        """Say what will be tried."""
        self._checks[name] = Check(name, False, f"waiting for {where}")

    async def reach(self, name: str, where: str, call: Callable[[], T], away: type[Exception]) -> T | None:
        """Return what `call` (which blocks) returns, however often it raises `away`; None once stopped."""
        self.expect(name, where)
        pause_s = self._first_pause_s
        while not self._stop.is_set():
            try:
                found = await asyncio.to_thread(call)
            except away as fault:
                detail = " ".join(str(fault).split())
                self._checks[name] = Check(name, False, detail)
                logger.warning(
                    "waiting for a service to start",
                    extra={
                        "service": where,
                        "retry_s": pause_s,
                        "reason": detail,
                        "runbook": "docs/operations.md#waiting-at-start",
                    },
                )
            else:
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
    """Set `stop` at the first SIGTERM or SIGINT; a second one then does what it always does."""
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
