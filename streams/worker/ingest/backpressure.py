"""Pauses reading while too many bytes were read and are not stored.

It must not measure: whoever stores says how much waits.
"""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger(__name__)


class BackpressureGate:
    """While it is closed the agent stops, its buffer fills, and Faust stops fetching."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._half_full = False
        self._opened = asyncio.Event()
        self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether reading goes on."""
        return self._opened.is_set()

    async def wait(self) -> None:
        """Return when there is room."""
        await self._opened.wait()

    def open(self) -> None:
        """Let everybody in, whatever waits."""
        self._opened.set()

    def update(self, waiting_bytes: int) -> bool:
        """Open or close as so much waits; whether it has become half full, and storing should not wait for its time.

        That is said once: what the store refuses, or nobody can store yet, is tried again at the usual pace.
        """
        was_half_full, self._half_full = self._half_full, 2 * waiting_bytes >= self.max_bytes
        if waiting_bytes < self.max_bytes:
            if not self._opened.is_set():
                logger.warning("reading goes on", extra={"waiting_bytes": waiting_bytes})
            self._opened.set()
        elif self._opened.is_set():
            logger.warning(
                "reading pauses",
                extra={"waiting_bytes": waiting_bytes, "runbook": "docs/operations.md#lag"},
            )
            self._opened.clear()
        return self._half_full and not was_half_full
