"""Pauses reading while too many bytes were read and are not stored."""

from __future__ import annotations

import asyncio
import logging

logger = logging.getLogger(__name__)


class BackpressureGate:
    """While it is closed the agent waits, its buffer fills, and Faust stops fetching."""

    def __init__(self, max_bytes: int) -> None:
        self.max_bytes = max_bytes
        self._half_full = False
        self._opened = asyncio.Event()
        self._opened.set()

    @property
    def is_open(self) -> bool:
        """Whether reading may continue."""
        return self._opened.is_set()

    async def wait(self) -> None:
        """Wait until the gate is open."""
        await self._opened.wait()

    def open(self) -> None:
        """Open the gate, whatever waits."""
        self._opened.set()

    def update(self, waiting_bytes: int) -> bool:
        """Open or close the gate; return whether the backlog has just become half full, so that a checkpoint is due.

        True only once per crossing: what the store refuses, or cannot be stored yet, is retried at the usual interval.
        """
        was_half_full, self._half_full = self._half_full, 2 * waiting_bytes >= self.max_bytes
        if waiting_bytes < self.max_bytes:
            if not self._opened.is_set():
                logger.warning("reading goes on", extra={"waiting_bytes": waiting_bytes})
            self._opened.set()
        elif self._opened.is_set():
            logger.warning(
                "reading pauses",
                extra={"waiting_bytes": waiting_bytes, "runbook": "docs/trouble.md#lag"},
            )
            self._opened.clear()
        return self._half_full and not was_half_full
