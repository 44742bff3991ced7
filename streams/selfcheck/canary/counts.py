"""The canary's counters for the metrics."""

from __future__ import annotations

from collections import deque
from typing import Final

from streams.selfcheck.canary.judge import CanaryResult
from streams.selfcheck.canary.plan import EXPECTED_NANO

#: More runs than are ever watched concurrently.
_REMEMBERED: Final = 64


class CanaryCounts:
    """Counters of the canary since the process started."""

    def __init__(self) -> None:
        self.runs = self.wrong = self.late = 0
        self.right_at_ms: int | None = None
        self.latency_ms: int | None = None
        self.error_ratio: float | None = None
        self._late: deque[str] = deque(maxlen=_REMEMBERED)

    def add(self, result: CanaryResult, now_ms: int) -> None:
        """Count a result; a run that was late and then arrives is late once."""
        if result.found_nano is not None:
            self.error_ratio = abs(result.found_nano - EXPECTED_NANO) / EXPECTED_NANO
        if result.delay_ms is not None and result.outcome != "wrong":
            self.latency_ms = result.delay_ms
        if result.outcome == "right":
            self.right_at_ms = now_ms
        if result.outcome == "late" and result.run.job_id in self._late:
            return
        if result.outcome == "late":
            self._late.append(result.run.job_id)
        self.runs += 1
        self.wrong += result.outcome == "wrong"
        self.late += result.outcome == "late"
