"""Says in the log that a store does not take requests, now and then that it still does not, and once that it does again.

It must not decide whether to try again, and keeps a flood of equal lines out: a store that is away is asked often.
"""

import logging
import threading
import time
from collections.abc import Callable
from typing import Final

logger = logging.getLogger(__name__)

SAY_AGAIN_AFTER_S: Final = 30.0


class Absence:
    """Of one store; any thread may report."""

    def __init__(self, where: str, now_s: Callable[[], float] = time.monotonic) -> None:
        self._where = where
        self._now_s = now_s
        self._lock = threading.Lock()
        self._since_s: float | None = None
        self._said_s = 0.0
        self._failures = 0

    def failed(self, fault: Exception) -> None:
        """A request was not served and will be tried again."""
        with self._lock:
            now_s = self._now_s()
            self._failures += 1
            if self._since_s is None:
                self._since_s = self._said_s = now_s
                self._log(fault, 0)
            elif now_s - self._said_s >= SAY_AGAIN_AFTER_S:
                self._said_s = now_s
                self._log(fault, now_s - self._since_s)

    def served(self) -> None:
        """A request was served."""
        if self._since_s is None:  # nearly always; a race only delays the line to the next request
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
                "runbook": "docs/operations.md#store-unavailable",
            },
        )
