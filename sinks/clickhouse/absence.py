"""Logs that a store refuses requests, at intervals that it still does, and once that it has recovered.

It limits log lines, as an unavailable store is tried often.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

SAY_AGAIN_AFTER_S: Final = 30.0


class Absence:
    """The state of one store; any thread may report.

    A store that has never answered is not logged here: whoever opens it reports that, and may be waiting for it.
    """

    def __init__(self, where: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._where = where
        self._now_s = now_s
        self._lock = threading.Lock()
        self._since_s: float | None = None
        self._said_s = 0.0
        self._failures = 0
        self._has_served = False

    def failed(self, fault: Exception) -> None:
        """Record a request that failed and will be retried."""
        with self._lock:
            now_s = self._now_s()
            if not self._has_served:
                return
            self._failures += 1
            if self._since_s is None:
                self._since_s = self._said_s = now_s
                self._log(fault, 0)
            elif now_s - self._said_s >= SAY_AGAIN_AFTER_S:
                self._said_s = now_s
                self._log(fault, now_s - self._since_s)

    def served(self) -> None:
        """Record a successful request."""
        self._has_served = True
        if self._since_s is None:  # the usual case; a race only delays the line until the next request
            return
        with self._lock:
            if self._since_s is not None:
                away_s = self._now_s() - self._since_s
                logger.warning(
                    "store is available again",
                    extra={"store": self._where, "away_s": round(away_s, 1), "failures": self._failures},
                )
                self._since_s, self._failures = None, 0

    def _log(self, fault: Exception, away_s: float) -> None:
        logger.warning(
            "store is unavailable, retrying",
            extra={
                "store": self._where,
                "reason": str(fault),
                "away_s": round(away_s),
                "failures": self._failures,
                "runbook": "docs/trouble.md#store-unavailable",
            },
        )
