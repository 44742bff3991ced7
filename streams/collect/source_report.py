"""Says on the topic `controls` what became of all that a collector has read, for `trainfare sources` and the alerts.

Seldom: when what is not understood changes, and once an hour.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

from streams.accounts.account import Account
from streams.accounts.record import source_record
from streams.collect.collector import CollectedEvent
from streams.errors import TrainfareError
from streams.topics import Topic

logger = logging.getLogger(__name__)

EVERY_MS: Final = 3_600_000
#: A cause stands until so many polls in a row are without it.
POLLS: Final = 3


class SourceReport:
    """The figures since the last record."""

    def __init__(self, name: str, publish: Callable[[list[CollectedEvent]], None]) -> None:
        self._name = name
        self._publish = publish
        self._sum = Account()
        self._polls = 0
        self._quiet: dict[str, int] = {}  # reason that stands -> polls without it since it was seen
        self._said: tuple[int, frozenset[str]] | None = None
        self._is_failing = False

    def polled(self, account: Account, now_ms: int) -> None:
        """Count what a poll read; publish a record if it is time."""
        self._sum.add(account)
        self._polls += 1
        seen = account.examples.keys()
        quiet = {reason: polls + 1 for reason, polls in self._quiet.items()} | dict.fromkeys(seen, 0)
        self._quiet = {reason: polls for reason, polls in quiet.items() if polls < POLLS}
        standing = frozenset(self._quiet)
        if self._said is not None and self._said[1] == standing and now_ms - self._said[0] < EVERY_MS:
            return
        try:
            record = source_record(self._name, self._sum, self._polls, sorted(standing), now_ms)
            self._publish([CollectedEvent(Topic.CONTROLS, record)])
        except TrainfareError as fault:
            if not self._is_failing:
                logger.warning(
                    "what became of the source's entries is not published, tried again at each poll",
                    extra={
                        "source_name": self._name,
                        "fault": str(fault),
                        "runbook": "docs/operations.md#nothing-collected",
                    },
                )
            self._is_failing = True
            return
        self._said, self._sum, self._polls, self._is_failing = (now_ms, standing), Account(), 0, False
