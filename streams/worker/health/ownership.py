"""Tracks since when shards have had no owner: this makes the worker not ready, is logged, and makes it join again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Final

from streams.worker.health.group_shards import GroupShards
from streams.worker.health.worker_status import Check

logger = logging.getLogger(__name__)

#: Longer than a rebalance takes; with the interval of the probe it is seen within half a minute.
LONGEST_MS: Final = 15_000
FIRST_PAUSE_MS: Final = 10_000
LONGEST_PAUSE_MS: Final = 120_000


class Ownership:
    """The shards without an owner, by one worker's look at the group. `ask_again` makes it join the group again."""

    def __init__(self, ask_again: Callable[[], None]) -> None:
        self._ask_again = ask_again
        self._seen: GroupShards | None = None
        self._since_ms: dict[int, int] = {}
        self._now_ms = 0
        self._ask_at_ms: int | None = None
        self._pause_ms = FIRST_PAUSE_MS

    def observe(self, seen: GroupShards | None, now_ms: int) -> None:
        """Take in what the group was described as at `now_ms`; None: the brokers did not say, which changes nothing."""
        if seen is None or now_ms == self._now_ms:
            return
        self._seen, self._now_ms = seen, now_ms
        self._since_ms = {number: self._since_ms.get(number, now_ms) for number in seen.unowned}
        if not self.unowned:
            if self._ask_at_ms is not None:
                logger.info("all shards have an owner again")
            self._ask_at_ms, self._pause_ms = None, FIRST_PAUSE_MS
        elif self._ask_at_ms is None or now_ms >= self._ask_at_ms:
            self._ask(seen, now_ms)

    def _ask(self, seen: GroupShards, now_ms: int) -> None:
        logger.error(
            "shards have no owner",
            extra={
                "shards": list(self.unowned),
                "unowned_s": self.unowned_ms // 1000,
                "runbook": "docs/trouble.md#shards-without-an-owner",
            },
        )
        if seen.rebalances:
            self._ask_at_ms = now_ms  # joining again would only begin what is under way anew
            return
        self._ask_at_ms = now_ms + self._pause_ms
        self._pause_ms = min(2 * self._pause_ms, LONGEST_PAUSE_MS)
        self._ask_again()

    @property
    def unowned(self) -> tuple[int, ...]:
        """The shards that have had no owner for long."""
        return tuple(
            sorted(number for number, since in self._since_ms.items() if self._now_ms - since >= LONGEST_MS)
        )

    @property
    def unowned_ms(self) -> int:
        """Return for how long; 0: all shards have an owner, or had one a moment ago."""
        return max((self._now_ms - self._since_ms[number] for number in self.unowned), default=0)

    @property
    def lowest_owned(self) -> int | None:
        """The lowest shard that any worker owns; None: there is none, or it is not known."""
        return None if self._seen is None else min(self._seen.owned, default=None)

    @property
    def words(self) -> str:
        """Describe the shards without an owner; '' if there are none."""
        if not self.unowned:
            return ""
        one = len(self.unowned) == 1
        return (
            f"{'shard' if one else 'shards'} {_listed(self.unowned)} {'has' if one else 'have'} had no owner for "
            f"{self.unowned_ms // 1000} s: nothing of {'it' if one else 'them'} is metered"
        )

    def check(self) -> Check:
        """The readiness check."""
        return Check("owners", not self.words, self.words or "every shard has an owner")


def _listed(numbers: Iterable[int]) -> str:
    found = [str(number) for number in numbers]
    return ", ".join(found[:8]) + (f" and {len(found) - 8} more" if len(found) > 8 else "")
