"""The wall clock of a worker's machine, and what may be wrong with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: Kind of fault -> (jump in ms, ms that it goes on by in each of the world's).
FAULTS: Final = {
    "clock ahead": (2 * 3_600_000, 1.0),
    "clock decades ahead": (27 * 365 * 86_400_000, 1.0),
    "clock back": (-2 * 3_600_000, 1.0),
    "clock drifts": (0, 8.0),
    "clock stands": (0, 0.0),
}


@dataclass
class WallClock:
    """Right until a fault begins, and again when it is mended."""

    fault: str = ""
    since_ms: int = 0

    def begin(self, fault: str, now_ms: int) -> None:
        """A fault from now on."""
        self.fault, self.since_ms = fault, now_ms

    def mend(self) -> None:
        """As NTP does, in one step."""
        self.fault = ""

    def shows(self, now_ms: int) -> int:
        """What it shows."""
        if not self.fault:
            return now_ms
        jump_ms, rate = FAULTS[self.fault]
        return self.since_ms + jump_ms + int((now_ms - self.since_ms) * rate)
