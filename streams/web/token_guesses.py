"""Counts wrong tokens by address, and delays and logs repeated guesses.

It must not refuse a correct token, read a clock, or grow with the number of addresses.
"""

from __future__ import annotations

import logging
from collections import OrderedDict, deque
from dataclasses import dataclass, field
from typing import Final

logger = logging.getLogger(__name__)

FREE: Final = 5
WINDOW_MS: Final = 60_000
WAIT_MAX_S: Final = 60
_ADDRESSES_MAX: Final = 4_096
_LOGGED_EVERY_MS: Final = 10_000


@dataclass(slots=True)
class _Guesser:
    times_ms: deque[int] = field(default_factory=lambda: deque(maxlen=FREE))
    wait_s: int = 0
    count: int = 0


class TokenGuesses:
    """The wrong tokens presented to one worker."""

    def __init__(self, addresses_max: int = _ADDRESSES_MAX) -> None:
        self._addresses_max = addresses_max
        self._guessers: OrderedDict[str, _Guesser] = OrderedDict()
        self._logged_ms: int | None = None
        self._unsaid = 0
        self.count = 0

    def wrong(self, address: str, now_ms: int) -> int:
        """Count a wrong token; return the seconds its address must wait, 0 if it may retry immediately."""
        self.count += 1
        guesser = self._guessers.pop(address, None) or _Guesser()
        self._guessers[address] = guesser
        if len(self._guessers) > self._addresses_max:
            self._guessers.popitem(last=False)
        guesser.count += 1
        times = guesser.times_ms
        too_many = len(times) == FREE and now_ms - times[0] < WINDOW_MS
        guesser.wait_s = min(max(guesser.wait_s * 2, 1), WAIT_MAX_S) if too_many else 0
        times.append(now_ms)
        self._log(address, guesser.count, now_ms)
        return guesser.wait_s

    def __len__(self) -> int:
        return len(self._guessers)

    def _log(self, address: str, count: int, now_ms: int) -> None:
        if self._logged_ms is not None and now_ms - self._logged_ms < _LOGGED_EVERY_MS:
            self._unsaid += 1
            return
        logger.warning(
            "wrong token",
            extra={
                "address": address,
                "guesses": count,
                "held_back": self._unsaid,
                "runbook": "docs/access.md#tokens",
            },
        )
        self._logged_ms, self._unsaid = now_ms, 0
