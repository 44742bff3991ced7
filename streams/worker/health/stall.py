"""Decides whether a shard makes no progress, and whether a restart of the worker would help.

Times are handed in, of a clock that stops while nobody polls.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from streams.worker.health.lag import ShardLag
from streams.worker.health.worker_status import Check

_NAME = "progress"


@dataclass(frozen=True)
class StallLimits:
    """How long a shard that is behind may fold nothing."""

    not_ready_ms: int = 60_000  # then the worker is not ready
    restart_ms: int = 300_000  # then it should be restarted, unless there is another cause


def readiness(standings: Sequence[ShardLag], limits: StallLimits, clock_ms: int, reason: str) -> Check:
    """A failing check while a shard stands still. `reason`: a known cause, '' if there is none."""
    still = sorted(
        (each for each in standings if each.idle_ms > limits.not_ready_ms), key=lambda each: -each.idle_ms
    )
    if not still:
        return Check(_NAME, True, "every shard moves or has nothing to read")
    return Check(_NAME, False, _described(still, clock_ms) + (f"; {reason}" if reason else ""))


class RestartCheck:
    """Tracks since when the worker itself is the only possible cause."""

    def __init__(self, limits: StallLimits) -> None:
        self._limits = limits
        self._excused_ms = 0
        self._member_ms: int | None = None

    def needed(
        self, standings: Sequence[ShardLag], watched_ms: int, clock_ms: int, *, member: bool, reason: str
    ) -> str:
        """Why only a restart helps; '' if it would not: there must have been no other cause for the whole limit."""
        if reason:
            self._excused_ms = watched_ms
        if member:
            self._member_ms = watched_ms
        limit_ms = self._limits.restart_ms
        if watched_ms - self._excused_ms <= limit_ms:
            return ""
        if self._member_ms is not None and watched_ms - self._member_ms > limit_ms:
            silent_s = (watched_ms - self._member_ms) // 1000
            return f"the group has been left for {silent_s} s although Kafka and ClickHouse answer"
        still = [each for each in standings if each.idle_ms > limit_ms]
        if not still:
            return ""
        return f"{_described(still, clock_ms)} although Kafka and ClickHouse answer"


def _described(still: Sequence[ShardLag], clock_ms: int) -> str:
    worst = still[0]
    since = datetime.fromtimestamp((clock_ms - worst.idle_ms) / 1000, UTC).isoformat(" ", "seconds")
    waiting = ", ".join(f"{topic} {count:,}" for topic, count in worst.records.items() if count)
    others = f" (and {len(still) - 1} more shards)" if len(still) > 1 else ""
    return (
        f"shard {worst.number}{others} has folded nothing for {worst.idle_ms // 1000} s, since {since[:19]} UTC, "
        f"while {worst.behind:,} records wait for it ({waiting})"
    )
