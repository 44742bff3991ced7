"""Decides whether a shard stands still, and whether a restart of the worker would help.

It must not mend anything, nor read a clock: times are handed in, of a clock that stands while nobody looks.
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

    not_ready_ms: int = 60_000  # before the worker is not ready any more
    restart_ms: int = 300_000  # before it should be started anew, if nothing else is to blame


def readiness(standings: Sequence[ShardLag], limits: StallLimits, clock_ms: int, reason: str) -> Check:
    """Red while a shard stands still; `reason` says why it may, '' where nothing is known to be the matter."""
    still = sorted(
        (each for each in standings if each.idle_ms > limits.not_ready_ms), key=lambda each: -each.idle_ms
    )
    if not still:
        return Check(_NAME, True, "every shard moves or has nothing to read")
    return Check(_NAME, False, _described(still, clock_ms) + (f"; {reason}" if reason else ""))


class RestartCheck:
    """Knows since when nothing but the worker itself is to blame."""

    def __init__(self, limits: StallLimits) -> None:
        self._limits = limits
        self._excused_ms = 0
        self._member_ms: int | None = None

    def needed(
        self, standings: Sequence[ShardLag], watched_ms: int, clock_ms: int, *, member: bool, reason: str
    ) -> str:
        """Why only a restart helps, '' while it does not or may not: the whole wait must have had no other reason."""
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
